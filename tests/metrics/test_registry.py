"""Metrics by name, read when somebody asks."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument
from milepost.metrics.histogram import Histogram
from milepost.metrics.names import Kind, MetricName
from milepost.metrics.registry import Registry

NAME = MetricName("kafka.server", "ReplicaManager", "PartitionCount")


def test_value_is_looked_up_when_it_is_asked_for():
    registry, partitions = Registry(), []
    registry.gauge(NAME, "Partitions", lambda: len(partitions))
    (metric,) = registry
    assert list(metric.samples()) == [((), 0)]
    partitions.append("t-0")
    assert list(metric.samples()) == [((), 1)]


def test_each_kind_says_what_it_is():
    registry = Registry()
    registry.gauge(MetricName("d", "t", "gauge"), "", lambda: 1)
    registry.counter(MetricName("d", "t", "counter"), "", lambda: 1)
    registry.summary(MetricName("d", "t", "summary"), "", Histogram())
    assert [metric.kind for metric in registry] == [Kind.GAUGE, Kind.COUNTER, Kind.SUMMARY]


def test_what_is_gone_is_not_given_any_more():
    registry, topics = Registry(), {"a": 1, "b": 2}
    registry.add(NAME, Kind.COUNTER, "", lambda: [((("topic", topic),), count) for topic, count in topics.items()])
    (metric,) = registry
    assert list(metric.samples()) == [((("topic", "a"),), 1), ((("topic", "b"),), 2)]
    del topics["a"]
    assert list(metric.samples()) == [((("topic", "b"),), 2)]


def test_name_that_is_taken_is_refused():
    registry = Registry()
    registry.gauge(NAME, "", lambda: 1)
    with pytest.raises(InvalidArgument, match=r"kafka\.server:type=ReplicaManager,name=PartitionCount is registered already"):
        registry.gauge(NAME, "", lambda: 2)

"""What goes into topics and comes out of them, for each and for all together."""

from __future__ import annotations

from milepost.metrics.registry import Registry
from milepost.metrics.topic_metrics import BrokerTopicMetrics


def values(metrics: BrokerTopicMetrics, name: str) -> dict[str, float]:
    registry = Registry()
    metrics.register(registry)
    (metric,) = [metric for metric in registry if metric.name.name == name]
    return {dict(labels).get("topic", "all"): value for labels, value in metric.samples()}


def test_sum_of_all_topics_comes_first_and_then_each():
    metrics = BrokerTopicMetrics()
    metrics.of("a").bytes_in += 10
    metrics.of("b").bytes_in += 5
    assert list(values(metrics, "BytesInPerSec").items()) == [("all", 15), ("a", 10), ("b", 5)]


def test_topic_that_is_deleted_disappears_and_the_sum_does_not_fall():
    metrics = BrokerTopicMetrics()
    metrics.of("a").messages_in += 10
    metrics.of("b").messages_in += 5
    metrics.forget("a")
    assert values(metrics, "MessagesInPerSec") == {"all": 15, "b": 5}
    metrics.of("a").messages_in += 1
    assert values(metrics, "MessagesInPerSec") == {"all": 16, "a": 1, "b": 5}


def test_topic_that_nobody_knows_can_be_forgotten():
    BrokerTopicMetrics().forget("never seen")


def test_broker_without_topics_has_sums_of_nothing():
    metrics = BrokerTopicMetrics()
    assert values(metrics, "BytesOutPerSec") == {"all": 0}
    assert values(metrics, "InvalidMessageCrcRecordsPerSec") == {"all": 0}


def test_names_are_kafkas():
    registry = Registry()
    BrokerTopicMetrics().register(registry)
    assert {metric.name.name for metric in registry} == {
        "MessagesInPerSec",
        "BytesInPerSec",
        "BytesOutPerSec",
        "BytesRejectedPerSec",
        "TotalProduceRequestsPerSec",
        "FailedProduceRequestsPerSec",
        "TotalFetchRequestsPerSec",
        "FailedFetchRequestsPerSec",
        "ReplicationBytesInPerSec",
        "ReplicationBytesOutPerSec",
        "InvalidMagicNumberRecordsPerSec",
        "InvalidMessageCrcRecordsPerSec",
        "InvalidOffsetOrSequenceRecordsPerSec",
        "NoKeyCompactedTopicRecordsPerSec",
    }

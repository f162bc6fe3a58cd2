"""Which partitions are throttled, and when their rate is exceeded."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.config import BrokerConfig, LogConfig
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.topic_partition import TopicPartition


@pytest.fixture
def clock():
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def quotas(clock):
    """Of broker 2."""
    return ReplicationQuotas(2, BrokerConfig.parse({"leader.replication.throttled.rate": 1000}), clock.now_ms)


def throttled(quota, topic="t"):
    return [number for number in range(4) if quota.is_throttled(TopicPartition(topic, number))]


def test_pairs_of_other_brokers_are_not_ours(quotas):
    quotas.use_topic(
        "t",
        LogConfig.parse(
            {"leader.replication.throttled.replicas": "0:2,1:1,3:2", "follower.replication.throttled.replicas": "1:2"}
        ),
    )
    assert throttled(quotas.leader) == [0, 3]
    assert throttled(quotas.follower) == [1]
    assert throttled(quotas.leader, "another") == []


def test_star_is_every_partition_of_the_topic(quotas):
    quotas.use_topic("t", LogConfig.parse({"leader.replication.throttled.replicas": "*"}))
    assert throttled(quotas.leader) == [0, 1, 2, 3]
    assert throttled(quotas.follower) == []


def test_topic_that_names_none_any_more_is_free(quotas):
    quotas.use_topic("t", LogConfig.parse({"leader.replication.throttled.replicas": "*"}))
    quotas.use_topic("t", LogConfig())
    assert throttled(quotas.leader) == [] and not quotas.leader.is_in_use


def test_rate_at_the_limit_is_not_above_it(quotas, clock):
    quotas.use_topic("t", LogConfig.parse({"leader.replication.throttled.replicas": "*"}))
    quotas.leader.record(1000)
    assert not quotas.leader.is_exceeded
    quotas.leader.record(1)
    assert quotas.leader.is_exceeded
    clock.advance(1001)
    assert not quotas.leader.is_exceeded


def test_burst_is_paid_for_by_waiting(quotas, clock):
    quotas.use_topic("t", LogConfig.parse({"leader.replication.throttled.replicas": "*"}))
    quotas.leader.record(5000)
    clock.advance(4999)
    assert quotas.leader.is_exceeded
    clock.advance(1)
    assert not quotas.leader.is_exceeded


def test_limit_changes_while_it_runs(quotas):
    quotas.use_topic("t", LogConfig.parse({"follower.replication.throttled.replicas": "0:2"}))
    quotas.follower.record(10**9)
    assert not quotas.follower.is_exceeded, "without a rate there is no limit"
    quotas.use_rates(BrokerConfig.parse({"follower.replication.throttled.rate": 10**6}))
    assert quotas.follower.is_exceeded

"""What Kafka's one broker answers to requests that make sense with several, and about properties that it has no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from milepost.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
)
from tests.broker.settings import alter, configs
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

CLIENT_METRICS, SET = 16, 0
DROPPED = {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}


@pytest.fixture
def wire(brokers) -> Iterator[Wire]:
    with Wire(brokers.start().bootstrap_servers) as wire:
        yield wire


@pytest.mark.parametrize(
    ("partition", "replicas", "code"),
    [
        (0, [0], 0),
        (0, [1], 39),
        (0, [0, 1], 39),
        (0, [0, 0], 39),
        (0, [], 39),
        (0, None, 85),
        (7, [0], 3),
    ],
)
@pytest.mark.parametrize("version", [0, 1])
def test_partition_can_be_moved_to_where_it_is_and_nowhere_else(wire, version, partition, replicas, code):
    create(wire, wanted("t"))
    topic = AlterPartitionReassignmentsRequest.Topic
    parts = [topic.Partition(partition_index=partition, replicas=replicas)]
    answer = wire.ask(AlterPartitionReassignmentsRequest(topics=[topic(name="t", partitions=parts)], timeout_ms=1000), version)
    (found,) = answer.responses[0].partitions
    assert (answer.error_code, found.partition_index, found.error_code) == (0, partition, code)


def test_partition_that_is_to_be_moved_twice_refuses_the_request(wire):
    topic = AlterPartitionReassignmentsRequest.Topic
    parts = [topic.Partition(partition_index=0, replicas=[0])] * 2
    answer = wire.ask(AlterPartitionReassignmentsRequest(topics=[topic(name="t", partitions=parts)], timeout_ms=1000), 1)
    assert (answer.error_code, answer.responses) == (42, [])


def quorum_of(wire: Wire, *asked: tuple[str, int], version: int = 2) -> Any:
    topic = DescribeQuorumRequest.Topic
    topics = [topic(topic_name=name, partitions=[topic.Partition(partition_index=number)]) for name, number in asked]
    return wire.ask(DescribeQuorumRequest(topics=topics), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_quorum_is_the_one_broker(wire, version):
    before = time.time() * 1000
    answer = quorum_of(wire, ("__cluster_metadata", 0), version=version)
    (topic,) = answer.topics
    (found,) = topic.partitions
    assert (answer.error_code, topic.topic_name, found.partition_index, found.error_code) == (0, "__cluster_metadata", 0, 0)
    assert (found.leader_id, found.leader_epoch, found.observers) == (0, 0, [])
    (voter,) = found.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (0, found.high_watermark)
    if version >= 1:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp
        assert before - 1000 < voter.last_fetch_timestamp < before + 60_000
    if version >= 2:
        (node,) = answer.nodes
        (listener,) = node.listeners
        assert (node.node_id, listener.name, (listener.host, listener.port)) == (0, "PLAINTEXT", wire.socket.getpeername())
        assert voter.replica_directory_id == bytes(16)


def test_end_of_the_quorums_log_moves_with_every_change(wire):
    ends = []
    for name in ("a", "b"):
        create(wire, wanted(name))
        ends.append(quorum_of(wire, ("__cluster_metadata", 0)).topics[0].partitions[0].high_watermark)
    assert ends[0] >= 1
    assert ends[1] == ends[0] + 1


@pytest.mark.parametrize(
    "asked",
    [
        [("visits", 0)],
        [("__cluster_metadata", 1)],
        [("__cluster_metadata", 0), ("visits", 0)],
        [("__cluster_metadata", 0)] * 2,
    ],
)
def test_quorum_of_anything_else_is_unknown(wire, asked):
    answer = quorum_of(wire, *asked)
    assert answer.error_code == 0
    found = [(topic.topic_name, part.partition_index, part.error_code) for topic in answer.topics for part in topic.partitions]
    assert found == [(name, number, 3) for name, number in asked]


def test_quorum_beside_a_topic_without_partitions_is_unknown(wire):
    topic = DescribeQuorumRequest.Topic
    topics = [topic(topic_name="__cluster_metadata", partitions=[topic.Partition()]), topic(topic_name="visits")]
    answer = wire.ask(DescribeQuorumRequest(topics=topics), 2)
    assert [part.error_code for part in answer.topics[0].partitions] == [3]
    assert answer.topics[1].partitions == []


def test_quorum_of_nothing_is_nothing(wire):
    assert quorum_of(wire).topics == []


def test_properties_that_kafka_dropped_are_shown_only_where_they_are_set(wire):
    request = CreateTopicsRequest(
        topics=[wanted("plain"), wanted("old", message_downconversion_enable="false")], timeout_ms=60_000
    )
    shown = {topic.name: {config.name for config in topic.configs} for topic in wire.ask(request, 7).topics}
    assert shown["plain"] & DROPPED == set()
    assert shown["old"] & DROPPED == {"message.downconversion.enable"}
    assert shown["old"] - shown["plain"] == {"message.downconversion.enable"}
    assert set(configs(wire, 2, "plain")) == shown["plain"]
    assert configs(wire, 2, "old")["message.downconversion.enable"][:2] == ("false", 1)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("interval.ms", "bbb", 40),
        ("interval.ms", "99", 42),
        ("interval.ms", "3600001", 42),
        ("interval", "1000", 42),
        ("match", "client_id", 40),
        ("match", "nobody=x", 40),
        ("interval.ms", "1000", 42),
    ],
)
def test_client_metrics_are_checked_as_kafka_does_and_not_kept(wire, name, value, code):
    found, message = alter(wire, CLIENT_METRICS, "mine", (name, SET, value))[:2]
    assert found == code, message
    resource = DescribeConfigsRequest.Resource(resource_type=CLIENT_METRICS, resource_name="mine", configuration_keys=None)
    (result,) = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert (result.error_code, result.configs) == (42, [])

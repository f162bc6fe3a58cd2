"""Logs that a broker still has and should not: what became of their topic while it was away decides what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Delete
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.protocol.messages import DescribeProducersRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.simulation.broker import DATA
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster

NAME = TopicPartition("t", 0)


class Town:
    """Three brokers have one partition with ten records."""

    def __init__(self) -> None:
        self.cluster = cluster = Cluster(0)
        cluster.versions = protocol_versions("3.9")
        cluster.brokers = {number: broker for number, broker in cluster.brokers.items() if number <= 3}
        for broker in cluster.brokers.values():
            broker.settings.update({"inter.broker.protocol.version": "3.9", "min.insync.replicas": 1})
            broker.start()
        self.run(1)
        cluster.make_topic(NAME.topic, 1)
        self.run(3)
        self.write(10)

    def run(self, seconds: float) -> None:
        self.cluster.world.run(self.cluster.world.now + seconds)

    def write(self, count: int) -> None:
        state = self.cluster.state(NAME)
        assert state is not None
        for _ in range(count):
            self.cluster.brokers[state.leader].broker.replicas.append(NAME, build_batch([Record(0, 1, None, b"value")]))
        self.run(1)

    def ends(self) -> dict[int, int]:
        found = {number: broker.partition(NAME) for number, broker in self.cluster.brokers.items()}
        return {number: partition.log.end_offset for number, partition in found.items() if partition is not None}

    def directories(self, broker_id: int) -> list[str]:
        """`t-0`, or what came of it."""
        names = self.cluster.brokers[broker_id].disk.listdir(DATA)
        found = [parse_directory_name(name) for name in names if name.startswith("t-0")]
        return sorted(suffix for _, suffix in found)


@pytest.fixture
def town():
    made = Town()
    assert made.ends() == {1: 10, 2: 10, 3: 10}
    return made


def test_topic_that_is_deleted_while_a_broker_is_away_goes_when_it_is_back(town):
    town.cluster.brokers[3].crash(is_power_failure=False)
    town.run(5)
    town.cluster.write(Create(znodes.delete_topic_path(NAME.topic)))
    town.run(5)
    assert znodes.topic_path(NAME.topic) in town.cluster.zookeeper.model.nodes, "the deletion waits for it"
    town.cluster.brokers[3].start()
    town.run(10)
    assert znodes.topic_path(NAME.topic) not in town.cluster.zookeeper.model.nodes
    assert not town.cluster.brokers[3].has_log(NAME)


def test_replica_that_is_moved_away_meanwhile_keeps_its_log_and_can_come_back(town):
    town.cluster.brokers[3].crash(is_power_failure=False)
    town.run(5)
    town.cluster.reassign(NAME, [1, 2])
    town.write(5)
    town.run(5)
    assert town.cluster.assignment(NAME).replicas == (1, 2)
    town.cluster.brokers[3].start()
    town.run(10)
    assert town.ends() == {1: 15, 2: 15}
    assert town.directories(3) == [""]
    town.cluster.reassign(NAME, [1, 2, 3])
    town.run(10)
    assert town.ends() == {1: 15, 2: 15, 3: 15}


def test_log_of_an_earlier_topic_of_the_same_name_is_set_aside(town):
    for broker in town.cluster.brokers.values():
        broker.crash(is_power_failure=False)
    town.run(5)
    model = town.cluster.zookeeper.model
    for path in sorted((path for path in model.nodes if path.startswith(znodes.topic_path(NAME.topic))), reverse=True):
        town.cluster.write(Delete(path))
    town.cluster.make_topic(NAME.topic, 1)
    for broker in town.cluster.brokers.values():
        broker.start()
    town.run(10)
    assert town.ends() == {1: 0, 2: 0, 3: 0}
    town.write(1)
    assert town.ends() == {1: 1, 2: 1, 3: 1}
    assert [town.directories(number) for number in (1, 2, 3)] == [["", "stray"]] * 3
    town.cluster.brokers[3].crash(is_power_failure=False)
    town.cluster.brokers[3].start()
    town.run(10)
    assert town.directories(3) == ["", "stray"], "and stays there"


def test_broker_that_is_no_replica_says_so_when_it_is_asked_for_producers(town):
    town.cluster.reassign(NAME, [1, 2])
    town.run(5)
    client = Client(town.cluster, "tool")
    topics = [DescribeProducersRequest.Topic(name=name, partition_indexes=[0, 1]) for name in (NAME.topic, "nope")]
    found: dict[int, list[int]] = {}
    for number in (1, 3):

        def answered(answer: Any, number: int = number) -> None:
            found[number] = [part.error_code for topic in answer.topics for part in topic.partitions]

        client.ask(number, DescribeProducersRequest(topics=topics), 0, answered, lambda error: None)
    town.run(1)
    assert found == {1: [0, 3, 3, 3], 3: [6, 3, 3, 3]}

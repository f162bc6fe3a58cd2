"""Followers of an earlier registration (KIP-903), in a simulated cluster: leaders say which they saw, and do not listen to the dead."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.cluster.protocol_versions import protocol_versions
from milepost.protocol.messages import FetchRequest
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition
from tests.simulation.cluster import Cluster
from tests.simulation.network import Caller

NAME = TopicPartition("t", 0)


class Town:
    def __init__(self, version: str):
        self.cluster = cluster = Cluster(0)
        cluster.versions = protocol_versions(version)
        cluster.brokers = {number: broker for number, broker in cluster.brokers.items() if number <= 3}
        self.asked: list[Any] = []
        for broker in cluster.brokers.values():
            broker.settings.update({"inter.broker.protocol.version": version, "min.insync.replicas": 1})
            broker.start()
            self.listen(broker)
        self.run(1)
        cluster.make_topic(NAME.topic, 1)
        self.run(3)

    def listen(self, broker: Any) -> None:
        serve = broker.serve

        def heard(request: Any, *rest: Any) -> None:
            if type(request).__name__ == "AlterPartitionRequest":
                self.asked.append(request)
            serve(request, *rest)

        broker.serve = heard

    def run(self, seconds: float) -> None:
        self.cluster.world.run(self.cluster.world.now + seconds)

    def epoch(self, broker_id: int) -> int:
        return self.cluster.brokers[broker_id].broker.member.broker_epoch

    def leader(self) -> Partition:
        state = self.cluster.state(NAME)
        assert state is not None
        partition = self.cluster.brokers[state.leader].partition(NAME)
        assert partition is not None
        return partition

    def bounce(self, broker_id: int) -> None:
        self.cluster.brokers[broker_id].crash(is_power_failure=False)
        self.run(5)
        self.cluster.brokers[broker_id].start()
        self.run(10)


def test_leader_tells_in_which_registration_it_saw_its_followers():
    town = Town("3.9")
    town.bounce(3)
    assert town.leader().in_sync_replicas == [1, 2, 3]
    (told,) = [
        {each.broker_id: each.broker_epoch for each in part.new_isr_with_epochs}
        for request in town.asked
        for topic in request.topics
        for part in topic.partitions
        if len(part.new_isr_with_epochs) == 3
    ]
    assert told == {number: town.epoch(number) for number in (1, 2, 3)}


@pytest.mark.parametrize("version", ["3.4", "3.2", "2.8", "2.7"])
def test_followers_come_back_also_where_registrations_are_not_told(version):
    town = Town(version)
    town.bounce(3)
    assert town.leader().in_sync_replicas == [1, 2, 3]


def test_late_fetch_of_an_earlier_registration_is_refused():
    town = Town("3.9")
    earlier = town.epoch(3)
    town.bounce(3)
    answers: list[Any] = []
    leader = town.leader()
    topic = FetchRequest.Topic(
        topic_id=leader.topic_id, partitions=[FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1000)]
    )
    for epoch in (earlier, town.epoch(3)):
        request = FetchRequest(topics=[topic], session_epoch=-1)
        request.replica_state = FetchRequest.ReplicaState(replica_id=3, replica_epoch=epoch)
        town.cluster.brokers[leader.leader_id].serve(request, 17, answers.append, Caller("late", 3))
    assert [answer.responses[0].partitions[0].error_code for answer in answers] == [6, 0]

"""What brokers of a simulated cluster tell of replication: partitions that nobody leads, and elections that lose records."""

from __future__ import annotations

import pytest

from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create
from milepost.errors import MilepostError
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.simulation.cluster import Cluster

NAME = TopicPartition("t", 0)


def run(cluster, seconds):
    cluster.world.run(cluster.world.now + seconds)


def facts(cluster):
    return {
        number: broker.broker.topology.view.replication_metrics() for number, broker in cluster.brokers.items() if broker.is_up
    }


def the_controllers(cluster, name):
    """Of the one that is controller; the others say 0."""
    said = {number: getattr(each, name) for number, each in facts(cluster).items()}
    (controller,) = [number for number in said if cluster.brokers[number].broker.controller is not None]
    assert all(value == 0 for number, value in said.items() if number != controller)
    return said[controller]


def test_unclean_election_is_told_by_the_controller():
    cluster = Cluster(0)
    cluster.versions = protocol_versions("3.9")
    cluster.brokers = {number: broker for number, broker in cluster.brokers.items() if number <= 3}
    for broker in cluster.brokers.values():
        broker.settings.update({"inter.broker.protocol.version": "3.9", "min.insync.replicas": 1})
        broker.start()
    run(cluster, 1)
    controller = next(number for number, broker in cluster.brokers.items() if broker.broker.member.is_controller)
    first, second = (number for number in (1, 2, 3) if number != controller)
    node = znodes.TopicNode({0: znodes.Assignment((first, second))}, None)
    cluster.write(
        Create(znodes.config_path("topics", "t"), znodes.config({"unclean.leader.election.enable": "true"})),
        Create(znodes.topic_path("t"), znodes.topic(node, 3)),
    )
    run(cluster, 3)
    assert the_controllers(cluster, "topics") == the_controllers(cluster, "partitions") == 1
    cluster.brokers[second].crash(is_power_failure=False)
    run(cluster, 5)
    for _ in range(10):
        cluster.brokers[first].broker.replicas.append(NAME, build_batch([Record(0, 1, None, b"value")]))
    run(cluster, 1)
    assert the_controllers(cluster, "offline_partitions") == 0
    cluster.brokers[first].crash(is_power_failure=False)
    run(cluster, 5)
    assert the_controllers(cluster, "offline_partitions") == 1
    assert the_controllers(cluster, "unclean_elections") == 0
    cluster.brokers[second].start()
    run(cluster, 10)
    assert the_controllers(cluster, "offline_partitions") == 0
    assert the_controllers(cluster, "unclean_elections") == 1
    assert the_controllers(cluster, "imbalanced_partitions") == 1


def test_batches_that_are_refused_are_counted_as_kafka_counts_them():
    """Too few replicas in sync is a failed produce; another leader is the client's news. Both are produces."""
    cluster = Cluster(0)
    for broker in cluster.brokers.values():
        broker.settings["min.insync.replicas"] = 2
        broker.start()
    run(cluster, 1)
    cluster.make_topic("t", 1)
    run(cluster, 3)
    leader = next(broker for broker in cluster.brokers.values() if broker.partition(NAME).is_leader)
    others = [broker for broker in cluster.brokers.values() if broker is not leader]
    data = build_batch([Record(0, 1, None, b"value")])

    def counted(broker, **wanted):
        replicas = broker.broker.replicas
        topic = replicas.topic_metrics.of("t")
        before = topic.produce_requests, topic.failed_produce_requests
        with pytest.raises(MilepostError) as refusal:
            replicas.append(NAME, data, **wanted)
        return refusal.value.code, topic.produce_requests - before[0], topic.failed_produce_requests - before[1]

    assert counted(next(broker for broker in others if broker.partition(NAME) is not None)) == (6, 1, 0)
    for broker in others:
        broker.crash(is_power_failure=False)
    run(cluster, 5)
    assert counted(leader, for_all=True) == (19, 1, 1)

"""Our brokers and Kafka 3.9.1's in one cluster on one ZooKeeper: led by either, followed by either, controlled by either."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.coordinator.hashing import partition_of
from milepost.protocol.messages import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest
from tests.cluster.asking import leaders, metadata, partitions_of, until
from tests.cluster.kafka_processes import MixedProcesses
from tests.cluster.writing import (
    Writer,
    create_topic,
    ensure_nothing_lost,
    ensure_replicas_equal,
    ensure_transactions_are_seen_as_a_whole,
    read_all,
)
from tests.waiting import PROCESS_PATIENCE

pytestmark = [pytest.mark.kafka]

TOPIC, PARTITIONS = "visits", 3
KINDS = {
    "kafka is controller": ["kafka", "milepost", "kafka"],
    "milepost is controller": ["milepost", "kafka", "milepost"],
}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS.keys())
def cluster(request, tmp_path_factory, zookeeper_server):
    directory = tmp_path_factory.mktemp("mixed")
    with MixedProcesses(directory, f"{zookeeper_server.address}/{directory.name}", request.param) as cluster:
        yield cluster


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS.keys())
def test_older_protocol(tmp_path, zookeeper, kinds):
    """At 2.3: states of partitions written by their leaders, epochs asked for, no topic ids, producer ids from ZooKeeper."""
    with MixedProcesses(tmp_path, zookeeper, kinds, {"inter.broker.protocol.version": "2.3"}) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3)
        with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
            writer.wait_for(300)
        assert not writer.failed
        cluster.wait_until_in_sync(TOPIC)
        ensure_nothing_lost(writer, read_all(cluster.bootstrap, TOPIC, PARTITIONS, writer.acked), cluster.kafkas)
        assert [broker.stop() for broker in cluster.brokers.values()] == [0, 0, 0]
        ensure_replicas_equal(cluster, TOPIC, PARTITIONS)


def ask_controller(cluster, request):
    broker = cluster.brokers[metadata(cluster.bootstrap).controller_id]
    with Connection(Address("127.0.0.1", broker.port), timeout=PROCESS_PATIENCE) as connection:
        return connection.ask(request)


def test_first_broker_is_controller(cluster):
    assert metadata(cluster.bootstrap).controller_id == 1


def test_each_leads_and_each_follows(cluster):
    create_topic(cluster, "spread", 3, 3)
    assert sorted(leaders(cluster.bootstrap, "spread").values()) == [1, 2, 3]
    with Writer(cluster.bootstrap, "spread", 3) as writer:
        writer.wait_for(300)
    for broker in cluster.brokers.values():
        assert len(read_all(broker.address, "spread", 3, writer.acked)) == len(writer.acked)


@pytest.mark.parametrize("partition", range(3))
def test_group_is_coordinated_by_whoever_leads_its_partition(cluster, partition):
    group = next(name for name in (f"group-{number}" for number in range(100)) if partition_of(name, 3) == partition)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    topic = f"read-{partition}"
    create_topic(cluster, topic, 3, 3)
    with Writer(cluster.bootstrap, topic, 3) as writer:
        writer.wait_for(100)
    found = []
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([topic])
        until(
            lambda: (
                found.extend(each for each in consumer.consume(100, 1) if each.error() is None) or len(found) >= len(writer.acked)
            ),
            "everything is read",
        )
        consumer.commit(asynchronous=False)
        committed = consumer.committed([TopicPartition(topic, number) for number in range(3)], PROCESS_PATIENCE)
    assert sum(each.offset for each in committed) == len(writer.acked)


@pytest.mark.parametrize("partition", range(3))
def test_transaction_is_coordinated_by_whoever_leads_its_partition(cluster, partition):
    name = next(name for name in (f"txn-{number}" for number in range(100)) if partition_of(name, 3) == partition)
    ensure_transactions_are_seen_as_a_whole(cluster, name, f"pays-{partition}")


def test_topic_is_set_grown_moved_and_deleted(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create_topic(cluster, "changes", 1, 2)
    resource = ConfigResource(ResourceType.TOPIC, "changes")
    resource.add_incremental_config(ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET))
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    for broker in cluster.brokers.values():
        one = AdminClient({"bootstrap.servers": broker.address})

        def retention(one=one):
            return one.describe_configs([resource])[resource].result()["retention.ms"].value

        until(lambda retention=retention: retention() == "123456", "the setting is known everywhere")
    admin.create_partitions([NewPartitions("changes", 3)])["changes"].result()
    until(lambda: len(leaders(cluster.bootstrap, "changes")) == 3, "it has three partitions")
    before = partitions_of(cluster.bootstrap, "changes")[0].replicas
    (absent,) = {1, 2, 3} - set(before)
    topic = AlterPartitionReassignmentsRequest.Topic
    part = topic.Partition(partition_index=0, replicas=[absent, before[0]])
    move = AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[topic(name="changes", partitions=[part])])
    assert ask_controller(cluster, move).responses[0].partitions[0].error_code == 0
    listing = ListPartitionReassignmentsRequest(timeout_ms=60_000, topics=None)
    until(lambda: not ask_controller(cluster, listing).topics, "the move is over")
    until(lambda: partitions_of(cluster.bootstrap, "changes")[0].replicas == [absent, before[0]], "it is told so")
    admin.delete_topics(["changes"], operation_timeout=60)["changes"].result()
    until(lambda: "changes" not in metadata(cluster.bootstrap).topics, "it is gone")


def test_each_is_killed_in_turn_and_nothing_is_lost(cluster):
    """Last, since it leaves a cluster that has stopped."""
    create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        for broker in cluster.brokers.values():
            cluster.bury(broker.broker_id)
            writer.wait_for(300)
            broker.start()
            cluster.wait_until_in_sync(TOPIC)
            writer.wait_for(100)
    assert not writer.failed
    ensure_nothing_lost(writer, read_all(cluster.bootstrap, TOPIC, PARTITIONS, writer.acked), cluster.kafkas)
    for broker in cluster.brokers.values():
        assert broker.stop() == 0
    ensure_replicas_equal(cluster, TOPIC, PARTITIONS)

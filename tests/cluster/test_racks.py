"""Brokers in three racks: replicas are spread over them, and a consumer reads from the replica in its own (KIP-392)."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.protocol.messages import FetchRequest
from tests.cluster.asking import leaders, until
from tests.cluster.processes import ClusterProcesses
from tests.cluster.writing import Writer, create_topic
from tests.waiting import PROCESS_PATIENCE

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    made = ClusterProcesses(
        tmp_path_factory.mktemp("racks"), f"{zookeeper_server.address}/racks", settings={"replica.selector.class": SELECTOR}
    )
    for number, broker in made.brokers.items():
        broker.settings["broker.rack"] = f"r{number}"
    with made as cluster:
        create_topic(cluster, "visits", 1, 3)
        with Writer(cluster.bootstrap, "visits", 1) as writer:
            writer.wait_for(100)
        cluster.written = len(writer.acked)
        yield cluster


def fetch(cluster, broker_id, rack, offset=0, wait_ms=0):
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchRequest.Topic(topic="visits", partitions=[part])],
        rack_id=rack,
    )
    with Connection(Address("127.0.0.1", cluster.brokers[broker_id].port), timeout=PROCESS_PATIENCE) as connection:
        (found,) = connection.ask(request, highest=12).responses[0].partitions
    return found


def test_leader_sends_a_consumer_to_the_replica_in_its_rack(cluster):
    leader = leaders(cluster.bootstrap, "visits")[0]
    near = leader % 3 + 1
    found = fetch(cluster, leader, f"r{near}", wait_ms=5000)
    assert (found.error_code, found.preferred_read_replica, len(found.records)) == (0, near, 0)
    until(lambda: fetch(cluster, near, f"r{near}").high_watermark == cluster.written, "the follower knows what is committed")
    assert len(fetch(cluster, near, f"r{near}").records) > 0


def test_consumer_in_the_leaders_rack_or_in_none_stays(cluster):
    leader = leaders(cluster.bootstrap, "visits")[0]
    for rack in (f"r{leader}", "", "elsewhere"):
        found = fetch(cluster, leader, rack)
        assert (found.preferred_read_replica, len(found.records) > 0) == (-1, True)


def test_librdkafka_reads_everything_from_its_rack(cluster):
    near = leaders(cluster.bootstrap, "visits")[0] % 3 + 1
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "client.rack": f"r{near}", "log_level": 0}
    found = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition("visits", 0, 0)])
        until(
            lambda: (
                found.extend(each for each in consumer.consume(100, 1) if each.error() is None) or len(found) == cluster.written
            ),
            "everything is read",
        )

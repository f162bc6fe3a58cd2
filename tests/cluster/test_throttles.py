"""Three brokers as processes: a partition that is moved under a throttle takes its time, and what is in sync is not held up by it."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.protocol.messages import AlterPartitionReassignmentsRequest
from tests.cluster.asking import in_sync, metadata, until
from tests.cluster.processes import ClusterProcesses
from tests.cluster.writing import Writer, create_topic, log_bytes
from tests.waiting import PROCESS_PATIENCE

MEGABYTES = 30
CRAWL, FAST = 20_000, 20_000_000
"""25 minutes for all of it, which is longer than anybody waits here, or no time at all."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    with ClusterProcesses(tmp_path_factory.mktemp("cluster"), f"{zookeeper_server.address}/throttled") as cluster:
        yield cluster


@pytest.fixture
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def fill(cluster, admin, topic):
    """30 MB on broker 1."""
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1]])])[topic].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for _ in range(MEGABYTES * 100):
        producer.produce(topic, bytes(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(PROCESS_PATIENCE) == 0


def set_config(admin, kind, name, **values):
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()
    ]
    for future in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        future.result()


def set_rate(cluster, admin, side, rate):
    for broker_id in cluster.brokers:
        set_config(admin, ResourceType.BROKER, str(broker_id), **{f"{side}_replication_throttled_rate": str(rate)})


def move(cluster, name, replicas):
    topic = AlterPartitionReassignmentsRequest.Topic
    moved = topic(name=name, partitions=[topic.Partition(partition_index=0, replicas=replicas)])
    controller = cluster.brokers[metadata(cluster.bootstrap).controller_id]
    with Connection(Address("127.0.0.1", controller.port), timeout=PROCESS_PATIENCE) as connection:
        assert connection.ask(AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[moved])).error_code == 0


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_move_under_a_throttle_takes_its_time_and_holds_up_nobody(cluster, admin, side):
    topic, steady = f"moved-{side}", f"steady-{side}"
    fill(cluster, admin, topic)
    create_topic(cluster, steady, 1, 3, min_insync_replicas="3")
    set_config(admin, ResourceType.TOPIC, topic, **{f"{side}_replication_throttled_replicas": "0:1,0:2"})
    set_config(admin, ResourceType.TOPIC, steady, **{f"{side}_replication_throttled_replicas": "*"})
    with Writer(cluster.bootstrap, steady, 1, pause=0.02) as writer:
        # In sync is who has fetched: before that, a new replica is held up like one that is behind.
        writer.wait_for(1)
        set_rate(cluster, admin, side, CRAWL)
        began = time.monotonic()
        move(cluster, topic, [1, 2])
        writer.wait_for(100)
        assert in_sync(cluster.bootstrap, topic)[0] == [1]
        moved = len(log_bytes(cluster.brokers[2].data, f"{topic}-0"))
        # A fetch of a megabyte each time that nothing came for the ten seconds over which the rate is taken.
        assert moved < 3_000_000 + 100_000 * (time.monotonic() - began)
    assert not writer.failed
    set_rate(cluster, admin, side, FAST)
    until(lambda: in_sync(cluster.bootstrap, topic)[0] == [1, 2], "it is moved")
    # 3 is not among the replicas that the topic names for the follower; the leader's throttle is taken away.
    set_rate(cluster, admin, side, CRAWL)
    set_config(admin, ResourceType.TOPIC, topic, leader_replication_throttled_replicas="")
    move(cluster, topic, [1, 2, 3])
    until(lambda: in_sync(cluster.bootstrap, topic)[0] == [1, 2, 3], "it is on 3, too")

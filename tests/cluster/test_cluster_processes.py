"""Three brokers as processes on a real ZooKeeper: what was acknowledged by all in-sync replicas survives what happens to one of them."""

from __future__ import annotations

import signal
import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.protocol.messages import UpdateMetadataRequest
from tests.cluster.asking import leaders, metadata, until
from tests.cluster.processes import MISSED_SOON, BrokerProcess, ClusterProcesses, free_port
from tests.cluster.writing import Writer, create_topic, ensure_healed, read_all
from tests.waiting import PROCESS_PATIENCE

TOPIC, PARTITIONS = "visits", 3


@pytest.fixture
def cluster(tmp_path, zookeeper):
    with ClusterProcesses(tmp_path, zookeeper) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        yield cluster


@pytest.fixture
def watchful_cluster(tmp_path, zookeeper):
    """ZooKeeper and the leaders miss soon who does not answer."""
    with ClusterProcesses(tmp_path, zookeeper, settings=MISSED_SOON) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        yield cluster


def test_topic_is_led_by_three_and_read_through_any(cluster):
    assert sorted(leaders(cluster.bootstrap, TOPIC).values()) == [1, 2, 3]
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
    for broker in cluster.brokers.values():
        told = metadata(broker.address)
        assert sorted(told.brokers) == [1, 2, 3] and told.controller_id in (1, 2, 3)
        assert len(read_all(broker.address, TOPIC, PARTITIONS, writer.acked)) == len(writer.acked) == writer.sent
    ensure_healed(cluster, writer)


@pytest.mark.parametrize("whom", ["leader", "controller"])
def test_broker_that_is_killed_and_comes_back_costs_nothing(watchful_cluster, whom):
    cluster = watchful_cluster
    victim = leaders(cluster.bootstrap, TOPIC)[0] if whom == "leader" else metadata(cluster.bootstrap).controller_id
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        cluster.brokers[victim].kill()
        until(lambda: victim not in leaders(cluster.bootstrap, TOPIC).values(), "others lead")
        writer.wait_for(600)
        cluster.brokers[victim].start()
        writer.wait_for(300)
    assert not writer.failed
    ensure_healed(cluster, writer)


def test_broker_with_a_pool_of_handlers_is_killed_and_stopped_and_costs_nothing(tmp_path, zookeeper):
    settings = {**MISSED_SOON, "request.channel.mode": "pooled", "num.io.threads": "3"}
    with ClusterProcesses(tmp_path, zookeeper, settings=settings) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        victim = metadata(cluster.bootstrap).controller_id
        with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
            writer.wait_for(300)
            cluster.brokers[victim].kill()
            until(lambda: victim not in leaders(cluster.bootstrap, TOPIC).values(), "others lead")
            writer.wait_for(600)
            cluster.brokers[victim].start()
            cluster.wait_until_in_sync(TOPIC)
            for broker in cluster.brokers.values():
                assert broker.stop() == 0
                writer.wait_for(300)
                broker.start()
                cluster.wait_until_in_sync(TOPIC)
        assert not writer.failed
        assert not any("Traceback" in broker.text() for broker in cluster.brokers.values())
        ensure_healed(cluster, writer)


def test_polite_stop_hands_over_and_no_client_sees_an_error(cluster):
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            assert "stops although it still leads" not in broker.text()
            writer.wait_for(300)
            broker.start()
            cluster.wait_until_in_sync(TOPIC)
    assert not writer.failed
    ensure_healed(cluster, writer)


def test_leader_that_sleeps_longer_than_its_session_is_replaced(watchful_cluster):
    cluster = watchful_cluster
    sleeper = cluster.brokers[leaders(cluster.bootstrap, TOPIC)[0]]
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        sleeper.send(signal.SIGSTOP)
        others = ",".join(broker.address for broker in cluster.brokers.values() if broker is not sleeper)
        until(lambda: sleeper.broker_id not in leaders(others, TOPIC).values(), "others lead")
        time.sleep(2)
        sleeper.send(signal.SIGCONT)
        writer.wait_for(600)
    assert not writer.failed
    ensure_healed(cluster, writer)


@pytest.mark.parametrize("version", ["2.3", "2.7"])
def test_older_protocol_between_brokers(tmp_path, zookeeper, version):
    """At 2.3 leaders write their in-sync replicas themselves and followers ask for epochs first; at 2.7 topics have no ids yet."""
    with ClusterProcesses(tmp_path, zookeeper, settings={**MISSED_SOON, "inter.broker.protocol.version": version}) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "old", "log_level": 0})
        producer.init_transactions(PROCESS_PATIENCE)
        producer.begin_transaction()
        for number in range(PARTITIONS):
            producer.produce(TOPIC, f"old-{number}".encode(), partition=number)
        producer.commit_transaction(PROCESS_PATIENCE)
        victim = leaders(cluster.bootstrap, TOPIC)[0]
        with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
            writer.wait_for(300)
            cluster.brokers[victim].kill()
            writer.wait_for(300)
            cluster.brokers[victim].start()
            writer.wait_for(300)
        ensure_healed(cluster, writer)


def test_brokers_talk_on_listeners_of_their_own(tmp_path, zookeeper):
    with ClusterProcesses(tmp_path, zookeeper) as cluster:
        for broker in cluster.brokers.values():
            assert broker.stop() == 0
            names = {"PLAINTEXT": broker.port, "REPL": free_port(), "CTRL": free_port()}
            broker.settings |= {
                "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in names.items()),
                "inter.broker.listener.name": "REPL",
                "control.plane.listener.name": "CTRL",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPL:PLAINTEXT,CTRL:PLAINTEXT",
            }
        cluster.start()
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
            writer.wait_for(300)
        with Connection(Address("127.0.0.1", cluster.brokers[1].port), timeout=PROCESS_PATIENCE) as connection:
            stranger = UpdateMetadataRequest(controller_id=1, controller_epoch=1)
            assert connection.ask(stranger).error_code == 31  # not on a listener for clients, whoever it says it is
        ensure_healed(cluster, writer)


def test_group_goes_on_when_its_coordinator_is_killed(watchful_cluster):
    cluster = watchful_cluster
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        # One that is taken for dead reads again what it has not committed.
        "session.timeout.ms": 300_000,
        "max.poll.interval.ms": 300_000,
        "log_level": 0,
    }
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([TOPIC])
        first = consume(consumer, 100)
        consumer.commit(asynchronous=False)
        victim = leaders(cluster.bootstrap, "__consumer_offsets")[coordinator_partition("readers")]
        cluster.brokers[victim].kill()
        rest = consume(consumer, len(writer.acked) - len(first))
        consumer.commit(asynchronous=False)
    assert sorted(first + rest) == sorted(writer.acked)
    cluster.brokers[victim].start()
    with closing(Consumer(settings)) as late:
        committed = late.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], PROCESS_PATIENCE)
    assert sum(each.offset for each in committed) == len(writer.acked)


def coordinator_partition(group):
    from milepost.coordinator.hashing import partition_of

    return partition_of(group, 3)


def consume(consumer, count):
    found = []

    def has_all():
        found.extend(each.value().decode() for each in consumer.consume(min(100, count - len(found)), 1) if each.error() is None)
        return len(found) == count

    until(has_all, f"{count} are read")
    return found


def test_second_broker_with_the_same_id_gives_up_and_says_why(cluster, tmp_path):
    soon = {"zookeeper.session.timeout.ms": "2000"}  # a session and a half is how long it hopes that the other one is dead
    stranger = BrokerProcess(1, tmp_path / "stranger", cluster.zookeeper, soon)
    stranger.data.parent.mkdir()
    stranger.start(wait=False)
    assert stranger.process is not None
    try:
        assert stranger.process.wait(PROCESS_PATIENCE) != 0
    finally:
        stranger.kill()
    assert "a broker with id 1 is registered already: give this one another broker.id" in stranger.text()
    assert "Traceback" not in stranger.text()
    assert sorted(metadata(cluster.bootstrap).brokers) == [1, 2, 3]

"""Three brokers whose ZooKeeper dies, sleeps, or forgets the controller: who leads goes on leading, nothing is lost, and all heals."""

from __future__ import annotations

import os
import signal
import time

import pytest
from kazoo.client import KazooClient

from milepost.cluster.zookeeper.server import ZooKeeperServer
from tests.cluster.processes import ClusterProcesses, free_port
from tests.cluster.writing import Writer, create_topic, ensure_healed, leaders, until

TOPIC, PARTITIONS = "visits", 3


@pytest.fixture
def own_zookeeper(zookeeper_server, tmp_path):
    """A server that nobody else uses; the shared one says whether there can be one."""
    server = ZooKeeperServer(str(tmp_path / "zookeeper"), free_port())
    server.start()
    server.wait()
    yield server
    send(server, signal.SIGCONT)
    server.stop()


@pytest.fixture
def cluster(tmp_path, own_zookeeper):
    with ClusterProcesses(tmp_path, f"{own_zookeeper.address}/away") as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        yield cluster


def send(server, number):
    os.kill(server.process.pid, number)


def check(cluster, writer):
    assert not writer.failed
    ensure_healed(cluster, writer)


def test_leaders_go_on_while_zookeeper_is_dead(cluster, own_zookeeper):
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        own_zookeeper.stop()
        before = leaders(cluster.bootstrap, TOPIC)
        time.sleep(4)  # twice a session
        writer.wait_for(300)
        assert leaders(cluster.bootstrap, TOPIC) == before
        own_zookeeper.start()
        own_zookeeper.wait()
        writer.wait_for(300)
    create_topic(cluster, "after", 3, 3)
    check(cluster, writer)


def test_all_sessions_expire_at_once(cluster, own_zookeeper):
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        send(own_zookeeper, signal.SIGSTOP)
        time.sleep(6)
        send(own_zookeeper, signal.SIGCONT)
        writer.wait_for(600)
    create_topic(cluster, "after", 3, 3)
    check(cluster, writer)


def test_controller_that_is_pushed_out_is_followed_by_another_term(cluster, own_zookeeper):
    client = KazooClient(f"{own_zookeeper.address}/away")
    client.start()
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        client.delete("/controller")
        writer.wait_for(300)
    until(lambda: client.exists("/controller") is not None, "there is a controller")
    assert client.get("/controller_epoch")[0] == b"2"
    client.stop()
    client.close()
    create_topic(cluster, "after", 3, 3)
    check(cluster, writer)

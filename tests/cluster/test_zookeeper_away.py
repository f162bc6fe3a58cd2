"""Three brokers whose ZooKeeper dies, sleeps, or forgets the controller: who leads goes on leading, nothing is lost, and all heals."""

from __future__ import annotations

import signal
import time

import pytest

from tests.cluster.asking import leaders, until, zookeeper_client
from tests.cluster.processes import SETTINGS, ClusterProcesses, running_zookeeper
from tests.cluster.writing import Writer, create_topic, ensure_healed
from tests.waiting import PROCESS_PATIENCE

TOPIC, PARTITIONS = "visits", 3


@pytest.fixture
def own_zookeeper(zookeeper_server, tmp_path):
    """A server that nobody else uses; the shared one says whether there can be one."""
    with running_zookeeper(tmp_path / "zookeeper") as server:
        yield server
        server.process.send(signal.SIGCONT)


@pytest.fixture
def cluster(tmp_path, own_zookeeper, request):
    session_ms = getattr(request, "param", SETTINGS["zookeeper.session.timeout.ms"])
    settings = {"zookeeper.session.timeout.ms": session_ms}
    with ClusterProcesses(tmp_path, f"{own_zookeeper.address}/away", settings=settings) as cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        yield cluster


def check(cluster, writer):
    assert not writer.failed
    ensure_healed(cluster, writer)


@pytest.mark.parametrize("cluster", ["5000"], indirect=True)
def test_leaders_go_on_while_zookeeper_is_dead(cluster, own_zookeeper):
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        own_zookeeper.stop()
        before = [leaders(broker.address, TOPIC) for broker in cluster.brokers.values()]
        time.sleep(7)  # longer than a session
        writer.wait_for(300)
        assert [leaders(broker.address, TOPIC) for broker in cluster.brokers.values()] == before
        own_zookeeper.start()
        own_zookeeper.wait(PROCESS_PATIENCE)
        writer.wait_for(300)
    create_topic(cluster, "after", 3, 3)
    check(cluster, writer)


@pytest.mark.parametrize("cluster", ["2000"], indirect=True)
def test_all_sessions_expire_at_once(cluster, own_zookeeper):
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        own_zookeeper.process.send(signal.SIGSTOP)
        time.sleep(6)
        own_zookeeper.process.send(signal.SIGCONT)
        writer.wait_for(600)
    create_topic(cluster, "after", 3, 3)
    check(cluster, writer)


def test_controller_that_is_pushed_out_is_followed_by_another_term(cluster):
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer, zookeeper_client(cluster.zookeeper) as client:
        writer.wait_for(300)
        client.delete("/controller")
        writer.wait_for(300)
        until(lambda: client.exists("/controller") is not None, "there is a controller")
        assert client.get("/controller_epoch")[0] == b"2"
    create_topic(cluster, "after", 3, 3)
    check(cluster, writer)

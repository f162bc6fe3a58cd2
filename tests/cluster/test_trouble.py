"""A hundred thousand records with acks=all while brokers are killed, paused and stopped, and ZooKeeper goes away: none lost, none twice."""

from __future__ import annotations

import resource
import shutil
import signal
import time

import pytest

from milepost.cluster.zookeeper.server import ZooKeeperServer
from tests.cluster.asking import leaders, metadata, until
from tests.cluster.processes import MISSED_SOON, ClusterProcesses, running_zookeeper
from tests.cluster.writing import Writer, create_topic, ensure_healed
from tests.waiting import PROCESS_PATIENCE

pytestmark = [pytest.mark.trouble]

TOPIC, PARTITIONS = "visits", 6
GOAL = 100_000


class Scene:
    def __init__(self, cluster: ClusterProcesses, zookeeper: ZooKeeperServer):
        self.cluster = cluster
        self.zookeeper = zookeeper

    def wait_for_all(self) -> None:
        self.cluster.wait_until_in_sync(TOPIC)

    def kill_each_in_turn(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.kill()
            time.sleep(3)
            broker.start()
            self.wait_for_all()

    def kill_the_controller(self) -> None:
        broker = self.cluster.brokers[metadata(self.cluster.bootstrap).controller_id]
        broker.kill()
        time.sleep(3)
        broker.start()
        self.wait_for_all()

    def kill_two_and_bring_them_back(self) -> None:
        """With one left there is no second in-sync replica: nothing is acknowledged, and nothing is lost."""
        first, second = list(self.cluster.brokers.values())[:2]
        first.kill()
        time.sleep(1)
        second.kill()
        time.sleep(3)
        second.start()
        first.start()
        self.wait_for_all()

    def pause_a_leader(self) -> None:
        broker = self.cluster.brokers[leaders(self.cluster.bootstrap, TOPIC)[0]]
        broker.send(signal.SIGSTOP)
        time.sleep(6)
        broker.send(signal.SIGCONT)
        self.wait_for_all()

    def pause_a_follower(self) -> None:
        broker = self.cluster.brokers[leaders(self.cluster.bootstrap, TOPIC)[0] % 3 + 1]
        broker.send(signal.SIGSTOP)
        time.sleep(1.5)
        broker.send(signal.SIGCONT)
        self.wait_for_all()

    def stop_each_in_turn(self) -> None:
        for broker in self.cluster.brokers.values():
            assert broker.stop() == 0
            broker.start()
            self.wait_for_all()

    def restart_zookeeper(self) -> None:
        self.zookeeper.stop()
        time.sleep(5)
        self.zookeeper.start()
        self.zookeeper.wait(PROCESS_PATIENCE)
        self.wait_for_all()

    def fill_the_disk_of_a_leader(self) -> None:
        """Writes behind 64 KiB of a file fail, as on a full disk: others lead; it joins again when it is started anew."""
        broker = self.cluster.brokers[leaders(self.cluster.bootstrap, TOPIC)[0]]
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (65_536, 65_536))
        until(
            lambda: broker.broker_id not in leaders(self.cluster.bootstrap, TOPIC).values(), "others lead what cannot be written"
        )
        assert broker.is_running
        broker.kill()
        broker.start()
        self.wait_for_all()

    def lose_a_directory(self) -> None:
        """All that a broker had is gone: it follows from the beginning, and leads nothing before it has everything."""
        broker = self.cluster.brokers[leaders(self.cluster.bootstrap, TOPIC)[0]]
        broker.kill()
        shutil.rmtree(broker.data)
        broker.start()
        self.wait_for_all()

    def kill_all_at_once(self) -> None:
        for broker in self.cluster.brokers.values():
            broker.kill()
        for broker in reversed(self.cluster.brokers.values()):
            broker.start(wait=False)
        for broker in self.cluster.brokers.values():
            broker.wait()
        self.wait_for_all()


@pytest.fixture
def scene(zookeeper_server, tmp_path):
    settings = {**MISSED_SOON, "log.segment.bytes": "1048576"}
    with (
        running_zookeeper(tmp_path / "zookeeper") as server,
        ClusterProcesses(tmp_path, f"{server.address}/trouble", settings=settings) as cluster,
    ):
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        yield Scene(cluster, server)


@pytest.mark.parametrize("fault", [name for name in vars(Scene) if not name.startswith("_") and name != "wait_for_all"])
def test_acknowledged_records_survive(scene, fault):
    with Writer(scene.cluster.bootstrap, TOPIC, PARTITIONS, pause=0.0002) as writer:
        writer.wait_for(1000)
        getattr(scene, fault)()
        writer.wait_for(max(1000, GOAL - len(writer.acked)), 600)
    # What the client gave up on after five minutes may be there or not; what was acknowledged must be.
    ensure_healed(scene.cluster, writer)

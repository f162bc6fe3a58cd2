"""Three brokers, each in a network of its own, on one bridge with their clients and ZooKeeper: links can be cut one by one.

Run inside `unshare -rnm`, where everybody may do that: `python -m tests.cluster.partitioned FAULT DIRECTORY`. It ends with 0 if nothing was
lost. A packet on a cut link is dropped without a word, as when a cable is pulled: no connection is reset.

    the bridge      10.77.0.254: clients, and a relay to ZooKeeper
    broker N        10.77.0.N:9092 in the namespace bN, on the link vN
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.cluster.asking import leaders, until
from tests.cluster.processes import MISSED_SOON, BrokerProcess, ClusterProcesses, running_zookeeper
from tests.cluster.writing import Writer, create_topic, ensure_healed

TOPIC, PARTITIONS = "visits", 3
BRIDGE, PORT, ZOOKEEPER_PORT = "10.77.0.254", 9092, 2181
CUT_SECONDS = 8.0
LAG_SECONDS = 4.0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def make_network(brokers: int) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    ip("link", "set", "lo", "up")
    ip("link", "add", "br0", "type", "bridge")
    ip("addr", "add", f"{BRIDGE}/24", "dev", "br0")
    ip("link", "set", "br0", "up")
    for number in range(1, brokers + 1):
        ip("netns", "add", f"b{number}")
        ip("link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", f"b{number}")
        ip("link", "set", f"v{number}", "master", "br0", "up")
        ip("-n", f"b{number}", "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", f"b{number}", "link", "set", device, "up")


def relay(port: int) -> None:
    """From the bridge to ZooKeeper, which listens on loopback."""
    listener = socket.create_server((BRIDGE, ZOOKEEPER_PORT))

    def copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, target):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        while True:
            outer, _ = listener.accept()
            inner = socket.create_connection(("127.0.0.1", port))
            for pair in ((outer, inner), (inner, outer)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


class DistantBroker(BrokerProcess):
    def __init__(self, broker_id: int, directory: Path, zookeeper: str, settings: dict[str, str]):
        super().__init__(broker_id, directory, zookeeper, settings)
        self.settings["listeners"] = f"PLAINTEXT://{self.address}"
        self.settings["milepost.insecure.listener"] = "true"  # nobody else is in this network

    @property
    def address(self) -> str:
        return f"10.77.0.{self.broker_id}:{PORT}"

    def start(self, *, wait: bool = True) -> None:
        command = ["ip", "netns", "exec", f"b{self.broker_id}", sys.executable, "-m", "milepost.cli", "serve", "-v"]
        command += ["--data", str(self.data)]
        for name, value in self.settings.items():
            command += ["-X", f"{name}={value}"]
        self.data.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output:
            output.write(b"-- start\n")
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        if wait:
            self.wait()

    # Links.

    def cut(self) -> None:
        ip("link", "set", f"v{self.broker_id}", "nomaster")

    def join(self) -> None:
        ip("link", "set", f"v{self.broker_id}", "master", "br0")

    def cut_from(self, other: int) -> None:
        ip("-n", f"b{self.broker_id}", "route", "add", "blackhole", f"10.77.0.{other}/32")

    def join_to(self, other: int) -> None:
        ip("-n", f"b{self.broker_id}", "route", "del", "blackhole", f"10.77.0.{other}/32")


class Network(ClusterProcesses):
    def __init__(self, directory: Path, zookeeper: str):
        super().__init__(directory, zookeeper, 0)
        self.brokers = {number: DistantBroker(number, directory, zookeeper, MISSED_SOON) for number in (1, 2, 3)}


# What happens to a cluster while somebody writes.


def leader_is_cut_from_everybody(network: Network, leader: DistantBroker) -> None:
    others = ",".join(each.address for each in network.brokers.values() if each is not leader)
    leader.cut()
    until(lambda: leader.broker_id not in leaders(others, TOPIC).values(), "others lead")
    time.sleep(CUT_SECONDS)
    leader.join()


def leader_is_cut_from_its_followers(network: Network, leader: DistantBroker) -> None:
    """ZooKeeper sees it alive: nobody else can lead, and it may not acknowledge alone."""
    others = [number for number in network.brokers if number != leader.broker_id]
    for number in others:
        leader.cut_from(number)
    time.sleep(CUT_SECONDS)
    for number in others:
        leader.join_to(number)


def one_follower_is_not_heard_by_the_leader(network: Network, leader: DistantBroker) -> None:
    """One direction of one link."""
    follower = network.brokers[leader.broker_id % 3 + 1]
    follower.cut_from(leader.broker_id)
    time.sleep(CUT_SECONDS)
    follower.join_to(leader.broker_id)


def links_go_one_by_one_and_come_back_in_another_order(network: Network, leader: DistantBroker) -> None:
    for broker in network.brokers.values():
        broker.cut()
        time.sleep(1)
    time.sleep(3)
    for number in (2, 3, 1):
        network.brokers[number].join()
        time.sleep(1)


FAULTS = {
    fault.__name__: fault
    for fault in (
        leader_is_cut_from_everybody,
        leader_is_cut_from_its_followers,
        one_follower_is_not_heard_by_the_leader,
        links_go_one_by_one_and_come_back_in_another_order,
    )
}


def main(fault: str, directory: Path) -> None:
    make_network(3)
    with running_zookeeper(directory / "zookeeper") as server:
        relay(server.port)
        with Network(directory, f"{BRIDGE}:{ZOOKEEPER_PORT}/cut") as network:
            create_topic(network, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
            with Writer(network.bootstrap, TOPIC, PARTITIONS) as writer:
                writer.wait_for(300)
                FAULTS[fault](network, network.brokers[leaders(network.bootstrap, TOPIC)[0]])
                writer.wait_for(600)
            # Whoever was cut off and had not been missed yet is missed now, and comes back.
            time.sleep(LAG_SECONDS)
            ensure_healed(network, writer)
            print(f"{len(writer.acked)} acknowledged, {len(writer.failed)} given up, none lost, none twice")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

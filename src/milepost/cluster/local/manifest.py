"""The manifest of a cluster on one machine, `DIR/cluster.json`: what was started, where, and how it is found again.

    zookeeper    connect (HOST:PORT/chroot), port and process if it is our own
    brokers      for each its number, port and process, and whether it was killed
    properties   what every broker is started with, by Kafka's names

It is replaced after every change. Not promised: that what it names still runs; each process is asked (`process`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from milepost.cluster.local.process import OwnProcess
from milepost.errors import KafkaStorage
from milepost.files import Disk, read_file, remove_file, replace_file

NAME = "cluster.json"
VERSION = 1
MAX_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class ZooKeeperRecord:
    connect: str
    port: int | None = None
    process: OwnProcess | None = None

    @property
    def is_own(self) -> bool:
        return self.port is not None


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    broker_id: int
    port: int
    process: OwnProcess | None = None
    was_killed: bool = False

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def ending(self) -> str:
        """Of one that does not run: how that came. One that was stopped from here is not recorded any more; one that is recorded
        ended by itself."""
        if self.process is not None:
            return "crashed"
        return "killed" if self.was_killed else "stopped"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    zookeeper: ZooKeeperRecord
    brokers: dict[int, BrokerRecord]
    properties: dict[str, str]

    def with_broker(self, broker: BrokerRecord) -> ClusterRecord:
        return replace(self, brokers={**self.brokers, broker.broker_id: broker})

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())


def write_record(directory: str, record: ClusterRecord) -> None:
    content = {
        "version": VERSION,
        "zookeeper": asdict(record.zookeeper),
        "brokers": [asdict(broker) for broker in record.brokers.values()],
        "properties": record.properties,
    }
    replace_file(Disk(), f"{directory}/{NAME}", (json.dumps(content, indent=2) + "\n").encode())


def restore_record(directory: str, record: ClusterRecord | None) -> None:
    """As it was before; None: there was none."""
    if record is None:
        remove_file(Disk(), f"{directory}/{NAME}")
    else:
        write_record(directory, record)


def read_record(directory: str) -> ClusterRecord | None:
    """None where no cluster was ever started."""
    path = f"{directory}/{NAME}"
    disk = Disk()
    if not disk.exists(path):
        return None
    try:
        content = json.loads(read_file(disk, path, MAX_SIZE))
        assert content["version"] == VERSION
        zookeeper = content["zookeeper"]
        brokers = [
            BrokerRecord(int(each["broker_id"]), int(each["port"]), _process(each["process"]), each.get("was_killed") is True)
            for each in content["brokers"]
        ]
        return ClusterRecord(
            ZooKeeperRecord(str(zookeeper["connect"]), zookeeper["port"], _process(zookeeper["process"])),
            {broker.broker_id: broker for broker in brokers},
            {str(name): str(value) for name, value in content["properties"].items()},
        )
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):
        raise KafkaStorage(
            f"{path} is not what `milepost cluster start` writes: remove it; processes it named have to be ended by hand"
        ) from None


def _process(content: Any) -> OwnProcess | None:
    return None if content is None else OwnProcess(int(content["pid"]), int(content["started"]), str(content["boot"]))

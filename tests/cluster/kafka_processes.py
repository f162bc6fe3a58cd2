"""Real Kafka 3.9.1 brokers beside ours on one ZooKeeper."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from tests.cluster.asking import until
from tests.cluster.processes import SETTINGS, BrokerProcess, ClusterProcesses
from tests.interop.kafka_harness import LOG4J, VERSION, JavaProcess
from tests.interop.toolchain import java_command

START_SECONDS = 600.0
"""Ten seconds of one processor, if it is Kafka's alone."""
PROPERTIES = {
    **SETTINGS,
    "num.io.threads": "2",
    "num.network.threads": "1",
    "log.cleaner.enable": "false",
    "inter.broker.protocol.version": "3.9",
}


BESIDE_KAFKA = {"milepost.broker.proof.required": "false"}
"""Of our brokers in such a cluster: Kafka's cannot prove what they are."""


class KafkaProcess(BrokerProcess):
    """A broker of Kafka's own: started and ended as ours are."""

    def __init__(self, broker_id: int, directory: Path, zookeeper: str, settings: dict[str, str]):
        super().__init__(broker_id, directory, zookeeper, settings)
        self.work = directory / f"kafka-{broker_id}"
        self.work.mkdir()
        self.java: JavaProcess | None = None

    def start(self, *, wait: bool = True) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        properties = {
            **PROPERTIES,
            **self.settings,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
        }
        path = self.work / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        log4j = self.work / "log4j.properties"
        log4j.write_text(LOG4J.replace("WARN, out", "INFO, out"))
        self.java = JavaProcess("broker", self.work, java_command(VERSION, "kafka.Kafka", str(path), log4j=log4j))
        self.process = self.java.process
        if wait:
            self.wait()

    def wait(self) -> None:
        def listens() -> bool:
            assert self.is_running, f"broker {self.broker_id} ended:\n{self.text()[-4000:]}"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
            return False

        until(listens, f"broker {self.broker_id} listens: see {self.work}", START_SECONDS)

    def text(self) -> str:
        return self.java.text() if self.java is not None else ""

    def stop(self) -> int:
        """143 is how Java ends after SIGTERM."""
        code = super().stop()
        return 0 if code == 143 else code


class MixedProcesses(ClusterProcesses):
    """`kinds`: `milepost` or `kafka` for each broker, from 1 on, started in that order so that the first is the controller."""

    def __init__(self, directory: Path, zookeeper: str, kinds: list[str], settings: dict[str, str] | None = None):
        super().__init__(directory, zookeeper, 0)
        for number, kind in enumerate(kinds, 1):
            given = settings or {}
            if kind == "kafka":
                self.brokers[number] = KafkaProcess(number, directory, zookeeper, given)
            else:
                self.brokers[number] = BrokerProcess(number, directory, zookeeper, {**given, **BESIDE_KAFKA})

    @property
    def kafkas(self) -> list[int]:
        return [number for number, broker in self.brokers.items() if isinstance(broker, KafkaProcess)]

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self.wait_until_all_are_known()

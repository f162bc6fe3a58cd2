"""A real Apache Kafka 4.3.0 for tests: one process, broker and controller, in KRaft mode, over a new directory."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from types import TracebackType

from tests.interop.kafka_harness import LOG4J, JavaProcess
from tests.interop.toolchain import java_command
from tests.ports import held_port

VERSION = "4.3.0"
CLUSTER_ID = "bWlsZXBvc3QtdGVzdHMtMQ"
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "0",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class KraftBroker:
    """Entering formats the directory and starts it, leaving kills it."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.settings = settings or {}
        self.port = 0
        self._stack = contextlib.ExitStack()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> KraftBroker:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        self.port = stack.enter_context(held_port())
        controller = f"127.0.0.1:{stack.enter_context(held_port())}"
        properties = {
            **PROPERTIES,
            "controller.quorum.voters": f"0@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data),
            **self.settings,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        log4j = self.directory / "log4j.properties"
        log4j.write_text(LOG4J)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        tool = java_command(VERSION, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path), log4j=log4j)
        subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
        process = JavaProcess("kafka", self.directory, java_command(VERSION, "kafka.Kafka", str(path), log4j=log4j))
        stack.callback(process.end, signal.SIGKILL)
        process.wait_for(self.port)

"""A real Apache Kafka 3.9.1 for tests: its dump tool, and a broker in ZooKeeper mode, from the jars of `toolchain.py`.

Everything listens on loopback, on free ports; processes are ended by the object that started them.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.protocol.messages import MetadataRequest
from tests.interop.toolchain import java_command
from tests.ports import held_port
from tests.waiting import PROCESS_PATIENCE, until

VERSION = "3.9.1"

LOG4J = """log4j.rootLogger=WARN, out
log4j.logger.kafka.server.KafkaServer=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""

# Nothing may change the logs but what a test does: no retention, no cleaner, no topics made on the side.
BROKER_PROPERTIES = {
    "broker.id": "0",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "zookeeper.connection.timeout.ms": "180000",
}


def dump_log_segments(files: Iterable[Path], *options: str) -> tuple[str, str]:
    """What `kafka.tools.DumpLogSegments` prints (stdout, stderr) about all `files` in one run."""
    names = ",".join(str(path) for path in files)
    with tempfile.TemporaryDirectory() as directory:
        log4j = Path(directory, "log4j.properties")
        log4j.write_text(LOG4J)
        command = java_command(VERSION, "kafka.tools.DumpLogSegments", "--files", names, *options, log4j=log4j)
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"DumpLogSegments ended with {done.returncode}: {done.stderr[-4000:]}"
    return done.stdout, done.stderr


class JavaProcess:
    """A JVM whose output goes to `<name>.out` under `directory`."""

    def __init__(self, name: str, directory: Path, command: list[str]) -> None:
        self.name = name
        self.output = directory / f"{name}.out"
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=directory)

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, port: int) -> None:
        """Until somebody listens on `port`; the process must stay alive meanwhile."""

        def listens() -> bool:
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.text()[-4000:]}"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PROCESS_PATIENCE):
                return True
            return False

        until(listens, f"{self.name} listens on {port}; {self.output} has what it said", PROCESS_PATIENCE, 0.05)

    def end(self, with_signal: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        try:
            self.process.wait(PROCESS_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


class KafkaBroker:
    """ZooKeeper and one broker over `log_dir`; entering starts both, leaving ends both.

    `stop()` is a clean stop (SIGTERM), `kill()` is kill -9; `start()` brings the broker back over the same directory, and
    ZooKeeper keeps running, so the topics are still known.
    """

    def __init__(self, work_dir: Path, log_dir: Path, properties: dict[str, str] | None = None) -> None:
        self.work_dir = work_dir
        self.log_dir = log_dir
        self.properties = properties or {}
        self.port = self.zookeeper_port = 0
        self._held = contextlib.ExitStack()
        self.zookeeper: JavaProcess | None = None
        self.broker: JavaProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> KafkaBroker:
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._write("log4j.properties", LOG4J)
        self.port, self.zookeeper_port = (self._held.enter_context(held_port()) for _ in range(2))
        try:
            self._start_zookeeper()
            self.start()
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end_all()

    def start(self) -> None:
        assert self.broker is None, "the broker is running: stop() or kill() it first"
        properties = {
            **BROKER_PROPERTIES,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
            "log.dirs": str(self.log_dir),
            **self.properties,
        }
        path = self._write("server.properties", "".join(f"{key}={value}\n" for key, value in properties.items()))
        self.broker = self._java("broker", "kafka.Kafka", str(path))
        # The socket server takes connections only when the logs are loaded and the broker is registered.
        self.broker.wait_for(self.port)
        self._wait_for_controller()

    def _wait_for_controller(self) -> None:
        """Until clients are told of a controller, without which no topic can be made."""

        def is_told() -> bool:
            with Connection(Address("127.0.0.1", self.port), timeout=PROCESS_PATIENCE) as connection:
                return bool(connection.ask(MetadataRequest(topics=[])).controller_id >= 0)

        until(is_told, "there is a controller", PROCESS_PATIENCE, 0.05)

    def stop(self) -> None:
        self._end_broker(signal.SIGTERM)

    def kill(self) -> None:
        self._end_broker(signal.SIGKILL)

    def output(self) -> str:
        return (self.work_dir / "broker.out").read_text(encoding="utf-8", errors="replace")

    def _start_zookeeper(self) -> None:
        data = self.work_dir / "zookeeper"
        data.mkdir(exist_ok=True)
        address = f"clientPort={self.zookeeper_port}\nclientPortAddress=127.0.0.1\n"
        path = self._write("zookeeper.properties", f"dataDir={data}\n{address}admin.enableServer=false\ntickTime=1000\n")
        self.zookeeper = self._java("zookeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", str(path))
        self.zookeeper.wait_for(self.zookeeper_port)

    def _end_broker(self, with_signal: signal.Signals) -> None:
        assert self.broker is not None, "the broker is not running"
        broker, self.broker = self.broker, None
        broker.end(with_signal)

    def _end_all(self) -> None:
        broker, self.broker = self.broker, None
        zookeeper, self.zookeeper = self.zookeeper, None
        for process in (broker, zookeeper):
            if process is not None:
                process.end(signal.SIGKILL)
        self._held.close()

    def _java(self, name: str, main_class: str, *arguments: str) -> JavaProcess:
        command = java_command(VERSION, main_class, *arguments, log4j=self.work_dir / "log4j.properties")
        return JavaProcess(name, self.work_dir, command)

    def _write(self, name: str, text: str) -> Path:
        path = self.work_dir / name
        path.write_text(text)
        return path

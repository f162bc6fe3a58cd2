"""A ZooKeeper server of one's own, for a cluster on one machine: the real one, which PySpark carries among its jars.

It needs Java and PySpark; without them one sentence says what to install, or to name a server that is running already. The server's files
lie in `DIR/data`, its settings in `DIR/zookeeper.properties`, what it prints in `DIR/zookeeper.log`.
"""

from __future__ import annotations

import signal
import socket
import time
from importlib.util import find_spec

from milepost.cluster.local.process import OwnProcess, begin
from milepost.errors import InvalidConfiguration, KafkaStorage
from milepost.files import Disk, read_file, replace_file

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
# Of PySpark's jars only these: Java looks into every jar it is given before it starts.
JARS = ("zookeeper", "slf4j-api", "metrics-core", "netty-", "snappy-java", "commons-io", "commons-cli")
# It starts in half the time without the second compiler, and needs little memory.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xms32m", "-Xmx256m")
START_SECONDS = 60.0


NO_JAVA = (
    "the bundled ZooKeeper needs Java, and there is none on the PATH: install Java 17, or name a running server with --zookeeper"
)


def class_path(disk: Disk) -> str:
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise InvalidConfiguration(
            "the bundled ZooKeeper comes with PySpark's jars: pip install 'milepost[spark]', or name a running server with --zookeeper"
        )
    jars = f"{found.submodule_search_locations[0]}/jars"
    chosen = [name for name in disk.listdir(jars) if name.startswith(JARS)]
    if not any(name.startswith("zookeeper-3") for name in chosen):
        raise InvalidConfiguration(f"{jars}: no ZooKeeper among PySpark's jars; name a running server with --zookeeper")
    return ":".join(f"{jars}/{name}" for name in sorted(chosen))


class ZooKeeperServer:
    def __init__(self, directory: str, port: int, *, tick_ms: int = 500, disk: Disk | None = None):
        self.directory = directory
        self.port = port
        self.tick_ms = tick_ms
        self.disk = disk or Disk()
        self.process: OwnProcess | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_path(self) -> str:
        return f"{self.directory}/zookeeper.log"

    def start(self) -> None:
        """Start it, detached from this process; `wait` says when it answers."""
        command = ["java", *JAVA_OPTIONS, "-Dzookeeper.admin.enableServer=false"]
        settings = f"{self.directory}/zookeeper.properties"
        for each in (self.directory, f"{self.directory}/data"):
            if not self.disk.exists(each):
                self.disk.mkdir(each)
        replace_file(
            self.disk,
            settings,
            (
                f"tickTime={self.tick_ms}\ndataDir={self.directory}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                # Sessions from two ticks up to a minute: tests want short ones, Kafka's default is 18 s.
                f"minSessionTimeout={2 * self.tick_ms}\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
            ).encode(),
        )
        command += ["-cp", class_path(self.disk), MAIN_CLASS, settings]
        try:
            self.process = begin(command, self.log_path)
        except FileNotFoundError:
            raise InvalidConfiguration(NO_JAVA) from None

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Until it answers. It accepts connections a little sooner, and lets those wait for long that come too soon."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process is not None and not self.process.is_running:
                break
            if self._answers():
                return
            time.sleep(0.01)
        said = read_file(self.disk, self.log_path).decode(errors="replace").strip().splitlines()
        raise KafkaStorage(f"ZooKeeper did not start on port {self.port}: {said[-1] if said else 'it said nothing'}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return b"Mode: " in b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return False

    def stop(self, seconds: float = 10.0) -> None:
        if self.process is None:
            return
        self.process.send(signal.SIGTERM)
        if not self.process.wait(seconds):
            self.process.send(signal.SIGKILL)
            self.process.wait(seconds)

"""A cluster on one machine: ZooKeeper and N brokers, each a process that outlives the one that started it.

    DIR/cluster.json    which they are (`manifest`); with DIR they can be shown, stopped, killed and started again
    DIR/broker-1        the data of broker 1, and what it says in broker-1.log
    DIR/zookeeper       ZooKeeper's files, unless another one was named

Stopping and starting again keeps everything: topics, records, ports. One command at a time changes a cluster; a second one is refused.

Clients have a listener of a known port, brokers another one for each other: neither waits for the other there, and what brokers say to each
other is not taken from clients.

Brokers have Kafka's defaults, but for what one machine wants otherwise (`SETTINGS`): a dead broker is noticed after 6 seconds and not
after 18, a polite stop asks again after a moment, and internal topics have no more replicas than there are brokers.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from milepost.cluster.local.manifest import (
    BrokerRecord,
    ClusterRecord,
    ZooKeeperRecord,
    read_record,
    restore_record,
    write_record,
)
from milepost.cluster.local.ports import HOST, free_ports, held, is_free
from milepost.cluster.local.process import begin
from milepost.cluster.zookeeper.server import ZooKeeperServer
from milepost.codec.text import counted
from milepost.config.broker import BrokerConfig
from milepost.config.sources import from_environment, from_flags, resolve
from milepost.errors import BrokerUnavailable, DirectoryLocked, InvalidArgument, InvalidConfiguration
from milepost.files import Disk, make_directories, opened, read_file

SETTINGS = {"zookeeper.session.timeout.ms": "6000", "controlled.shutdown.retry.backoff.ms": "250"}
BROKERS = "BROKERS"
"""The listener of brokers for each other. Its port is a free one each time: brokers find it in ZooKeeper."""
OURS = (
    "advertised.listeners",
    "broker.id",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "port",
    "security.inter.broker.protocol",
    "zookeeper.connect",
)
READY_SECONDS = 120.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.01
LOCK = ".cluster.lock"


class LocalCluster:
    def __init__(self, directory: str, record: ClusterRecord):
        self.directory = directory
        self.record = record
        self._said_before: dict[int, int] = {}

    # Which one.

    @classmethod
    def found(cls, directory: str) -> LocalCluster:
        """The one that was started over a directory."""
        directory = os.path.abspath(directory)
        record = read_record(directory)
        if record is None:
            raise InvalidArgument(f"no cluster was started in {directory}: `milepost cluster start --data DIR` starts one")
        return cls(directory, record)

    @classmethod
    def planned(
        cls,
        directory: str,
        count: int | None = None,
        *,
        zookeeper: str | None = None,
        port_base: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> LocalCluster:
        """A new one, or the one that is there and does not run. Nothing is started and nothing is written yet."""
        directory = os.path.abspath(directory)
        for name in (properties or {}).keys() & set(OURS):
            raise InvalidConfiguration(
                f"{name} is different for each broker of a cluster: `milepost cluster start` sets it itself"
            )
        known = read_record(directory)
        if known is None:
            wanted = count or 3
            own_port, *ports = free_ports(1 + wanted)
            if port_base != 0:
                ports = list(range(port_base, port_base + wanted))
            own = ZooKeeperRecord(zookeeper) if zookeeper else ZooKeeperRecord("", own_port)
            brokers = {number: BrokerRecord(number, port) for number, port in enumerate(ports, 1)}
            planned = cls(directory, ClusterRecord(own, brokers, {**_sized(wanted), **(properties or {})}))
            planned._check_settings()
            return planned
        cluster = cls(directory, known)
        if running := cluster.running():
            pids = ", ".join(f"broker {each.broker_id} with pid {each.process.pid}" for each in running if each.process)
            raise InvalidArgument(f"the cluster in {directory} runs already: {pids}; `milepost cluster stop` ends it")
        if count is not None and count < len(known.brokers):
            raise InvalidArgument(
                f"the cluster in {directory} has {counted(len(known.brokers), 'broker')} with data: start as many, or more"
            )
        if zookeeper and zookeeper != known.zookeeper.connect:
            raise InvalidArgument(
                f"the cluster in {directory} is known to ZooKeeper at {known.zookeeper.connect}, not at {zookeeper}"
            )
        last = max(broker.port for broker in known.brokers.values())
        brokers = dict(known.brokers)
        for number in range(len(brokers) + 1, (count or 0) + 1):
            last += 1
            brokers[number] = BrokerRecord(number, last)
        cluster.record = replace(known, brokers=brokers, properties={**known.properties, **(properties or {})})
        cluster._check_settings()
        return cluster

    def _check_settings(self) -> None:
        """What would end a broker's start ends ours, before there is anything to end."""
        for number in self.record.brokers:
            resolve(BrokerConfig, from_environment(os.environ), from_flags(self._flags(number)))

    def broker(self, broker_id: int) -> BrokerRecord:
        try:
            return self.record.brokers[broker_id]
        except KeyError:
            numbers = ", ".join(map(str, self.record.brokers))
            raise InvalidArgument(f"there is no broker {broker_id} in {self.directory}, only {numbers}") from None

    def running(self) -> list[BrokerRecord]:
        return [broker for broker in self.record.brokers.values() if broker.is_running]

    @property
    def zookeeper(self) -> str:
        """Where it answers, as `zookeeper.connect` has it."""
        known = self.record.zookeeper
        if known.is_own and (known.process is None or not known.process.is_running):
            raise BrokerUnavailable(
                f"the ZooKeeper of the cluster in {self.directory} does not run: `milepost cluster start` starts a cluster again"
            )
        return known.connect

    @property
    def bootstrap_servers(self) -> str:
        return self.record.bootstrap_servers

    # Starting.

    def start(self) -> None:
        """All of it; when a part does not come up, what was started is ended again."""
        with ExitStack() as ports:
            for broker in self.record.brokers.values():
                ports.enter_context(held(broker.port, f"broker {broker.broker_id}"))
            self._start()

    def _start(self) -> None:
        make_directories(Disk(), self.directory)
        before = read_record(self.directory)
        with self._alone():
            try:
                self._start_zookeeper()
                for number in self.record.brokers:
                    self._begin(number)
                for number in self.record.brokers:
                    self._wait_until_ready(number)
            except BaseException:
                self._end(self.running(), signal.SIGKILL)
                self._stop_zookeeper()
                # Not to be found by the next start: its settings may be what was wrong.
                restore_record(self.directory, before)
                raise

    def start_broker(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        if broker.is_running:
            assert broker.process is not None
            raise InvalidArgument(f"broker {broker_id} runs already, with pid {broker.process.pid}")
        with held(broker.port, f"broker {broker_id}"), self._alone():
            self._begin(broker_id)
            self._wait_until_ready(broker_id)

    def _start_zookeeper(self) -> None:
        known = self.record.zookeeper
        if not known.is_own or (known.process is not None and known.process.is_running):
            return
        port = known.port if known.port is not None and is_free(known.port) else free_ports(1)[0]
        server = ZooKeeperServer(f"{self.directory}/zookeeper", port)
        with held(port, "ZooKeeper"):
            server.start()
            self._write(replace(self.record, zookeeper=ZooKeeperRecord(server.address, port, server.process)))
            server.wait()

    def _begin(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        make_directories(Disk(), self._data(broker_id))
        # -P: the directory we are in is none to import from; it may have an `inspect/` of its own.
        command = [sys.executable, "-P", "-m", "milepost.cli", "serve", "-v"]
        for flag in self._flags(broker_id):
            command += ["-X", flag]
        log = self.log_path(broker_id)
        self._said_before[broker_id] = Disk().stat(log).st_size if Disk().exists(log) else 0
        process = begin(command, log)
        self._write(self.record.with_broker(replace(broker, process=process, was_killed=False)))

    def _flags(self, broker_id: int) -> list[str]:
        """The properties of a broker, as after -X."""
        settings = {
            **self.record.properties,
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.broker(broker_id).address},{BROKERS}://{HOST}:0",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{BROKERS}:PLAINTEXT",
            "inter.broker.listener.name": BROKERS,
            "log.dirs": self._data(broker_id),
            "zookeeper.connect": self.record.zookeeper.connect,
        }
        return [f"{name}={value}" for name, value in settings.items()]

    def _wait_until_ready(self, broker_id: int) -> None:
        broker = self.broker(broker_id)
        sign = f"ready {broker.address}"
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            ended = not broker.is_running
            lines = self.said(broker_id)
            if sign in lines:
                return
            if ended:
                said = next(
                    (line for line in reversed(lines) if line.startswith("milepost: ")), (lines or ["it said nothing"])[-1]
                )
                raise BrokerUnavailable(f"broker {broker_id} did not start: {said.removeprefix('milepost: ')}")
            time.sleep(LOOK_SECONDS)
        raise BrokerUnavailable(
            f"broker {broker_id} is not ready after {READY_SECONDS:.0f} seconds; {self.log_path(broker_id)} has what it said"
        )

    # Ending.

    def stop(self) -> None:
        """All of it: brokers hand over what they lead one after the other, then ZooKeeper, if it is ours."""
        with self._alone():
            for broker in self.running():
                self._end([broker], signal.SIGTERM)
            self._stop_zookeeper()

    def stop_broker(self, broker_id: int) -> None:
        """Politely: it hands over what it leads."""
        broker = self._ensure_running(broker_id)
        with self._alone():
            self._end([broker], signal.SIGTERM)

    def kill_broker(self, broker_id: int) -> int:
        """At once, as a failing machine would; its process id."""
        broker = self._ensure_running(broker_id)
        assert broker.process is not None
        with self._alone():
            self._end([broker], signal.SIGKILL)
        return broker.process.pid

    def send(self, broker_id: int, number: signal.Signals) -> None:
        """Any signal, such as SIGSTOP and SIGCONT."""
        process = self._ensure_running(broker_id).process
        assert process is not None
        process.send(number)

    def _ensure_running(self, broker_id: int) -> BrokerRecord:
        broker = self.broker(broker_id)
        if not broker.is_running:
            raise InvalidArgument(f"broker {broker_id} does not run: `milepost cluster restart {broker_id}` starts it")
        return broker

    def _end(self, brokers: Sequence[BrokerRecord], number: signal.Signals) -> None:
        for broker in brokers:
            if broker.process is not None:
                broker.process.send(number)
                # One that sleeps would not hear it.
                broker.process.send(signal.SIGCONT)
        for broker in brokers:
            process, was_killed = broker.process, number is signal.SIGKILL
            if process is not None and not process.wait(STOP_SECONDS):
                was_killed = True
                process.send(signal.SIGKILL)
                process.wait(STOP_SECONDS)
            self._write(self.record.with_broker(replace(broker, process=None, was_killed=was_killed)))

    def _stop_zookeeper(self) -> None:
        known = self.record.zookeeper
        if known.process is not None:
            assert known.port is not None
            server = ZooKeeperServer(f"{self.directory}/zookeeper", known.port)
            server.process = known.process
            server.stop()
            self._write(replace(self.record, zookeeper=replace(known, process=None)))

    # Files.

    def _data(self, broker_id: int) -> str:
        return f"{self.directory}/broker-{broker_id}"

    def log_path(self, broker_id: int) -> str:
        return f"{self.directory}/broker-{broker_id}.log"

    def said(self, broker_id: int) -> list[str]:
        """What a broker printed since we started it."""
        text = read_file(Disk(), self.log_path(broker_id))[self._said_before.get(broker_id, 0) :]
        return text.decode(errors="replace").splitlines()

    def _write(self, record: ClusterRecord) -> None:
        self.record = record
        write_record(self.directory, record)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other command changes this cluster."""
        disk = Disk()
        with opened(disk, f"{self.directory}/{LOCK}", os.O_RDWR | os.O_CREAT) as fd:
            if not disk.lock(fd):
                raise DirectoryLocked(
                    f"another `milepost cluster` command is changing the cluster in {self.directory}: wait for it"
                )
            yield


def _sized(count: int) -> dict[str, str]:
    """Settings of brokers, as many as there are."""
    replicas = str(min(3, count))
    return {
        **SETTINGS,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, count)),
    }

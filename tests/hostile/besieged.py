"""A real `milepost serve` under siege: the process, a healthy client that must not notice anything, and what both cost.

A test takes the broker, does its worst, and at the end `judge` says whether
- the process is there and has written no traceback,
- the healthy client, which produced and fetched all the while, saw no error and got on,
- the sockets are the ones of before, and the memory is near what it was.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from milepost.protocol.messages import FetchRequest, MetadataRequest, ProduceRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.waiting import PATIENCE, PROCESS_PATIENCE, until

COMMAND = [sys.executable, "-W", "error", "-c", "from milepost.cli.main import main; main(prog_name='milepost')", "serve"]
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
HEALTHY_TOPIC = "healthy"
# What Python's allocator keeps for itself after a crowd has gone.
MEMORY_SLACK = 48 << 20
PAUSE_SECONDS = 0.004
ABORT = struct.pack("ii", 1, 0)
NOW = int(time.time() * 1000)
"""Records of long ago would be deleted while they are looked at."""


@dataclass(frozen=True)
class Measure:
    sockets: int
    files: int
    memory: int
    cpu_seconds: float


class Besieged:
    def __init__(self, directory: Path, *arguments: str, **settings: str):
        directory.mkdir(parents=True)
        self.data = directory / "data"
        self._log = directory / "log"
        self._judged = 0  # how much of it
        given = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        flags = [word for name, value in given.items() for word in ("-X", f"{name}={value}")]
        command = [*arguments, *COMMAND, "--data", str(self.data), "--port", "0", *flags]
        with self._log.open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            self._begin()
        except BaseException:
            self._kill()
            raise

    def _begin(self) -> None:
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, b"")
        ready = next((line for line in lines if line.startswith(b"ready ")), None)
        assert ready, f"it ended before it was ready: {self.log[-2000:]}"
        self.address = ready.decode().split()[1]
        self.port = int(self.address.rpartition(":")[2])
        self.healthy = HealthyClient(self.address)
        self.healthy.start()
        self.healthy.get_on(20)

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def measure(self) -> Measure:
        """Of the process, as the kernel sees it."""
        place = Path("/proc", str(self.process.pid))
        links = []
        for entry in (place / "fd").iterdir():
            try:
                links.append(str(entry.readlink()))
            except FileNotFoundError:  # closed meanwhile
                continue
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        times = (place / "stat").read_text().rpartition(")")[2].split()
        sockets = sum(link.startswith("socket:") for link in links)
        return Measure(
            sockets, len(links) - sockets, int(status["VmRSS"].split()[0]) << 10, (int(times[11]) + int(times[12])) / 100
        )

    def judge(self, before: Measure, rounds_before: int) -> None:
        assert self.process.poll() is None, f"the broker is gone: {self.log[-2000:]}"
        self.healthy.get_on(5)
        assert self.healthy.rounds > rounds_before
        until(lambda: self.measure().sockets <= before.sockets, f"no more sockets are open than the {before.sockets} of before")
        now = self.measure()
        assert now.memory < before.memory + MEMORY_SLACK, f"{now.memory >> 20} MB now, {before.memory >> 20} before"
        written, self._judged = self.log[self._judged :], len(self.log)
        assert "Traceback" not in written and "ERROR" not in written, written[-4000:]

    def end(self) -> None:
        self.healthy.stop()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(timeout=PROCESS_PATIENCE)
        finally:
            self._kill()
        assert code == 0, self.log[-4000:]

    # Attacks.

    def connect(self, *, receive_buffer: int = 0, client_id: str | None = "hostile") -> Stranger:
        return Stranger(self.address, client_id, receive_buffer)

    def wire(self, client_id: str | None = "hostile") -> Wire:
        return Wire(self.address, client_id)


class Stranger(Wire):
    """A connection that may send anything, and end in any way."""

    def __init__(self, address: str, client_id: str | None, receive_buffer: int = 0):
        super().__init__(address, client_id)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)

    def send_bytes(self, data: bytes) -> Stranger:
        self.socket.sendall(data)
        return self

    def send_frame(self, frame: bytes) -> Stranger:
        return self.send_bytes(struct.pack(">i", len(frame)) + frame)

    @property
    def is_closed_by_the_broker(self) -> bool:
        """Waits for what the broker does: an answer says no."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def abort(self) -> None:
        """Go away with a reset instead of a farewell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        self.socket.close()


class HealthyClient(threading.Thread):
    """Produces a record and fetches it again, on one connection, until it is told to stop; an error ends it and is kept."""

    def __init__(self, address: str):
        super().__init__(name="healthy client", daemon=True)
        self.rounds = 0
        self.error: BaseException | None = None
        self.slowest = 0.0
        self._is_stopped = False
        self._wire = Wire(address, "healthy")
        self._moved = threading.Condition()

    def run(self) -> None:
        try:
            self._wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=HEALTHY_TOPIC)]), 12)
            while not self._is_stopped:
                start = time.monotonic()
                self._round()
                self.slowest = max(self.slowest, time.monotonic() - start)
                with self._moved:
                    self.rounds += 1
                    self._moved.notify_all()
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            self.error = error
        finally:
            self._wire.close()

    def _round(self) -> None:
        value = b"round %d" % self.rounds
        answered = produce(self._wire, HEALTHY_TOPIC, build_batch([Record(0, NOW, b"k", value)], base_offset=0))
        assert (answered.error_code, answered.base_offset) == (0, self.rounds)
        fetched = fetch(self._wire, HEALTHY_TOPIC, self.rounds)
        assert fetched.error_code == 0
        assert [record.value for batch in iter_batches(bytes(fetched.records)) for record in batch.records()] == [value]

    def get_on(self, rounds: int) -> None:
        """Wait until it has done so many more rounds."""
        goal = self.rounds + rounds
        with self._moved:
            while self.rounds < goal:
                assert self.error is None, f"the healthy client saw {self.error!r}"
                assert self._moved.wait(PATIENCE) or self.error, "the healthy client does not get on"

    def stop(self) -> None:
        self._is_stopped = True
        self.join(timeout=PATIENCE)


def produce(wire: Wire, topic: str, records: bytes | None, *, acks: int = -1, version: int = 9, **fields: Any) -> Any:
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=0, records=None if records is None else memoryview(records))
    request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[data(name=topic, partition_data=[part])], **fields)
    return wire.ask(request, version).responses[0].partition_responses[0]


def fetch(wire: Wire, topic: str, offset: int, *, version: int = 11, **fields: Any) -> Any:
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24, **fields}
    request = FetchRequest(topics=[FetchRequest.Topic(topic=topic, partitions=[part])], **asked)
    return wire.ask(request, version).responses[0].partitions[0]

"""How long requests wait for what a broker does in the background: cleaning, rolling, fsyncs, retention, checkpoints.

    python -m benchmarks.background [--megabytes N] [--partitions N] [--seconds S]

One client sends one-record produce requests, one after the other with a short rest, to a topic of its own, and takes their
times. First with nothing else going on; then while one kind of background work is under way on other topics of the same broker:

    quiet       nothing
    load        a second client produces 64 KB batches to another topic, which never rolls: what the traffic itself costs
    cleaning    the cleaner works on a compacted log of N MB, most of whose records have newer ones
    rolling     the load, in segments of 16 MB: each roll seals one, syncs it, and takes a snapshot
    fsync       the load, flushed whenever a hundred milliseconds have passed
    many logs   retention, checkpoints and producer expiry over N partitions, all the time

What client and broker waited for a processor, because the machine had something else to do, is taken off each time (Linux tells it per
thread, in `schedstat`); the last column is the longest time with it. A wait for background work may take 5 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.common import NOW_MS
from milepost import Record, build_batch
from milepost.client.admin import create_topic
from milepost.client.cluster import Cluster
from milepost.client.configs import Resource, ResourceType, alter_configs
from milepost.protocol import frames
from milepost.protocol.messages import ProduceRequest

PRODUCE, VERSION = 0, 9
REST_SECONDS = 0.0005
RECORD_BYTES = 1000
KEYS = 20_000


class Connection:
    """Frames out, frames in; nothing else between the clock and the broker."""

    def __init__(self, address: str):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        self.socket.sendall(frame)
        return self.read()

    def read(self) -> bytes:
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data


def produce_frame(topic: str, batch: bytes) -> bytes:
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=0, records=memoryview(batch))
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data(name=topic, partition_data=[part])])
    return frames.encode_request(PRODUCE, VERSION, 1, "bench", request)


def keyed_batch(rng: random.Random) -> bytes:
    value = rng.randbytes(RECORD_BYTES)
    records = [Record(number, NOW_MS, b"key-%d" % rng.randrange(KEYS), value) for number in range(60)]
    return build_batch(records, base_offset=0)


class Waits:
    """The seconds that two threads were ready to run and did not: the client's, and the one that serves all requests of the broker."""

    def __init__(self, pid: int):
        self._files = [os.open(f"/proc/{each}/task/{each}/schedstat", os.O_RDONLY) for each in (os.getpid(), pid)]

    def total(self) -> float:
        return sum(int(os.pread(file, 100, 0).split()[1]) for file in self._files) / 1e9


class Server:
    def __init__(self, address: str, pid: int):
        self.address = address
        self.waits = Waits(pid)


@contextlib.contextmanager
def broker(directory: str, **settings: object) -> Iterator[Server]:
    command = [sys.executable, "-m", "milepost.cli", "serve", "--data", directory, "--port", "0"]
    for name, value in settings.items():
        command += ["-X", f"{name.replace('_', '.')}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("ready "):
                    break
            yield Server(line.split()[1], process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Latencies:
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.longest = 0.0

    def measure(self, server: Server, topic: str, seconds: float, until: Callable[[], bool] = lambda: False) -> Latencies:
        connection = Connection(server.address)
        frame = produce_frame(topic, build_batch([Record(0, NOW_MS, b"key", bytes(100))], base_offset=0))
        for _ in range(200):
            connection.ask(frame)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and not until():
            waited = server.waits.total()
            start = time.perf_counter()
            connection.ask(frame)
            taken = time.perf_counter() - start
            self.seconds.append(max(0.0, taken - (server.waits.total() - waited)))
            self.longest = max(self.longest, taken)
            time.sleep(REST_SECONDS)
        connection.socket.close()
        return self

    def row(self, name: str) -> str:
        times = sorted(self.seconds)

        def share(part: float) -> float:
            return times[min(len(times) - 1, int(len(times) * part))] * 1000

        slow = sum(second > 0.005 for second in times)
        return (
            f"  {name:<28} {len(times):>7} {share(0.5):>8.2f} {share(0.99):>8.2f} {share(0.999):>8.2f} {times[-1] * 1000:>8.2f}"
            f" {slow:>7} {self.longest * 1000:>9.2f}"
        )


@contextlib.contextmanager
def load(address: str, topic: str) -> Iterator[None]:
    """Somebody else produces 64 KB batches as fast as they are answered."""
    connection, is_over = Connection(address), threading.Event()
    frame = produce_frame(topic, keyed_batch(random.Random(1)))

    def run() -> None:
        while not is_over.is_set():
            connection.ask(frame)
            time.sleep(REST_SECONDS)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        connection.socket.close()


def fill(address: str, topic: str, megabytes: int) -> None:
    connection, rng = Connection(address), random.Random(7)
    batches = [produce_frame(topic, keyed_batch(rng)) for _ in range(200)]
    for number in range(megabytes * 1_000_000 // (60 * RECORD_BYTES)):
        connection.ask(batches[number % len(batches)])
    connection.socket.close()


def while_cleaning(directory: str, megabytes: int, seconds: float) -> None:
    settings = {"log.initial.task.delay.ms": 0, "log.cleaner.backoff.ms": 100}
    with broker(directory, **settings) as server, Cluster(server.address) as cluster:
        create_topic(cluster, "timed")
        create_topic(cluster, "compacted", configs={"segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.01"})
        fill(server.address, "compacted", megabytes)
        print(Latencies().measure(server, "timed", seconds).row("quiet"))
        path = os.path.join(directory, "compacted-0")
        before = size_of(path)
        alter_configs(
            cluster, Resource(ResourceType.TOPIC, "compacted"), {"cleanup.policy": "compact", "file.delete.delay.ms": "0"}
        )
        start = time.perf_counter()
        times = Latencies().measure(server, "timed", 120, lambda: is_cleaned(directory))
        taken = time.perf_counter() - start
        print(times.row(f"cleaning {megabytes} MB, {taken:.1f} s"))
        print(f"  ({before / 1e6:.0f} MB became {size_of(path) / 1e6:.0f} MB)")


def size_of(path: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(path) if entry.name.endswith(".log"))


def is_cleaned(directory: str) -> bool:
    """The checkpoint is the last thing a cleaning writes."""
    path = os.path.join(directory, "cleaner-offset-checkpoint")
    return os.path.exists(path) and "compacted 0" in open(path).read()


def under_load(directory: str, seconds: float) -> None:
    with broker(directory, **{"log.initial.task.delay.ms": 0}) as server, Cluster(server.address) as cluster:
        create_topic(cluster, "timed")
        for name, configs in (
            ("load", {}),
            ("rolling", {"segment.bytes": str(16 << 20)}),
            ("fsync", {"flush.ms": "100"}),
        ):
            create_topic(cluster, name, configs=configs)
            with load(server.address, name):
                print(Latencies().measure(server, "timed", seconds).row(name))


def with_many_logs(directory: str, partitions: int, seconds: float) -> None:
    settings = {
        "log.initial.task.delay.ms": 0,
        "log.retention.check.interval.ms": 1,
        "replica.high.watermark.checkpoint.interval.ms": 1,
        "log.flush.offset.checkpoint.interval.ms": 1,
        "log.flush.start.offset.checkpoint.interval.ms": 1,
        "producer.id.expiration.check.interval.ms": 1,
    }
    with broker(directory, **settings) as server, Cluster(server.address) as cluster:
        create_topic(cluster, "timed")
        for number in range(partitions // 100):
            create_topic(cluster, f"many-{number}", partitions=100)
        print(Latencies().measure(server, "timed", seconds).row(f"many logs ({partitions})"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--data", default=None, help="where to put the logs: on the disk that matters")
    arguments = parser.parse_args()
    with scratch_on_disk(arguments.data) as directory:
        print("\nOne-record requests, milliseconds")
        print(f"  {'':<28} {'count':>7} {'p50':>8} {'p99':>8} {'p99.9':>8} {'max':>8} {'> 5 ms':>7} {'max, all':>9}")
        while_cleaning(os.path.join(directory, "cleaning"), arguments.megabytes, arguments.seconds)
        under_load(os.path.join(directory, "load"), arguments.seconds)
        with_many_logs(os.path.join(directory, "many"), arguments.partitions, arguments.seconds)


@contextlib.contextmanager
def scratch_on_disk(parent: str | None) -> Iterator[str]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="milepost-bench-", dir=parent) as path:
        yield path


if __name__ == "__main__":
    main()

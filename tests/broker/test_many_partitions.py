"""More partitions than descriptors: all are written, read back after a clean stop and after a kill, and the limit is never reached.

A partition has four files, and a broker that held them all would need forty thousand descriptors for ten thousand partitions. In
`make test` a tenth of that, with a tenth of the descriptors.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.protocol.messages import CreateTopicsRequest, FetchRequest, ProduceRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire

NOW = 1_700_000_000_000
PARTITIONS = 100
# What a Python process and a listener need, whatever the logs do.
SPARE_DESCRIPTORS = 24


class LimitedBroker:
    """`milepost serve` in a process that may open so many files."""

    def __init__(self, directory: Path, descriptors: int):
        self._descriptors = descriptors
        self._command = [sys.executable, "-m", "milepost.cli", "serve", "--data", str(directory), "--port", "0"]
        self.errors = directory.parent / "errors"
        self.start()

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=self._limit
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.wire = Wire(line.split()[1])
                self.wire.socket.settimeout(120)
                return
        raise AssertionError(f"it ended before it was ready: {self.errors.read_text()[-2000:]}")

    def _limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._descriptors, self._descriptors))

    def end(self, number: signal.Signals) -> int:
        self.wire.close()
        self.process.send_signal(number)
        code = self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@pytest.fixture
def limited():
    started: list[LimitedBroker] = []

    def start(descriptors: int) -> LimitedBroker:
        started.append(LimitedBroker(Path(directory) / "data", descriptors))
        return started[0]

    # In memory where there is a place for it: thousands of fsyncs of empty files say nothing about descriptors.
    with tempfile.TemporaryDirectory(prefix="milepost-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        yield start
        for broker in started:
            if broker.process.poll() is None:
                broker.end(signal.SIGKILL)


def create(wire: Wire, topics: int) -> None:
    for number in range(topics):
        wanted = CreateTopicsRequest.Topic(name=f"t{number}", num_partitions=PARTITIONS, replication_factor=1)
        answer = wire.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7)
        assert answer.topics[0].error_code == 0


def write(wire: Wire, topics: int, value: bytes) -> None:
    """A record to each partition."""
    data = ProduceRequest.TopicData
    for number in range(topics):
        parts = []
        for partition in range(PARTITIONS):
            batch = build_batch([Record(0, NOW, b"t%d-%d" % (number, partition), value)], base_offset=0)
            parts.append(data.PartitionData(index=partition, records=memoryview(batch)))
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data(name=f"t{number}", partition_data=parts)])
        assert {part.error_code for part in wire.ask(request, 9).responses[0].partition_responses} == {0}


def read(wire: Wire, topics: int) -> set[tuple[bytes, ...]]:
    """The values of every partition; all keys are as they should be."""
    asked = FetchRequest.Topic
    found = set()
    for number in range(topics):
        parts = [asked.Partition(partition=each, fetch_offset=0, partition_max_bytes=4096) for each in range(PARTITIONS)]
        answer = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[asked(topic=f"t{number}", partitions=parts)]), 11)
        for part in answer.responses[0].partitions:
            records = [record for batch in iter_batches(bytes(part.records)) for record in batch.records()]
            assert {record.key for record in records} == {b"t%d-%d" % (number, part.partition_index)}
            found.add(tuple(record.value for record in records))
    return found


def many_partitions(start: Callable[[int], LimitedBroker], topics: int, descriptors: int) -> None:
    broker = start(descriptors)
    create(broker.wire, topics)
    write(broker.wire, topics, b"first")
    assert read(broker.wire, topics) == {(b"first",)}
    assert broker.open_files <= descriptors - SPARE_DESCRIPTORS / 2
    assert broker.end(signal.SIGTERM) == 0
    broker.start()
    assert read(broker.wire, topics) == {(b"first",)}
    write(broker.wire, topics, b"second")
    assert broker.end(signal.SIGKILL) == -signal.SIGKILL
    broker.start()
    assert read(broker.wire, topics) == {(b"first", b"second")}
    assert broker.open_files <= descriptors - SPARE_DESCRIPTORS / 2
    assert broker.end(signal.SIGTERM) == 0
    assert broker.errors.read_text() == ""


def test_thousand_partitions_with_a_hundred_descriptors(limited):
    many_partitions(limited, 10, 100)


@pytest.mark.trouble
def test_ten_thousand_partitions_with_a_thousand_descriptors(limited):
    many_partitions(limited, 100, 1024)

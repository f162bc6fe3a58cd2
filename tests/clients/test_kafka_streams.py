"""Kafka Streams, of 3.9.1 and of 4.3.0: a word count with exactly_once_v2 that is killed in the middle and goes on.

Behind it stand transactions with offsets in them, fencing, read_committed, repartition and changelog topics, deletion of records.
"""

from __future__ import annotations

import collections
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.client import kafka_clients
from tests.clients.compatibility.record import recorder
from tests.clients.java_tools import JAVA, java_command
from tests.clients.served import Served
from tests.waiting import PROCESS_PATIENCE

pytestmark = pytest.mark.kafka
CLIENTS = kafka_clients("Streams", "Java")
WORDS = ["page", "visit", "user", "home", "search", "cart", "a", "b"]
SECONDS = 2 * PROCESS_PATIENCE


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    running = Served(tmp_path, requests=recorder().requests_of(request.path.stem))
    yield running
    running.stop()


class WordCount:
    """The application; closing it is kill -9, and a new one over the same directory goes on."""

    def __init__(self, version: str, served: Served, directory: Path):
        self.errors = directory / "errors"
        state = directory / "state"
        state.mkdir(exist_ok=True)
        command = java_command(
            version, str(JAVA / "WordCount.java"), served.bootstrap, "word-count", "lines", "counts", str(state)
        )
        with self.errors.open("ab") as stream:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stream, stderr=stream)

    def close(self) -> None:
        with self.process:
            self.process.kill()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0, self.errors.read_text()[-4000:]


class Counts:
    """What a reader of committed records gets of the counts, word by word in order."""

    def __init__(self, served: Served):
        settings = {"group.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.consumer = Consumer({"bootstrap.servers": served.bootstrap, "isolation.level": "read_committed", **settings})
        self.consumer.subscribe(["counts"])
        self.found: dict[str, list[int]] = collections.defaultdict(list)

    def take(self, total: int) -> None:
        """Until there are `total` in all."""
        deadline = time.monotonic() + SECONDS
        while (has := sum(map(len, self.found.values()))) < total:
            assert time.monotonic() < deadline, f"after {SECONDS:g} s there are {has} of {total} counts"
            for message in self.consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                self.found[message.key().decode()].append(int(message.value()))


def write(served: Served, lines: range) -> None:
    producer = Producer({"bootstrap.servers": served.bootstrap, "linger.ms": 5})
    for number in lines:
        producer.produce("lines", f"{WORDS[number % 8]} {WORDS[number % 3]} {WORDS[number % 5]}", partition=number % 2)
    assert producer.flush(SECONDS) == 0


def right_counts(lines: int) -> dict[str, list[int]]:
    """Each word's count rises by one with each time it is met: 1, 2, 3, ..."""
    met = collections.Counter(WORDS[number % divisor] for number in range(lines) for divisor in (8, 3, 5))
    return {word: list(range(1, times + 1)) for word, times in met.items()}


def count_words(version: str, served: Served, directory: Path, kills: int, step: int) -> None:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    for created in admin.create_topics([NewTopic("lines", 2, 1), NewTopic("counts", 2, 1)]).values():
        created.result(SECONDS)
    counts = Counts(served)
    with closing(counts.consumer):
        for kill in range(kills):
            with closing(WordCount(version, served, directory)):
                write(served, range(kill * step, (kill + 1) * step))
                # Some of the step is counted and not all of it: it dies at work.
                counts.take(3 * step * kill + 100)
        with closing(WordCount(version, served, directory)) as application:
            write(served, range(kills * step, (kills + 1) * step))
            counts.take(3 * step * (kills + 1))
            application.stop()
    assert dict(counts.found) == right_counts(step * (kills + 1))


@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_words_are_counted_exactly_once_by_an_application_that_was_killed(served, tmp_path, version):
    count_words(version, served, tmp_path, kills=1, step=4000)


@pytest.mark.trouble
@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_words_are_counted_exactly_once_by_an_application_that_was_killed_ten_times(served, tmp_path, version):
    count_words(version, served, tmp_path, kills=10, step=4000)

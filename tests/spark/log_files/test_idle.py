"""A stream over files that waits: it notices what changes, and spends next to nothing while nothing does."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from milepost.files import Disk
from milepost.log.open import open_log
from milepost.record.records import Record
from milepost.spark.log_files.memory import Pace
from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.options import SourceOptions
from milepost.topic_partition import TopicPartition
from tests.spark.logs import many_batches, write_log

PARTITIONS = 20


class CountingDisk(Disk):
    """Counts what is asked of the file system."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        if name in ("open", "listdir", "stat", "pread"):
            self.calls[name] += 1
        return super().__getattribute__(name)


def lie_back(root: Path, seconds: int = 60) -> None:
    """Nothing below was changed for a while."""
    then = time.time_ns() - seconds * 1_000_000_000
    for directory, _, names in os.walk(root, topdown=False):
        for path in (*(f"{directory}/{name}" for name in names), directory):
            os.utime(path, ns=(then, then))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number in range(PARTITIONS):
        write_log(tmp_path, "t", number, list(many_batches(40)), segment_bytes=1000)
    lie_back(tmp_path)
    return tmp_path


def ends(transport: LogFilesTransport) -> dict[TopicPartition, int]:
    return transport.latest(transport.remaining(transport.options.subscription))


def transport_of(data: Path) -> tuple[LogFilesTransport, CountingDisk]:
    disk = CountingDisk()
    given = {"path": str(data), "subscribe": "t", "endOfLog": "logEnd"}
    return LogFilesTransport(SourceOptions.parse(given, streaming=True), disk), disk


def test_look_at_an_idle_log_asks_for_no_segment_but_the_last(data: Path) -> None:
    segments = sum(1 for _ in data.glob("t-*/*.log"))
    assert segments > 5 * PARTITIONS
    transport, disk = transport_of(data)
    first = ends(transport)
    assert set(first.values()) == {120}
    disk.calls.clear()
    assert ends(transport) == first
    assert (disk.calls["open"], disk.calls["pread"], disk.calls["listdir"]) == (0, 0, 0)
    # Two listings, each with a status per directory and per last segment, and some for the root.
    assert disk.calls["stat"] <= 2 * (2 * PARTITIONS + 4)


def test_what_changes_is_noticed(data: Path) -> None:
    transport, _ = transport_of(data)
    ends(transport)
    grown = TopicPartition("t", 3)
    # In place: without a new name in the directory.
    with open_log(str(data / "t-3"), "a") as log:
        lie_back(data)
        assert ends(transport)[grown] == 120
        for expected in (121, 122):
            log.append([Record(0, 0, None, b"x")])
            assert ends(transport)[grown] == expected
        log.roll()
        log.append([Record(0, 0, None, b"y")])
        assert ends(transport)[grown] == 123
    write_log(data, "t", PARTITIONS, list(many_batches(1)))
    assert ends(transport)[TopicPartition("t", PARTITIONS)] == 3
    lie_back(data)
    (data / "t-5").rename(data / "t-5.0123456789abcdef0123456789abcdef-delete")
    assert TopicPartition("t", 5) not in ends(transport)


def test_change_within_the_tick_of_the_look_is_not_lost(data: Path) -> None:
    transport, _ = transport_of(data)
    with open_log(str(data / "t-3"), "a") as log:
        log.append([Record(0, 0, None, b"x")])
        path = data / "t-3"
        active = max(path.glob("*.log"))
        then = time.time_ns()
        os.utime(active, ns=(then, then))
        os.utime(path, ns=(then, then))
        assert ends(transport)[TopicPartition("t", 3)] == 121
        log.append([Record(0, 0, None, b"y")])
        os.utime(active, ns=(then, then))
        assert ends(transport)[TopicPartition("t", 3)] == 122


@pytest.mark.parametrize(("least_pause", "cost", "lasted"), [(0.1, 0.02, 24.5), (0.1, 0.001, 4.9), (0.0, 0.001, 1.225)])
def test_looks_that_find_nothing_take_no_more_than_their_share_of_a_core(least_pause: float, cost: float, lasted: float) -> None:
    now, spent, slept = [0.0], [0.0], [0.0]

    def sleep(seconds: float) -> None:
        slept[0] += seconds
        now[0] += seconds

    pace = Pace(least_pause, sleep, lambda: spent[0], lambda: now[0])
    for _ in range(50):
        pace.before_look()
        now[0] += cost
        spent[0] += cost
        pace.looked(found=False)
    assert spent[0] <= 0.05 * now[0]
    assert slept[0] == pytest.approx(lasted)
    before = slept[0]
    pace.looked(found=True)
    for _ in range(5):
        pace.before_look()
        pace.looked(found=True)
    assert slept[0] == before, "a stream that has something to read does not wait"

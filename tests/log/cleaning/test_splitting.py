"""A segment whose offsets no longer fit its indexes is split: the same batches in more segments, whatever goes wrong."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.topic import LogConfig
from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import HandlePool
from milepost.log.cleaning.splitting import split_overflowed
from milepost.log.segments import LogSegments
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.segment.append_unit import AppendUnit
from milepost.segment.segment import Segment
from tests.log.cleaning.cleaned_logs import NOW, QuickDisk, contents, leftovers
from tests.log.cleaning.test_swap import FailingDisk, Killed, load

INT_MAX = 2**31 - 1
CONFIG = LogConfig.parse({"index.interval.bytes": 0})


def segments_in(directory: Path, batches: list[list[int]], base_offset: int = 0, disk: QuickDisk | None = None) -> LogSegments:
    """One segment that holds a batch for each list of offsets, whether they fit or not, and one with a single record behind it."""
    directory.mkdir(parents=True, exist_ok=True)
    pool = HandlePool(disk or QuickDisk())
    segments = LogSegments()
    for base in (base_offset, batches[-1][-1] + 1):
        segments.add(Segment.create(pool, str(directory), base, CONFIG, ManualClock(NOW), random.Random(0)))
    for offsets in batches:
        records = [Record(offset, NOW, b"k%d" % offset, b"v") for offset in offsets]
        data = build_batch(records, base_offset=offsets[0])
        segments.first.log.append([data], len(data))
    last = segments.active
    data = build_batch([Record(last.base_offset, NOW, b"last", b"v")], base_offset=last.base_offset)
    last.append([data], [AppendUnit(last.base_offset, len(data), NOW, last.base_offset)])
    return segments


def offsets_of(segments: LogSegments) -> list[tuple[int, list[int]]]:
    """Base offset and record offsets of every segment."""
    return [
        (segment.base_offset, [record.offset for _, batch in segment.log.batches() for record in batch.records()])
        for segment in segments
    ]


def test_overflowed_segment_becomes_two_with_the_same_records(tmp_path):
    segments = segments_in(tmp_path / "kv-0", [[0], [1], [INT_MAX], [INT_MAX + 1], [INT_MAX + 2]])
    size = segments.first.size
    pieces = split_overflowed(segments.first, segments)
    assert offsets_of(segments) == [(0, [0, 1, INT_MAX]), (INT_MAX + 1, [INT_MAX + 1, INT_MAX + 2]), (INT_MAX + 3, [INT_MAX + 3])]
    assert sum(piece.size for piece in pieces) == size
    for piece in pieces:
        piece.check_indexes()
        assert piece.offset_index.entries == sum(1 for _ in piece.log.batches()) - 1


def test_segment_whose_every_batch_overflows_becomes_one_named_by_its_first(tmp_path):
    segments = segments_in(tmp_path / "kv-0", [[INT_MAX + 10], [INT_MAX + 11]])
    split_overflowed(segments.first, segments)
    assert offsets_of(segments) == [(INT_MAX + 10, [INT_MAX + 10, INT_MAX + 11]), (INT_MAX + 12, [INT_MAX + 12])]


def test_batch_that_starts_inside_the_segment_and_ends_outside_goes_into_a_piece_of_its_own(tmp_path):
    segments = segments_in(tmp_path / "kv-0", [[INT_MAX - 1, INT_MAX + 1]])
    split_overflowed(segments.first, segments)
    assert offsets_of(segments) == [(INT_MAX - 1, [INT_MAX - 1, INT_MAX + 1]), (INT_MAX + 2, [INT_MAX + 2])]


def test_as_many_pieces_as_the_offsets_need(tmp_path):
    far = [[number * INT_MAX] for number in range(4)]
    segments = segments_in(tmp_path / "kv-0", far)
    split_overflowed(segments.first, segments)
    assert offsets_of(segments)[:-1] == [(0, [0, INT_MAX]), (2 * INT_MAX, [2 * INT_MAX, 3 * INT_MAX])]


def test_pieces_keep_the_time_of_the_file(tmp_path):
    segments = segments_in(tmp_path / "kv-0", [[0], [INT_MAX + 1]])
    os.utime(segments.first.log.path, (1_700_000_000, 1_700_000_000))
    pieces = split_overflowed(segments.first, segments)
    assert [os.stat(piece.log.path).st_mtime for piece in pieces] == [1_700_000_000, 1_700_000_000]


def test_segment_that_fits_is_not_split(tmp_path):
    directory = tmp_path / "kv-0"
    segments = segments_in(directory, [[0], [INT_MAX]])
    with pytest.raises(InvalidArgument, match="nothing to split"):
        split_overflowed(segments.first, segments)
    assert offsets_of(segments) == [(0, [0, INT_MAX]), (INT_MAX + 1, [INT_MAX + 1])]
    assert not list(directory.glob("*.cleaned"))


def test_segment_with_a_torn_end_is_left_alone(tmp_path):
    directory = tmp_path / "kv-0"
    segments = segments_in(directory, [[0], [INT_MAX + 1]])
    segments.first.log.append([b"\0" * 30], 30)
    segments.first.log.truncate_to(segments.first.size - 13)
    with pytest.raises(KafkaStorage, match=r"repair it before it is split"):
        split_overflowed(segments.first, segments)
    assert len(segments) == 2
    assert not list(directory.glob("*.cleaned"))


def test_overflowed_segment_is_split_when_the_log_is_loaded(tmp_path):
    directory = tmp_path / "kv-0"
    segments_in(directory, [[0], [5], [INT_MAX + 1], [INT_MAX + 9]])
    log = load(directory, QuickDisk())
    assert log.segments.base_offsets() == [0, INT_MAX + 1, INT_MAX + 10]
    assert sorted(contents(log)) == [0, 5, INT_MAX + 1, INT_MAX + 9, INT_MAX + 10]
    assert log.end_offset == INT_MAX + 11


@pytest.fixture
def overflowed(tmp_path) -> Callable[[str], Path]:
    original = tmp_path / "original" / "kv-0"
    segments_in(original, [[0], [5], [INT_MAX + 1], [INT_MAX + 9], [2 * INT_MAX + 4]])

    def make(name: str) -> Path:
        return Path(shutil.copytree(original, tmp_path / name / "kv-0"))

    return make


def test_kill_at_every_call_of_a_split_leaves_all_records_once(overflowed):
    counting = FailingDisk()
    load(overflowed("count"), counting)
    assert counting.calls > 80
    for call in range(1, counting.calls + 1):
        directory = overflowed(f"kill{call}")
        with pytest.raises(Killed):
            load(directory, FailingDisk(call))
        log = load(directory, QuickDisk())
        assert list(contents(log)) == [0, 5, INT_MAX + 1, INT_MAX + 9, 2 * INT_MAX + 4, 2 * INT_MAX + 5], call
        assert (log.start_offset, log.end_offset, leftovers(log)) == (0, 2 * INT_MAX + 6, [])
        shutil.rmtree(directory)

"""Reading on where the last read ended, and when that is not possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.log.cached_position import CachedPosition
from milepost.log.log import Log
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.log.making import log_in

BATCH = build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * 50)], base_offset=0)
SIZE = len(BATCH)
PLENTY = 1 << 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = log_in(tmp_path)
    append(log, 3)
    yield log
    log.close()


def append(log: Log, batches: int = 1, size: int = 50) -> None:
    for _ in range(batches):
        log.append_as_leader(build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * size)], base_offset=0), leader_epoch=0)
    log.update_high_watermark(log.end_offset)


def cached(log: Log, offset: int, max_bytes: int = PLENTY) -> CachedPosition:
    records = log.read(offset, max_bytes).records
    assert records is not None
    return CachedPosition.after_read(log, offset, records)


def found(cached: CachedPosition, log: Log, offset: int, limit: int = PLENTY) -> tuple[int, int] | None:
    """Position and size."""
    piece = cached.read(log, offset, log.high_watermark, limit)
    return None if piece is None else (piece.position, piece.size)


def test_what_comes_behind_the_end_is_found(log):
    position = cached(log, 1)
    append(log, 2)
    assert found(position, log, 3) == (3 * SIZE, 2 * SIZE)


def test_the_same_again_is_found_and_what_came_behind_it(log):
    position = cached(log, 1)
    assert found(position, log, 1) == (SIZE, 2 * SIZE)
    append(log)
    assert found(position, log, 1) == (SIZE, 3 * SIZE)


def test_other_offsets_are_not_known(log):
    position = cached(log, 1)
    append(log)
    assert [found(position, log, offset) for offset in (0, 2, 4, -1, 100)] == [None] * 5


def test_nothing_behind_the_end_is_no_read(log):
    assert found(cached(log, 1), log, 3) is None


def test_end_of_a_read_that_was_cut_is_not_known(log):
    position = cached(log, 0, max_bytes=SIZE)
    append(log)
    assert [found(position, log, offset) for offset in (1, 2, 3)] == [None] * 3
    assert found(position, log, 0) == (0, 4 * SIZE)


def test_more_than_the_limit_is_not_read(log):
    position = cached(log, 1)
    assert found(position, log, 1, limit=2 * SIZE) == (SIZE, 2 * SIZE)
    assert found(position, log, 1, limit=2 * SIZE - 1) is None


def test_what_is_not_committed_is_not_read(log):
    position = cached(log, 1)
    append(log)
    assert position.read(log, 3, 3, PLENTY) is None
    assert position.read(log, 1, 3, PLENTY) is None


def test_records_that_were_deleted_are_not_read(log):
    position = cached(log, 1)
    log.increment_start(2)
    assert found(position, log, 1) is None


def test_log_that_was_cut_and_written_anew_has_other_positions(log):
    position = cached(log, 1)
    log.truncate_to(2)
    append(log, size=500)
    append(log)
    assert log.end_offset == 4
    assert found(position, log, 3) is None
    assert found(position, log, 1) is None


def test_log_that_begins_elsewhere_has_other_positions(log):
    position = cached(log, 1)
    log.truncate_fully_and_start_at(3)
    append(log)
    assert found(position, log, 3) is None


def test_newer_segment_has_other_positions(log):
    position = cached(log, 1)
    log.roll()
    append(log, 5)
    assert found(position, log, 3) is None
    assert found(position, log, 1) is None


def test_log_that_failed_is_not_read(log):
    position = cached(log, 1)
    log.is_failed = True
    assert found(position, log, 1) is None
    log.is_failed = False
    assert found(position, log, 1) == (SIZE, 2 * SIZE)


def test_damaged_bytes_are_left_to_the_log(log, monkeypatch):
    position = cached(log, 1)
    monkeypatch.setattr(log.segments.active.log, "holes", ["damage"])
    assert found(position, log, 1) is None

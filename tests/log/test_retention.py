"""Which segments retention takes, in which order things reach the disk, and what comes back after a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.errors import OffsetOutOfRange
from milepost.files import Disk
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.log.retention import deletable_segments, delete_below_start, delete_by_size, delete_by_time, delete_old_segments
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.log.cleaning.cleaned_logs import DAY, NOW, QuickDisk

RECORD_BYTES = len(build_batch([Record(0, NOW, b"key", b"value")]))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def new_log(
    directory: Path, clock: ManualClock, records: int = 0, *, timestamp: int = NOW, disk: Disk | None = None, **config
) -> Log:
    """Five records to a segment; the high watermark stays at 0."""
    settings = {"segment.bytes": 5 * RECORD_BYTES, "segment.ms": 10**15, "file.delete.delay.ms": 1000}
    settings |= {name.replace("_", "."): value for name, value in config.items()}
    log = open_log(str(directory / "events-0"), "a", settings, clock=clock, disk=disk or QuickDisk())
    append(log, records, timestamp)
    return log


def append(log: Log, records: int, timestamp: int = NOW) -> None:
    for _ in range(records):
        log.append_as_leader(build_batch([Record(0, timestamp, b"key", b"value")]))


def bases(log: Log) -> list[int]:
    return log.segments.base_offsets()


# The high watermark holds segments back.


def test_nothing_is_deleted_above_the_high_watermark(tmp_path, clock):
    log = new_log(tmp_path, clock, 100, timestamp=NOW - 1000, retention_ms=999)
    assert delete_old_segments(log) == 0
    for high_watermark in range(25, 31):
        log.update_high_watermark(high_watermark)
        delete_old_segments(log)
        assert log.start_offset <= high_watermark
        ends = [*bases(log)[1:], log.end_offset]
        assert all(end >= high_watermark for end in ends)
    log.close()


def test_epoch_entries_collapse_to_the_last_when_everything_goes(tmp_path, clock):
    log = new_log(tmp_path, clock, 100, timestamp=NOW - 1000, retention_ms=999)
    log.epochs.clear()
    log.epochs.assign(0, 40)
    log.epochs.assign(1, 90)
    log.update_high_watermark(100)
    assert delete_old_segments(log) == 20
    assert (bases(log), log.start_offset, log.end_offset) == ([100], 100, 100)
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(1, 100)]
    log.close()


def test_high_watermark_step_by_step_over_expired_records(tmp_path, clock):
    log = new_log(tmp_path, clock, 100, timestamp=10, retention_ms=1000)
    for high_watermark in range(101):
        log.update_high_watermark(high_watermark)
        delete_old_segments(log)
        assert log.start_offset <= high_watermark
        assert bases(log)[0] <= high_watermark
        assert all(base > high_watermark for base in bases(log)[1:])
    assert (bases(log), log.segments.active.size) == ([100], 0)
    log.close()


# By log start.


@pytest.mark.parametrize(("start", "segments"), [(1, 3), (4, 3), (5, 2), (6, 2), (14, 1), (15, 1)])
def test_segments_wholly_below_the_log_start_go(tmp_path, clock, start, segments):
    log = new_log(tmp_path, clock, 15)
    log.update_high_watermark(15)
    log.increment_start(start)
    assert delete_below_start(log) == 3 - segments
    assert len(log.segments) == segments
    assert log.start_offset == start
    log.close()


def test_log_start_counts_for_a_compacted_log_and_nothing_else_does(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, timestamp=10, cleanup_policy="compact", retention_ms=1, retention_bytes=0)
    log.update_high_watermark(15)
    assert delete_old_segments(log) == 0
    log.increment_start(6)
    assert delete_old_segments(log) == 1
    assert bases(log) == [5, 10]
    log.close()


# By size.


@pytest.mark.parametrize(
    ("retained", "segments"),
    [(-1, 3), (15, 3), (16, 3), (14, 3), (11, 3), (10, 2), (9, 2), (6, 2), (5, 1), (1, 1), (0, 1)],
)
def test_segments_go_while_the_rest_still_holds_the_bytes_to_retain(tmp_path, clock, retained, segments):
    log = new_log(tmp_path, clock, 15, retention_bytes=retained * RECORD_BYTES)
    log.update_high_watermark(15)
    delete_by_size(log)
    assert len(log.segments) == segments
    log.close()


def test_nothing_retained_leaves_an_empty_segment_at_the_end(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, retention_bytes=0)
    log.update_high_watermark(15)
    assert delete_by_size(log) == 3
    assert (bases(log), log.start_offset, log.end_offset) == ([15], 15, 15)
    assert delete_by_size(log) == 0
    log.close()


# By time.


@pytest.mark.parametrize(
    ("timestamp", "retention_ms", "segments"),
    [(10, 10_000, 1), (NOW, 10_000, 3), (NOW - 10_000, 10_000, 3), (NOW - 10_001, 10_000, 1), (10, -1, 3)],
)
def test_segments_go_when_their_newest_record_is_too_old(tmp_path, clock, timestamp, retention_ms, segments):
    log = new_log(tmp_path, clock, 15, timestamp=timestamp, retention_ms=retention_ms)
    log.update_high_watermark(15)
    delete_by_time(log)
    assert len(log.segments) == segments
    log.close()


@pytest.mark.parametrize("records", [0, 1, 25])
def test_retention_of_zero_keeps_the_end_of_the_log(tmp_path, clock, records):
    log = new_log(tmp_path, clock, records, timestamp=NOW - 1, retention_ms=0)
    log.update_high_watermark(records)
    delete_old_segments(log)
    assert (len(log.segments), log.end_offset) == (1, records)
    assert delete_old_segments(log) == 0
    assert log.append([Record(key=b"key", value=b"value")]).first_offset == records
    log.close()


def test_young_segment_in_front_holds_old_ones_back_until_it_is_below_the_start(tmp_path, clock):
    log = new_log(tmp_path, clock, 5, timestamp=NOW, retention_ms=1000)
    append(log, 10, NOW - 5000)
    append(log, 1, NOW)
    log.update_high_watermark(16)
    assert delete_old_segments(log) == 0
    log.increment_start(5)
    assert delete_old_segments(log) == 3
    assert bases(log) == [15]
    assert delete_old_segments(log) == 0
    log.close()


def test_record_from_the_future_keeps_its_segment_and_all_behind_it(tmp_path, clock):
    log = new_log(tmp_path, clock, 5, timestamp=NOW - DAY, retention_ms=1000)
    append(log, 1, NOW + DAY)
    append(log, 9, NOW - DAY)
    log.update_high_watermark(15)
    assert delete_by_time(log) == 1
    assert bases(log) == [5, 10]
    log.close()


def test_segment_without_timestamps_is_as_old_as_its_file(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, timestamp=-1, retention_ms=1000)
    log.update_high_watermark(15)
    for segment, age_ms in zip(log.segments, (5000, 1001, 0), strict=True):
        os.utime(segment.log.path, ns=((NOW - age_ms) * 1_000_000,) * 2)
    assert delete_by_time(log) == 2
    assert bases(log) == [10]
    log.close()


# What may go at all.


def test_search_for_segments_that_may_go_ends_at_the_first_that_may_not(tmp_path, clock):
    log = new_log(tmp_path, clock, 15)
    log.update_high_watermark(15)
    asked = []

    def not_the_second(segment, next_base):
        asked.append((segment.base_offset, next_base))
        return segment.base_offset != 5

    assert [segment.base_offset for segment in deletable_segments(log, not_the_second)] == [0]
    assert asked == [(0, 5), (5, 10)]
    assert [segment.base_offset for segment in deletable_segments(log, lambda segment, next_base: True)] == [0, 5, 10]
    assert deletable_segments(log, lambda segment, next_base: False) == []
    log.roll()
    assert [segment.base_offset for segment in deletable_segments(log, lambda segment, next_base: True)] == [0, 5, 10]
    log.close()


def test_deleted_offsets_can_no_longer_be_read(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, retention_bytes=5 * RECORD_BYTES)
    log.update_high_watermark(15)
    delete_old_segments(log)
    assert log.start_offset == 10
    with pytest.raises(OffsetOutOfRange, match="offset 9 is outside 10 to 15"):
        log.read(9)
    assert [record.offset for record in log.records()] == [10, 11, 12, 13, 14]
    log.close()


# Files.


class RecordingDisk(Disk):
    """Notes every name that is changed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def rename(self, source: str, target: str) -> None:
        self.calls.append(("rename", Path(target).name))
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.calls.append(("unlink", Path(path).name))
        super().unlink(path)

    def sync_directory(self, path: str) -> None:
        self.calls.append(("sync", Path(path).name))
        super().sync_directory(path)


def test_new_start_is_durable_before_a_file_is_renamed_and_files_go_after_the_delay(tmp_path, clock):
    disk = RecordingDisk()
    log = new_log(tmp_path, clock, 7, timestamp=NOW - 2000, retention_ms=1000, disk=disk)
    append(log, 3, NOW)
    log.update_high_watermark(10)
    disk.calls.clear()
    assert delete_old_segments(log) == 1
    stem = f"{0:020d}"
    assert disk.calls == [
        ("rename", "leader-epoch-checkpoint"),
        ("sync", "events-0"),
        ("rename", "log-start-offset-checkpoint"),
        ("sync", tmp_path.name),
        ("rename", f"{stem}.log.deleted"),
        ("rename", f"{stem}.index.deleted"),
        ("rename", f"{stem}.timeindex.deleted"),
        ("sync", "events-0"),
    ]
    disk.calls.clear()
    clock.advance(999)
    log.scheduler.run_due()
    assert disk.calls == []
    clock.advance(1)
    log.scheduler.run_due()
    assert [name for call, name in disk.calls if call == "unlink" and name.endswith(".log.deleted")] == [f"{stem}.log.deleted"]
    assert not list((tmp_path / "events-0").glob("*.deleted"))
    log.close()


def test_snapshot_of_a_deleted_segment_goes_with_it(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, retention_bytes=5 * RECORD_BYTES)
    log.update_high_watermark(15)
    assert log.producers.snapshots() == [5, 10]
    delete_old_segments(log)
    assert log.producers.snapshots() == [10]
    assert (tmp_path / "events-0" / f"{5:020d}.snapshot.deleted").exists()
    clock.advance(1000)
    log.scheduler.run_due()
    assert not (tmp_path / "events-0" / f"{5:020d}.snapshot.deleted").exists()
    log.close()


def test_a_snapshot_that_a_stop_left_inside_a_deleted_segment_goes_with_it(tmp_path, clock):
    new_log(tmp_path, clock, 8).close()
    log = new_log(tmp_path, clock, 7, retention_bytes=5 * RECORD_BYTES)
    log.update_high_watermark(15)
    assert log.producers.snapshots() == [5, 8, 10]
    delete_old_segments(log)
    clock.advance(1000)
    log.scheduler.run_due()
    assert log.producers.snapshots() == [10]
    assert [path.name for path in (tmp_path / "events-0").glob("*.snapshot*")] == [f"{10:020d}.snapshot"]
    log.close()


def test_deleting_files_that_are_gone_already_is_no_error(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, retention_bytes=5 * RECORD_BYTES)
    log.update_high_watermark(15)
    delete_old_segments(log)
    for path in (tmp_path / "events-0").glob("*.deleted"):
        path.unlink()
    clock.advance(1000)
    log.scheduler.run_due()
    log.close()


def test_crash_before_the_files_are_removed_ends_in_the_same_log(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, retention_bytes=5 * RECORD_BYTES)
    log.update_high_watermark(15)
    delete_old_segments(log)
    log.flush()
    log.owner.directory.close(False, {})
    again = new_log(tmp_path, clock)
    assert (bases(again), again.start_offset, again.end_offset) == ([10], 10, 15)
    assert not list((tmp_path / "events-0").glob("*.deleted"))
    again.close()


def test_deleted_segment_that_is_back_after_a_power_failure_goes_again(tmp_path, clock):
    log = new_log(tmp_path, clock, 15, retention_bytes=5 * RECORD_BYTES)
    log.update_high_watermark(15)
    delete_old_segments(log)
    log.flush()
    log.owner.directory.close(False, {})
    # The rename was not on the medium yet; the new log start was.
    for path in (tmp_path / "events-0").glob("*.deleted"):
        path.rename(path.with_suffix(""))
    again = new_log(tmp_path, clock)
    assert (bases(again), again.start_offset) == ([10], 10)
    again.close()

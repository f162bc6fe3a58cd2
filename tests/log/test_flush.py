"""What is made durable, when, and in which order; and what happens when the disk says no."""

from __future__ import annotations

import os

import pytest

from milepost.clock import ManualClock
from milepost.errors import KafkaStorage
from milepost.files import Disk
from tests.log.making import NOW, idempotent, log_in, produced


class RecordingDisk(Disk):
    """Notes fsyncs, renames and writes by the names of their files; `broken` makes fsync fail."""

    def __init__(self):
        self.calls = []
        self.names = {}
        self.broken = False

    def open(self, path, flags=os.O_RDONLY):
        fd = super().open(path, flags)
        self.names[fd] = os.path.basename(path).lstrip("0")
        return fd

    def fsync(self, fd):
        if self.broken:
            raise OSError(5, "Input/output error")
        self.calls.append(f"fsync {self.names[fd]}")

    def pwritev(self, fd, buffers, position, size):
        super().pwritev(fd, buffers, position, size)
        self.calls.append(f"write {self.names[fd]}")

    def rename(self, source, target):
        super().rename(source, target)
        self.calls.append(f"rename {os.path.basename(target).lstrip('0')}")

    def sync_directory(self, path):
        self.calls.append(f"sync {os.path.basename(path)}")

    def since(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def disk():
    return RecordingDisk()


def test_append_waits_for_no_disk_by_default(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced())
    disk.since()
    for _ in range(10):
        log.append_as_leader(produced())
    assert disk.since() == ["write .log"] * 10
    assert log.recovery_point == 0


def test_flush_makes_all_files_and_their_names_durable_and_moves_the_recovery_point(tmp_path, disk):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, disk=disk, clock=clock)
    log.append_as_leader(produced(3))
    disk.since()
    clock.advance(7)
    log.flush()
    assert disk.since() == ["fsync .log", "fsync .index", "fsync .timeindex", "sync topic-0"]
    assert (log.recovery_point, log.last_flush_ms) == (3, NOW + 7)


def test_flush_of_what_is_durable_already_does_nothing(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced(3))
    log.flush()
    disk.since()
    log.flush()
    log.flush(2)
    assert disk.since() == []


def test_flush_up_to_an_offset_leaves_later_segments_alone(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    for _ in range(3):
        log.append_as_leader(produced(3))
        log.roll()
    log.append_as_leader(produced(3))
    assert log.recovery_point == 9
    disk.since()
    log.flush(12)
    assert [call for call in disk.since() if call.endswith(".log")] == ["fsync 9.log"]
    assert log.recovery_point == 12


@pytest.mark.parametrize(("messages", "points"), [(1, [1, 2, 3, 4, 5, 6]), (3, [0, 0, 3, 3, 3, 6]), (4, [0, 0, 0, 4, 4, 4])])
def test_flush_messages_flushes_when_that_many_records_are_not_durable(tmp_path, disk, messages, points):
    log = log_in(tmp_path, disk=disk, flush_messages=messages)
    seen = []
    for _ in range(6):
        log.append_as_leader(produced())
        seen.append(log.recovery_point)
    assert seen == points


def test_what_is_written_where_the_log_was_cut_is_flushed_anew(tmp_path, disk):
    log = log_in(tmp_path, disk=disk, flush_messages=1)
    for _ in range(6):
        log.append_as_leader(produced())
    log.truncate_to(2)
    seen = []
    for _ in range(3):
        log.append_as_leader(produced())
        seen.append(log.recovery_point)
    assert seen == [3, 4, 5]


def test_name_of_a_new_segment_is_durable_before_anything_is_appended_to_it(tmp_path, disk):
    log = log_in(tmp_path, disk=disk, segment_bytes=150)
    log.append_as_leader(produced(size=100))
    disk.since()
    log.append_as_leader(produced(size=100))
    calls = disk.since()
    assert calls.index("sync topic-0") < calls.index("write 1.log")
    assert calls[-1] == "write 1.log"


def test_roll_makes_the_old_segment_durable(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(idempotent(0, 3))
    disk.since()
    log.roll()
    calls = disk.since()
    assert {"fsync .log", "fsync .index", "fsync .timeindex", "fsync 3.snapshot.tmp"} <= set(calls)
    assert log.recovery_point == 3


def test_snapshot_is_durable_before_it_has_its_name(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(idempotent(0, 3))
    disk.since()
    log.roll()
    calls = disk.since()
    assert calls.index("fsync 3.snapshot.tmp") < calls.index("rename 3.snapshot")


def test_close_syncs_everything_before_checkpoints_and_the_marker_come_last(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced(3))
    disk.since()
    log.close()
    calls = disk.since()
    renames = [call for call in calls if call.startswith("rename")]
    assert renames == [
        "rename 3.snapshot",
        "rename recovery-point-offset-checkpoint",
        "rename log-start-offset-checkpoint",
        "rename replication-offset-checkpoint",
        "rename .kafka_cleanshutdown",
    ]
    assert calls.index("fsync .log") < calls.index("rename recovery-point-offset-checkpoint")
    assert calls.index("rename .kafka_cleanshutdown") > max(
        place for place, call in enumerate(calls) if call.startswith("fsync") and "kafka_cleanshutdown" not in call
    )


def test_failed_fsync_takes_the_log_offline_and_is_not_tried_again(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced(3))
    disk.broken = True
    with pytest.raises(KafkaStorage, match="Input/output error; the directory is offline"):
        log.flush()
    disk.broken = False
    assert log.recovery_point == 0
    disk.since()
    log.flush()
    assert (log.recovery_point, disk.since()) == (0, [])
    with pytest.raises(KafkaStorage, match="offline"):
        log.append_as_leader(produced())


def test_log_that_failed_is_not_left_as_clean(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced(3))
    disk.broken = True
    with pytest.raises(KafkaStorage):
        log.flush()
    disk.broken = False
    log.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert log_in(tmp_path).end_offset == 3


def test_failed_fsync_at_close_is_reported_and_leaves_no_marker(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced(3))
    disk.broken = True
    with pytest.raises(KafkaStorage):
        log.close()
    disk.broken = False
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_higher_log_start_takes_the_recovery_point_along(tmp_path, disk):
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(produced(10))
    log.update_high_watermark(10)
    log.increment_start(4)
    assert log.recovery_point == 4

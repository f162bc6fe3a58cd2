"""Every call to the disk refused once: what the log says, and what is left of it.

After a full disk the log goes on (C-28): what was written in part is cut off again before anything else happens.
After any other error, and after a failed fsync in particular (C-29), the log is offline: its recovery point has not
moved, and what it had answered for is in the files.
"""

from __future__ import annotations

import errno
import itertools
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.topic import LogConfig
from milepost.errors import KafkaStorage, MilepostError
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.retention import delete_old_segments
from milepost.record.control import ControlType
from milepost.record.records import Record
from tests.crash.failing_disk import NO_SPACE, FailingDisk
from tests.crash.history import History, Level, as_stored
from tests.crash.invariants import Checker
from tests.crash.sample import DATA, NOW, PARTITION, SETTINGS, batch, marker

CONFIG = LogConfig.parse({**SETTINGS, "segment.bytes": 500, "index.interval.bytes": 100, "segment.index.bytes": 96})
ERRORS = [(errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False), (errno.EIO, True)]


class Trial:
    """A log that does everything once, on a disk that refuses one call. A refused step is tried again, unless the log is offline."""

    def __init__(self, at: int, error: int, tears: bool, for_good: bool = False):
        self.disk = FailingDisk(at, error, tears=tears, directories=[DATA], for_good=for_good)
        self.history = History()
        self.clock = ManualClock(NOW)
        self.refusals: list[tuple[str, MilepostError]] = []
        self.log: Log | None = None
        self.is_complete = False

    def run(self) -> None:
        for name, step in self.steps():
            for _ in range(2):
                point = self.log.recovery_point if self.log else 0
                try:
                    step()
                    break
                except MilepostError as refusal:
                    self.refusals.append((name, refusal))
                    if self.log is None or self.log.is_failed or self.log.is_closed:
                        if self.log and self.disk.failed[0].startswith(("fsync", "sync")) and name in ("append", "flush", "roll"):
                            assert self.log.recovery_point == point
                        return
            else:
                raise AssertionError(f"{name} was refused twice: {self.refusals}")
        self.is_complete = True

    def steps(self):
        yield "open", self.open
        for number in range(7):
            sequence = sum(1 + earlier % 2 for earlier in range(number))
            yield "append", self.append(batch(number, records=1 + number % 2, producer=1, sequence=sequence))
            if number == 3:
                yield "flush", lambda: self.log.flush()
        yield "append", self.append(batch(8, producer=7, sequence=0, transactional=True))
        yield "append", self.append(marker(9, ControlType.ABORT, 7), AppendOrigin.COORDINATOR)
        yield "flush", lambda: self.log.flush()
        yield "read", self.read
        yield "truncate", self.truncate
        yield "append", self.append(batch(10, records=2))
        yield "retention", self.retention
        yield "append", self.append(batch(11))
        yield "roll", lambda: self.log.roll()
        yield "append", self.append(batch(12))
        yield "close", lambda: self.log.close()
        yield "open", self.open
        yield "append", self.append(batch(13))
        yield "read", self.read

    def open(self) -> None:
        self.log = None
        self.log = open_log(PARTITION, "a", CONFIG, clock=self.clock, disk=self.disk)

    def append(self, sent: bytes, origin: AppendOrigin = AppendOrigin.CLIENT):
        def step() -> None:
            stored = as_stored(sent, self.log.end_offset, 0)
            self.history.note(0, "append", [stored])
            self.log.append_as_leader(sent, origin=origin)
            self.history.note(0, "appended", [stored])

        return step

    def read(self) -> None:
        self.log.update_high_watermark(self.log.end_offset)
        found = [record.offset for record in self.log.records()]
        expected = self.history.at(0, Level.PROCESS).must
        assert found == [
            offset for one in expected if not one.is_control for offset, _ in one.records if offset >= self.log.start_offset
        ]
        self.log.find(offset=self.log.start_offset)
        self.log.find(time=NOW + 30)

    def truncate(self) -> None:
        self.history.note(0, "truncate", 6)
        self.log.truncate_to(6)
        self.history.note(0, "truncated", 6)

    def retention(self) -> None:
        self.log.update_high_watermark(self.log.end_offset)
        doomed = [self.log.segments.first]
        self.history.note(0, "delete", self.log.segments.base_offsets()[1])
        self.log.delete_segments(doomed)
        self.log.scheduler.run_due()
        self.history.note(0, "deleted")

    def check_what_is_left(self, check: Checker) -> None:
        self.disk.is_on = False
        self.disk.die()
        check.known = self.history.known
        check.check(self.disk.state(), self.history.at(0, Level.PROCESS))


@pytest.mark.parametrize(
    ("error", "tears"), ERRORS, ids=lambda value: errno.errorcode[value] if value > 1 else ("torn" if value else "whole")
)
def test_every_call_refused_once_costs_nothing_that_was_answered_for(error, tears, count):
    check = Checker(frozenset(), CONFIG)
    for at in itertools.count(1):
        trial = Trial(at, error, tears)
        trial.run()
        if not trial.disk.failed:
            break
        assert trial.refusals or trial.is_complete
        trial.check_what_is_left(check)
    assert trial.is_complete
    assert at > (100 if error in NO_SPACE else 290)
    count(check, 40)


@pytest.mark.parametrize("tears", [False, True], ids=["whole", "torn"])
def test_append_refused_by_a_full_disk_changes_nothing_and_the_next_one_succeeds(tears):
    """C-28, at every call that an append makes."""
    refused = 0
    for at in itertools.count(1):
        trial = Trial(at, errno.ENOSPC, tears)
        trial.run()
        if not trial.disk.failed:
            break
        name, refusal = trial.refusals[0] if trial.refusals else ("", None)
        written = trial.disk.failed[0].split("/")[-1]
        if name in ("append", "roll") and not written.endswith(".txnindex"):
            assert trial.is_complete, f"after {trial.disk.failed} the log did not go on"
            assert refusal.code == 56
            refused += 1
    assert refused >= 40


def test_failed_fsync_takes_the_log_offline_and_leaves_its_recovery_point():
    """C-29: an fsync is never repeated, and nothing is said to be durable after it."""
    for at in itertools.count(1):
        disk = FailingDisk(at, errno.EIO, directories=[DATA])
        disk.is_on = False
        log = open_log(PARTITION, "a", CONFIG, clock=ManualClock(NOW), disk=disk)
        log.append_as_leader(batch(0))
        disk.is_on = True
        try:
            log.flush()
        except KafkaStorage:
            assert log.is_failed
            assert log.recovery_point == 0
            with pytest.raises(KafkaStorage, match="offline"):
                log.append_as_leader(batch(1))
            calls = disk.calls
            log.flush()
            assert disk.calls == calls
            disk.die()
        else:
            break
    assert at == 5, "three files and the directory were synced"
    assert log.recovery_point == 1


def test_disk_that_stays_full_refuses_every_append_and_serves_what_is_there():
    disk = FailingDisk(1, errno.ENOSPC, tears=True, directories=[DATA], for_good=True)
    disk.is_on = False
    log = open_log(PARTITION, "a", CONFIG, clock=ManualClock(NOW), disk=disk)
    for number in range(3):
        log.append_as_leader(batch(number))
    disk.is_on = True
    for number in range(3, 6):
        with pytest.raises(KafkaStorage):
            log.append_as_leader(batch(number))
    log.update_high_watermark(log.end_offset)
    assert [record.offset for record in log.records()] == [0, 1, 2]
    disk.is_on = False
    assert log.append_as_leader(batch(6)).first_offset == 3
    disk.die()


def test_retention_on_a_full_disk_waits_for_room_and_takes_nothing_offline():
    """Publishing the new log start takes a few bytes. To go offline for want of them would keep the disk full."""
    disk = FailingDisk(1, errno.ENOSPC, directories=[DATA], for_good=True)
    disk.is_on = False
    clock = ManualClock(NOW)
    log = open_log(PARTITION, "a", CONFIG.override({"retention.ms": 1}), clock=clock, disk=disk)
    for number in range(12):
        log.append_as_leader(batch(number))
    log.update_high_watermark(log.end_offset)
    clock.advance(1000)
    disk.is_on = True
    with pytest.raises(KafkaStorage, match="make room"):
        log.delete_segments([log.segments.first])
    assert not log.is_failed
    disk.is_on = False
    assert delete_old_segments(log) >= 1
    disk.die()


# Real disks.

IN_A_FULL_FILE_SYSTEM = """
    import os, sys
    import milepost
    from milepost.clock import ManualClock
    root = sys.argv[1]
    log = milepost.open_log(root + "/data/t-0", "a", {"segment.bytes": 1 << 20, "segment.index.bytes": 4096}, clock=ManualClock(1))
    value, acked, refused = os.urandom(40_000), 0, 0
    while refused < 5:
        try:
            log.append([milepost.Record(0, 1, b"k", value)])
            acked += 1
        except milepost.errors.KafkaStorage as error:
            assert "No space left" in str(error), error
            refused += 1
            if log.is_failed:
                break
    offline = log.is_failed
    os.unlink(root + "/ballast")
    if offline:
        log.close()
        log = milepost.open_log(root + "/data/t-0", "a", {"segment.bytes": 1 << 20}, clock=ManualClock(1))
    assert log.end_offset == acked, (log.end_offset, acked)
    log.append([milepost.Record(0, 1, b"k", value)])
    log.close()
    with milepost.open_log(root + "/data/t-0") as again:
        assert [record.value == value for record in again.records()] == [True] * (acked + 1)
    print("acked", acked, "refused", refused)
"""


def has_user_namespaces() -> bool:
    """Whether a process may mount a file system of its own here."""
    try:
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.mark.skipif(not has_user_namespaces(), reason="this machine does not let a process mount a small file system of its own")
def test_real_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path):
    script = tmp_path / "fill.py"
    script.write_text(textwrap.dedent(IN_A_FULL_FILE_SYSTEM))
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = f'mount -t tmpfs -o size=2m none "{disk}" && head -c 400000 /dev/zero > "{disk}/ballast"'
    command = f'{fill} && "{sys.executable}" -W error "{script}" "{disk}"'
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    acked, refused = int(done.stdout.split()[1]), int(done.stdout.split()[3])
    assert acked >= 20
    assert refused >= 1


def test_file_that_may_not_grow_is_cut_back_to_whole_batches(tmp_path: Path):
    """RLIMIT_FSIZE: a short write first, then EFBIG."""
    log = open_log(
        str(tmp_path / "data" / "t-0"), "a", {"segment.bytes": 1 << 20, "segment.index.bytes": 4096}, clock=ManualClock(NOW)
    )
    value = os.urandom(3000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        acked = 0
        with pytest.raises(KafkaStorage, match="File too large"):
            for _ in range(20):
                log.append([Record(0, NOW, b"k", value)])
                acked += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert acked == 6
    assert not log.is_failed
    log.append([Record(0, NOW, b"k", value)])
    assert [record.offset for record in log.records()] == list(range(7))
    log.close()
    assert (tmp_path / "data" / "t-0" / f"{0:020d}.log").stat().st_size == 7 * (log.segments.active.size // 7)

"""What `repair` leaves alone: directories that somebody owns, single files, places that are taken; and crashes on its way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import milepost
from milepost.errors import DirectoryLocked, InvalidArgument, KafkaStorage
from milepost.files import Disk
from milepost.inspect.repair.repair import plan_repair
from milepost.inspect.repair.repair_apply import apply_repair, remaining
from milepost.inspect.verify.verify import verify
from milepost.log.directory.directory_lock import DirectoryLock
from tests.golden_fixture import Golden
from tests.inspect.logs import contents, log_of
from tests.inspect.repair.repairing import CLOCK, CONFIG, repaired

# Refusals.


def test_a_directory_that_this_process_owns_is_left_alone(crash: Path) -> None:
    (crash / f"{62:020d}.index").unlink()
    plan = plan_repair(str(crash.parent))
    before = contents(crash)
    lock = DirectoryLock(str(crash.parent), Disk())
    try:
        with pytest.raises(DirectoryLocked, match=f"pid {os.getpid()}"):
            apply_repair(plan)
    finally:
        lock.release()
    assert contents(crash) == before


OWNER = """
import sys
from milepost.files import Disk
from milepost.log.directory.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1], Disk())
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_directory_that_another_process_owns_is_named_with_its_pid(crash: Path) -> None:
    (crash / f"{62:020d}.index").unlink()
    plan = plan_repair(str(crash.parent))
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(crash.parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout.readline() == b"locked\n"
        with pytest.raises(DirectoryLocked, match=f"process {owner.pid} has it open"):
            apply_repair(plan)
        owner.stdin.close()


def test_a_place_for_the_copies_that_is_taken_is_refused_before_anything_changes(crash: Path, tmp_path: Path) -> None:
    (crash / f"{62:020d}.index").unlink()
    before = contents(crash.parent)
    (tmp_path / "taken").mkdir()
    with pytest.raises(KafkaStorage, match="there already"):
        apply_repair(plan_repair(str(crash.parent)), keep=str(tmp_path / "taken"))
    after = contents(crash.parent)
    after.pop(".lock")
    assert after == before


def test_a_single_file_is_not_repaired_alone(crash: Path) -> None:
    with pytest.raises(InvalidArgument, match="name its partition directory"):
        plan_repair(str(log_of(crash)))


def test_copies_can_be_kept_elsewhere(crash: Path, tmp_path: Path) -> None:
    (crash / f"{62:020d}.index").write_bytes(b"x")
    kept, _ = apply_repair(plan_repair(str(crash.parent)), keep=str(tmp_path / "aside"))
    assert kept == str(tmp_path / "aside")
    assert (tmp_path / "aside" / "crash-0" / f"{62:020d}.index").read_bytes() == b"x"


def test_a_copy_under_any_name_can_be_repaired(crash: Path, tmp_path: Path) -> None:
    copy = tmp_path / "somewhere" / "my copy"
    shutil.copytree(crash, copy)
    (copy / f"{62:020d}.index").unlink()
    _, left = apply_repair(plan_repair(str(copy), CONFIG), clock=CLOCK)
    assert left.is_empty
    assert verify(str(copy)).is_clean


@pytest.mark.parametrize(
    ("stretches", "left"),
    [
        ([], [(0, 100)]),
        ([(0, 10)], [(10, 100)]),
        ([(90, 100)], [(0, 90)]),
        ([(10, 20), (20, 30), (50, 60)], [(0, 10), (30, 50), (60, 100)]),
        ([(0, 100)], []),
    ],
)
def test_what_is_left_of_a_file_without_its_stretches(stretches: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert remaining(stretches, 100) == left


# Crashes: the power fails before each change in turn.


class Dying(Disk):
    """A disk that takes a number of changes and then no more."""

    def __init__(self, changes: int):
        self.left = changes

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        self._change()
        super().pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        self._change()
        super().truncate(fd, size)

    def rename(self, source: str, target: str) -> None:
        self._change()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._change()
        super().unlink(path)

    def mkdir(self, path: str) -> None:
        self._change()
        super().mkdir(path)


def damaged_twice(golden: Golden, tmp_path: Path, name: str) -> Path:
    """A hole in one segment, a garbled index in another, a torn snapshot, after a clean stop."""
    directory = golden("unclean/kafka-3.9.1-killed-after", tmp_path / name) / "logdir"
    for file, position in ((f"{31:020d}.log", 900), (f"{62:020d}.index", 3), (f"{62:020d}.snapshot", 50)):
        content = bytearray((directory / "crash-0" / file).read_bytes())
        content[position] ^= 0x55
        (directory / "crash-0" / file).write_bytes(content)
    return directory


def readable(directory: Path) -> list[int]:
    """The offsets that can be read one by one, also around a hole."""
    with milepost.open_log(str(directory / "crash-0")) as log:
        found, offset = [], log.start_offset
        while offset < log.end_offset:
            try:
                for record in log.records(offset):
                    found.append(record.offset)
                break
            except milepost.errors.CorruptRecord as error:
                offset = int(str(error).partition("seek to ")[2].split()[0])
        return found


def test_a_repair_that_is_cut_short_anywhere_loses_nothing_and_can_be_done_again(golden: Golden, tmp_path: Path) -> None:
    whole = damaged_twice(golden, tmp_path, "whole")
    repaired(whole)
    valid = set(readable(whole))
    expected = {
        name: data for name, data in contents(whole / "crash-0").items() if name.endswith(("log", "index")) or ".gap-" in name
    }
    assert any(".gap-" in name for name in expected)
    for changes in range(200):
        directory = damaged_twice(golden, tmp_path, f"cut-{changes}")
        try:
            apply_repair(plan_repair(str(directory), CONFIG), disk=Dying(changes), clock=CLOCK)
            break
        except (OSError, KafkaStorage):
            pass
        assert valid <= set(readable(directory))
        shutil.rmtree(f"{directory}.repair-20231114T221320Z", ignore_errors=True)
        if not plan_repair(str(directory), CONFIG).is_empty:
            repaired(directory)
        after = contents(directory / "crash-0")
        assert {name: after[name] for name in expected} == expected
        assert verify(str(directory)).findings == []
        shutil.rmtree(tmp_path / f"cut-{changes}")
    assert changes > 20, "every change was tried"

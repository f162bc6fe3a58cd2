"""Removing what was staged while others are still at it: tasks of a job that has failed, and writers of the same directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.files import Disk
from milepost.spark.sink.staging import STALE_MS, abandon, remove_tree, sweep


class BusyDisk(Disk):
    """Something happens each time that a directory was listed."""

    def __init__(self, happens: Callable[[str], None]):
        self.happens = happens

    def listdir(self, path: str) -> list[str]:
        found = super().listdir(path)
        self.happens(path)
        return found


@pytest.fixture
def job(tmp_path: Path) -> Path:
    made = tmp_path / "staging" / "job"
    (made / "000000-0").mkdir(parents=True)
    (made / "000000-0" / "t-0.log").write_bytes(b"batch")
    return made


def test_file_that_a_task_adds_meanwhile_is_left_to_the_next_who_removes(job: Path) -> None:
    added = job / "000000-0" / "t-1.log"
    remove_tree(BusyDisk(lambda path: added.touch() if path == str(added.parent) else None), str(job))
    assert [path for path in job.rglob("*") if path.is_file()] == [added]
    abandon(str(job))
    assert not job.exists()


def test_file_that_a_task_renames_meanwhile_is_left_to_the_next_who_removes(job: Path) -> None:
    staged = job / "000000-0" / "t-0.log"
    disk = BusyDisk(lambda path: os.rename(staged, staged.with_suffix(".done")) if path == str(staged.parent) else None)
    remove_tree(disk, str(job))
    assert [path.name for path in job.rglob("*") if path.is_file()] == ["t-0.done"]
    abandon(str(job))
    assert not job.exists()


def test_directory_that_another_removes_meanwhile_is_gone(job: Path) -> None:
    remove_tree(BusyDisk(lambda path: remove_tree(Disk(), path)), str(job))
    assert not job.exists()


def test_sweep_passes_by_a_job_whose_commit_is_done_meanwhile(job: Path) -> None:
    stale = job.with_name("stale")
    stale.mkdir()
    now = int(os.stat(stale).st_mtime * 1000)
    disk = BusyDisk(lambda path: remove_tree(Disk(), str(job)) if path == str(job.parent) else None)
    sweep(disk, str(job.parent), ManualClock(now + STALE_MS + 1000))
    assert list(job.parent.iterdir()) == []

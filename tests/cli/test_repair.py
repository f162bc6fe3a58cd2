"""`milepost repair`: says what it would do; does it with --apply."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from milepost.files import Disk
from milepost.log.directory.directory_lock import DirectoryLock
from tests.cli.running import run
from tests.golden_fixture import Golden
from tests.inspect.logs import contents


@pytest.fixture
def damaged(golden: Golden, tmp_path: Path) -> Path:
    return golden("unclean/kafka-3.9.1-badcrc-before", tmp_path) / "logdir"


def test_without_apply_it_only_says_what_it_would_do(damaged: Path) -> None:
    before = contents(damaged)
    ran = run("repair", damaged, "-X", "index.interval.bytes=256")
    assert (ran.code, len(ran.lines)) == (1, 5)
    assert ran.lines[0] == f"{damaged}/crash-0/00000000000000000094.log: bytes 1144 to 1354 are taken out"
    assert ran.lines[-1] == "4 changes to make; run again with --apply to make them"
    assert contents(damaged) == before
    assert [path.name for path in damaged.parent.iterdir() if "repair" in path.name] == []


def test_with_apply_it_does_it_and_verify_agrees(damaged: Path) -> None:
    ran = run("repair", "--apply", damaged)
    assert ran.code == 0
    assert ran.lines[-1].startswith(f"4 changes made; what was replaced is kept in {damaged}.repair-")
    assert run("verify", damaged).code == 0
    again = run("repair", damaged)
    assert (again.code, again.lines) == (0, ["nothing to repair"])
    assert run("repair", "--apply", damaged).lines == ["nothing to repair"]


def test_json(damaged: Path, tmp_path: Path) -> None:
    ran = run("repair", "--apply", "--json", "--keep", tmp_path / "kept", damaged)
    found = [json.loads(line) for line in ran.lines]
    assert [line["type"] for line in found] == ["change"] * 4 + ["result"]
    assert found[-1] == {"type": "result", "changes": 4, "applied": True, "kept": str(tmp_path / "kept"), "unrepaired": 0}


def test_what_cannot_be_repaired_is_said_and_ends_with_1(golden: Golden, tmp_path: Path) -> None:
    directory = golden("unclean/kafka-3.9.1-killed-after", tmp_path) / "logdir"
    (directory / "meta.properties").write_text("version=9\n")
    ran = run("repair", "--apply", directory)
    assert ran.code == 1
    assert ran.lines[0].startswith(f"cannot be repaired: {directory}/meta.properties: version 9")
    assert ran.lines[1] == "nothing that can be repaired here"


def test_a_directory_with_an_owner_is_refused_with_3(damaged: Path) -> None:
    lock = DirectoryLock(str(damaged), Disk())
    try:
        ran = run("repair", "--apply", damaged)
    finally:
        lock.release()
    assert (ran.code, ran.lines) == (3, [])
    assert ran.errors == [f"milepost: {damaged}: this process (pid {os.getpid()}) has it open already; close it there first"]


def test_planning_needs_no_lock(damaged: Path) -> None:
    lock = DirectoryLock(str(damaged), Disk())
    try:
        assert run("repair", damaged).code == 1
    finally:
        lock.release()


def test_an_unknown_property_is_named(damaged: Path) -> None:
    ran = run("repair", damaged, "-X", "index.intervall.bytes=1")
    assert ran.code == 2
    assert "did you mean index.interval.bytes?" in ran.errors[-1]

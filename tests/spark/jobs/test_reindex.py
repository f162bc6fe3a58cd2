"""Indexes rebuilt in stretches are those that recovery writes, byte for byte, and the logs stay as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.topic import LogConfig
from milepost.files import Disk
from milepost.log.open import open_log
from milepost.spark.jobs.rebuild import Rebuilt, rebuild
from milepost.spark.jobs.reindex import plan, sweep
from milepost.spark.log_files.listing import list_partitions
from tests.golden_fixture import Golden, index
from tests.quick_disk import QuickDisk
from tests.spark.logs import NOW, Batch, End, many_batches, write_log

INDEXES = ("*.index", "*.timeindex", "*.txnindex")
CASES = [case for case in index() if case.startswith(("transactions/", "page_visits/", "compaction/", "codecs/", "old_formats/"))]


def reindexed(data: Path, config: LogConfig | None = None) -> list[Rebuilt]:
    disk = QuickDisk()
    listing = list_partitions(disk, (str(data),))
    sweep(disk, listing)
    return [rebuild(task) for task in plan(disk, listing, config or LogConfig.parse({}), 1, "run")]


def indexes(data: Path) -> dict[str, bytes]:
    found = {path.relative_to(data).as_posix(): path.read_bytes() for pattern in INDEXES for path in data.rglob(pattern)}
    return {name: content for name, content in found.items() if content or not name.endswith(".txnindex")}


def recovered(data: Path, copy: Path) -> dict[str, bytes]:
    """What recovery of everything makes of a directory without any index."""
    shutil.copytree(data, copy)
    for pattern in (*INDEXES, "*checkpoint", ".kafka_cleanshutdown"):
        for path in copy.rglob(pattern):
            path.unlink()
    for directory in sorted(path for path in copy.iterdir() if path.is_dir()):
        open_log(str(directory), "a", clock=ManualClock(NOW), disk=QuickDisk()).close()
    return indexes(copy)


@pytest.mark.parametrize("case", CASES)
def test_missing_indexes_come_back_as_recovery_writes_them(case: str, golden: Golden, tmp_path: Path) -> None:
    data = golden(case, tmp_path) / "logdir"
    logs = {path: path.read_bytes() for path in data.rglob("*.log")}
    expected = recovered(data, tmp_path / "copy")
    for pattern in INDEXES:
        for path in data.rglob(pattern):
            path.unlink()
    reindexed(data)
    assert without_compacted_transactions(indexes(data)) == without_compacted_transactions(expected)
    assert {path: path.read_bytes() for path in data.rglob("*.log")} == logs


def without_compacted_transactions(found: dict[str, bytes]) -> dict[str, bytes]:
    """Where compaction took out how a transaction began, it matters whether a snapshot is asked: see the next test."""
    return {name: content for name, content in found.items() if not (name.startswith("kv-tx-") and name.endswith(".txnindex"))}


@pytest.mark.parametrize("case", ["compaction/kafka-3.9.1-1b-cleaned", "compaction/kafka-4.3.0-1b-cleaned"])
def test_compacted_transactions_come_back_as_the_recovery_of_each_segment_writes_them(
    case: str, golden: Golden, tmp_path: Path
) -> None:
    data = golden(case, tmp_path) / "logdir"
    reindexed(data)
    found = indexes(data)
    for number, log in enumerate(sorted((data / "kv-tx-0").glob("*.log"))):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(golden(case) / "logdir", copy)
        for suffix in ("index", "timeindex", "txnindex"):
            path = copy / "kv-tx-0" / f"{log.stem}.{suffix}"
            path.chmod(0o644) if path.exists() else None
            path.unlink(missing_ok=True)
        for path in copy.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        open_log(str(copy / "kv-tx-0"), "a", clock=ManualClock(NOW), disk=QuickDisk()).close()
        name = f"kv-tx-0/{log.stem}.txnindex"
        assert indexes(copy).get(name) == found.get(name)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    steps = [Batch((b"a" * 40,), producer=7), Batch((b"b" * 40,), producer=8), End(7, False), *many_batches(60), End(8, True)]
    write_log(
        tmp_path / "data",
        "t",
        0,
        [*steps, *many_batches(60), Batch((b"c",), producer=7), End(7, False)],
        segment_bytes=2048,
        interval=128,
    )
    return tmp_path / "data"


SMALL = LogConfig.parse({"index.interval.bytes": 128, "segment.bytes": 2048})


def test_a_garbled_index_is_replaced_and_a_second_run_replaces_nothing(data: Path) -> None:
    reindexed(data, SMALL)
    before = indexes(data)
    victim = sorted(data.rglob("*.index"))[1]
    victim.write_bytes(b"\x7f" * len(victim.read_bytes()))
    assert sum(each.replaced for each in reindexed(data, SMALL)) == 1
    assert indexes(data) == before
    assert sum(each.replaced for each in reindexed(data, SMALL)) == 0


def test_a_partition_is_cut_where_a_snapshot_stands(data: Path) -> None:
    listing = list_partitions(Disk(), (str(data),))
    tasks = plan(Disk(), listing, SMALL, 1, "run")
    files = next(iter(listing.partitions.values()))
    assert len(tasks) > 3
    assert {task.stretch.bases[0] for task in tasks if not task.stretch.is_first} <= set(files.snapshots)


def test_what_a_killed_run_left_is_swept(data: Path) -> None:
    left = data / "t-0" / "00000000000000000000.index.gone.reindex.tmp"
    left.write_bytes(b"half")
    reindexed(data, SMALL)
    assert not left.exists()


def test_a_hole_in_a_log_is_reported_and_left(data: Path) -> None:
    log = sorted(data.rglob("*.log"))[0]
    content = bytearray(log.read_bytes())
    content[300] ^= 1
    log.write_bytes(content)
    damage = [sentence for each in reindexed(data, SMALL) for sentence in each.damage]
    assert len(damage) == 1
    assert damage[0].startswith(f"{log}: bytes ") and damage[0].endswith("are no valid batch; see milepost verify")
    assert log.read_bytes() == bytes(content)

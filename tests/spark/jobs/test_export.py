"""Export: every committed record once, in the directory of its hour, whatever is killed when."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from milepost.errors import DirectoryLocked, InvalidArgument, KafkaStorage, OffsetOutOfRange
from milepost.files import Disk
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.log.open import open_log
from milepost.record.records import Record
from milepost.spark.jobs import export as module
from milepost.spark.jobs.delta import add_to_table
from milepost.spark.jobs.export import export
from milepost.spark.jobs.job import JobResult
from tests.quick_disk import QuickDisk
from tests.spark.jobs.in_process import OPERATIONS, count_operations, here, kill_at
from tests.spark.logs import NOW, Batch, End, many_batches, plain_scan, write_log

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")
HOUR = 3_600_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two partitions: several segments, an aborted and a committed transaction, and times hours apart."""
    data = tmp_path / "data"
    write_log(data, "t", 0, list(many_batches(40)), segment_bytes=2048)
    steps = [
        Batch((b"a", b"b"), (0, 3 * HOUR)),
        Batch((b"x",), (None,), producer=7),
        End(7, False),
        Batch((b"y",), (None,), producer=7),
    ]
    write_log(data, "t", 1, [*steps, End(7, True), *many_batches(3)])
    return data


def exported(data: Path, target: Path, **more: Any) -> JobResult:
    return export(None, str(data), "t", str(target), **more)  # type: ignore[arg-type]


def rows_of(target: Path) -> Counter[tuple[int, int, bytes]]:
    found: Counter[tuple[int, int, bytes]] = Counter()
    for path in target.glob("**/part-*.parquet"):
        if "_milepost" not in path.parts:
            table = pq.read_table(path, partitioning=None).to_pylist()
            found.update((row["partition"], row["offset"], row["value"]) for row in table)
    return found


def committed(data: Path) -> Counter[tuple[int, int, bytes]]:
    return Counter(
        (number, row["offset"], row["value"]) for number in (0, 1) for row in plain_scan(data / f"t-{number}").committed
    )


def grow(data: Path, partition: int, values: int) -> None:
    with open_log(str(data / f"t-{partition}"), "a", {"segment.bytes": 2048}, disk=QuickDisk()) as log:
        for number in range(values):
            log.append([Record(0, NOW + number, b"k", b"more %d" % number)])


def test_every_committed_record_comes_once_and_again_there_is_nothing_to_do(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    result = exported(data, target)
    assert (result.outcome, result.counts["records"], result.counts["commits"]) == ("done", 132, 1)
    assert rows_of(target) == committed(data)
    before = sorted(target.rglob("*"))
    again = exported(data, target)
    assert (again.outcome, again.counts["records"]) == ("nothing to do", 0)
    assert sorted(target.rglob("*")) == before


def test_a_record_lies_in_the_directory_of_its_hour(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    exported(data, target)
    found = {path.relative_to(target).as_posix().rpartition("/")[0] for path in target.glob("date=*/**/*.parquet")}
    # 1,700,000,000 s is 2023-11-14 22:13:20 UTC.
    nowhere = "date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"
    assert found == {"date=2023-11-14/hour=22", "date=2023-11-15/hour=1", nowhere}


def test_what_came_since_is_exported_next(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    exported(data, target)
    grow(data, 1, 5)
    assert exported(data, target).counts["records"] == 5
    assert rows_of(target) == committed(data)


def test_a_large_export_is_committed_piece_by_piece(data: Path, tmp_path: Path) -> None:
    result = exported(data, tmp_path / "out", commit_bytes=3000)
    assert result.counts["commits"] == 2
    assert rows_of(tmp_path / "out") == committed(data)


def test_an_open_transaction_holds_the_end_back_until_it_is_decided(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_log(data, "t", 0, [Batch((b"a",)), Batch((b"open",), producer=7), Batch((b"behind",))])
    assert exported(data, tmp_path / "out").counts["records"] == 1
    assert exported(data, tmp_path / "all", committed=False).counts["records"] == 3


def test_other_settings_for_the_same_target_are_refused(data: Path, tmp_path: Path) -> None:
    exported(data, tmp_path / "out")
    with pytest.raises(InvalidArgument, match="was exported with partition_by='hour', and now 'date'"):
        exported(data, tmp_path / "out", partition_by="date")


def test_a_log_that_was_made_anew_is_not_taken_for_the_old_one(data: Path, tmp_path: Path) -> None:
    exported(data, tmp_path / "out")
    shutil.rmtree(data / "t-0")
    write_log(data, "t", 0, [Batch((b"new",))])
    with pytest.raises(OffsetOutOfRange, match="data loss: t-0 was exported up to offset 120, and the log ends at 1"):
        exported(data, tmp_path / "out")


def test_a_target_that_somebody_exports_into_is_refused_with_the_pid(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    lock = DirectoryLock(str(tmp_path / "out"), Disk())
    with pytest.raises(DirectoryLocked, match=r"pid \d+"):
        exported(data, tmp_path / "out")
    lock.release()


def test_a_table_file_that_vanished_is_missed(data: Path, tmp_path: Path) -> None:
    exported(data, tmp_path / "out")
    next((tmp_path / "out").glob("date=*/**/*.parquet")).unlink()
    with pytest.raises(KafkaStorage, match="were exported into it by commit 1, and it is gone"):
        exported(data, tmp_path / "out")


def test_evidence_says_what_was_done(data: Path, tmp_path: Path) -> None:
    result = exported(data, tmp_path / "out", evidence=str(tmp_path / "evidence"))
    assert result.evidence is not None
    evidence = json.loads(Path(result.evidence).read_text())
    assert evidence["inputs"]["topics"] == "t"
    assert evidence["counts"]["records"] == 132
    assert evidence["offsets"] == {"t-0": 120, "t-1": 15}
    assert evidence["checks"][0] == ["every row that was read was written", True, "132 read, 132 written"]
    assert {"milepost", "python", "pyspark", "pyarrow"} <= set(evidence["versions"])


def test_killed_at_any_moment_and_run_again_nothing_is_lost_and_nothing_comes_twice(data: Path, tmp_path: Path) -> None:
    operations = count_operations(lambda: exported(data, tmp_path / "counted", commit_bytes=3000))
    expected = committed(data)
    for operation in range(0, operations, max(1, operations // 24)):
        target = tmp_path / f"out{operation}"
        assert kill_at(operation, lambda target=target: exported(data, target, commit_bytes=3000))  # type: ignore[misc]
        exported(data, target, commit_bytes=3000)
        assert rows_of(target) == expected, operation
        assert list((target / "_milepost" / "staging").iterdir()) == []


def test_a_delta_table_has_every_commit_once_wherever_an_export_was_stopped(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake", reason="an extra of its own")

    def run(target: Path) -> None:
        exported(data, target, format="delta", commit_bytes=3000)

    operations = stopped_at(monkeypatch, None, lambda: run(tmp_path / "counted"))
    # Beside those of the disk: the table's own log is written by the package.
    places = [*range(0, operations, max(1, operations // 12)), "before the table", "after the table"]
    for place in places:
        target = tmp_path / f"delta {place}"
        stopped_at(monkeypatch, place, lambda target=target: run(target))  # type: ignore[misc]
        run(target)
        rows = deltalake.DeltaTable(str(target)).to_pyarrow_table().to_pylist()
        assert Counter((row["partition"], row["offset"], row["value"]) for row in rows) == committed(data), place
    grow(data, 0, 3)
    run(target)
    rows = deltalake.DeltaTable(str(target)).to_pyarrow_table().to_pylist()
    assert Counter((row["partition"], row["offset"], row["value"]) for row in rows) == committed(data)


class Stopped(BaseException):
    pass


def stopped_at(monkeypatch: pytest.MonkeyPatch, place: int | str | None, work: Callable[[], None]) -> int:
    """Run until a disk operation, or until a commit goes into the table; how many operations were done. Not in a child that is killed: the
    package has threads, which a fork would lose."""
    seen = [0]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any) -> Any:
            if seen[0] == place:
                raise Stopped
            seen[0] += 1
            return original(*arguments)

        return operation

    def add(*arguments: Any) -> None:
        if place != "before the table":
            add_to_table(*arguments)
        raise Stopped

    with monkeypatch.context() as patched:
        for name in OPERATIONS:
            patched.setattr(Disk, name, counted(getattr(Disk, name)))
        if isinstance(place, str):
            patched.setattr(module, "add_to_table", add)
        if place is None:
            work()
        else:
            with pytest.raises(Stopped):
                work()
    return seen[0]


def test_without_the_package_delta_is_refused_in_a_sentence(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(Exception, match=r"pip install 'milepost\[delta\]'"):
        exported(data, tmp_path / "out", format="delta")

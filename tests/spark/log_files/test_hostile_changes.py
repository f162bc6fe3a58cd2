"""Reading what changes under the reader, and what contradicts itself: files, replicas, transactions, indexes: S-14 to S-21."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import CorruptIndex, OffsetOutOfRange
from milepost.files import Disk
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.spark.log_files.listing import list_partitions
from milepost.spark.reader import MilepostReader
from tests.spark.log_files.hostile import COMMITTED, offsets, planned, positions, segments, strict
from tests.spark.logs import NOW, Batch, End, Gap, many_batches, write_log
from tests.spark.rows import plain, read_rows, to_rows


def read_all(reader: MilepostReader, parts: list[Any]) -> list[int]:
    return [plain(row)["offset"] for part in parts for batch in reader.read(part) for row in to_rows(batch)]


def test_what_is_appended_after_the_plan_is_not_read(log: Path) -> None:
    reader = planned(log)
    parts = reader.partitions()
    active = segments(log)[-1]
    active.write_bytes(active.read_bytes() + build_batch([Record(60, NOW, b"k", b"v")]))
    assert read_all(reader, parts) == list(range(60))


def test_segment_that_retention_renamed_is_read_under_its_new_name(log: Path) -> None:
    reader = planned(log)
    parts = reader.partitions()
    first = segments(log)[0]
    first.rename(first.with_name(first.name + ".deleted"))
    assert read_all(reader, parts) == list(range(60))


def test_segment_that_is_gone_is_data_loss(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader = planned(log)
    parts = reader.partitions()
    lenient = planned(log, failOnDataLoss="false")
    lenient_parts = lenient.partitions()
    first, second = segments(log)[:2]
    first.unlink()
    start = int(second.stem)
    with pytest.raises(OffsetOutOfRange, match=rf"data loss: t-0: offsets 0 to {start - 1} .* the log starts at {start} now"):
        read_all(reader, parts)
    assert read_all(lenient, lenient_parts) == list(range(start, 60))
    assert "the log starts at" in caplog.text


def test_segment_that_is_gone_is_data_loss_also_behind_another_partition(log: Path) -> None:
    """The first partition of the task has higher offsets; they say nothing about the second."""
    write_log(log.parent, "s", 0, [Gap(500), *many_batches(3)])
    reader = planned(log, subscribe="s,t")
    parts = reader.partitions()
    assert len(parts) == 1
    first, second = segments(log)[:2]
    first.unlink()
    with pytest.raises(OffsetOutOfRange, match=f"data loss: t-0: offsets 0 to {int(second.stem) - 1}"):
        read_all(reader, parts)


def test_segment_that_compaction_replaced_is_planned_again(log: Path) -> None:
    reader = planned(log)
    parts = reader.partitions()
    first = segments(log)[0]
    kept = positions(first)[1][0]
    replacement = first.with_name("new")
    replacement.write_bytes(first.read_bytes()[kept:])
    replacement.rename(first)
    (log / f"{first.stem}.index").unlink()
    assert read_all(reader, parts) == list(range(3, 60))


def test_active_segment_that_was_cut_is_data_loss(log: Path) -> None:
    reader = planned(log)
    parts = reader.partitions()
    active = segments(log)[-1]
    position, first, _ = positions(active)[-1]
    with active.open("r+b") as file:
        file.truncate(position)
    with pytest.raises(
        OffsetOutOfRange, match=rf"offsets {first} to 59 .* the log ends at {first} now \(.*cut to {position} bytes"
    ):
        read_all(reader, parts)


def test_merged_segment_seen_next_to_one_that_went_into_it_gives_no_row_twice(log: Path) -> None:
    """The cleaner merged the first two segments; the listing saw the new one and the second old one."""
    first, second = segments(log)[:2]
    merged = first.read_bytes() + second.read_bytes()
    replacement = first.with_name("new")
    replacement.write_bytes(merged)
    replacement.rename(first)
    reader = planned(log)
    parts = reader.partitions()
    second.rename(second.with_name(second.name + ".deleted"))
    assert read_all(reader, parts) == list(range(60))


# S-18, S-19: replicas.


def test_one_of_several_replicas_is_read_the_one_of_the_latest_leader(tmp_path: Path) -> None:
    batches = list(many_batches(6))
    first = write_log(tmp_path / "one", steps=batches)
    second = write_log(tmp_path / "two", steps=batches[:4])
    third = write_log(tmp_path / "three", steps=batches[:5])
    paths = ",".join(str(each.parent) for each in (first, second, third))
    assert offsets({"path": paths, "subscribe": "t"}) == list(range(18))
    (second / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    assert offsets({"path": paths, "subscribe": "t"}) == list(range(12))
    listing = list_partitions(Disk(), tuple(paths.split(",")))
    assert sorted(each.path for each in listing.skipped) == [str(first), str(third)]


def test_reading_stops_at_the_high_watermark_unless_asked(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    (log.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    assert offsets({"path": log.parent, "subscribe": "t"}) == list(range(30))
    assert "offsets 30 to 59 lie above the checkpointed high watermark" in caplog.text
    assert offsets({"path": log.parent, "subscribe": "t", "endOfLog": "logEnd"}) == list(range(60))


# S-20: transactions without their index.


@pytest.fixture
def transactions(tmp_path: Path) -> Path:
    steps = [
        Batch((b"a0", b"a1"), producer=7),
        Batch((b"b0",), producer=8),
        Batch((b"plain",)),
        End(7, commit=False),
        Batch((b"b1",), producer=8),
        End(8, commit=True),
        Gap(3),
        Batch((b"c0",), producer=7),
        End(7, commit=True),
        Batch((b"open",), producer=9),
        Batch((b"behind",)),
    ]
    return write_log(tmp_path / "data", steps=steps, segment_bytes=300, interval=0)


def test_committed_rows_leave_out_aborted_ones_markers_and_what_is_undecided(transactions: Path) -> None:
    rows = read_rows(strict(transactions, **COMMITTED))
    assert [row["value"] for row in rows] == [b"b0", b"plain", b"b1", b"c0"]
    assert [row["value"] for row in read_rows(strict(transactions))] == [
        b"a0", b"a1", b"b0", b"plain", b"b1", b"c0", b"open", b"behind",
    ]  # fmt: skip


@pytest.mark.parametrize("sizing", [{}, {"maxBytesPerPartition": 1}, {"endingOffsets": '{"t":{"0":2}}'}])
def test_lost_transaction_index_is_noticed_at_the_marker(transactions: Path, sizing: dict[str, Any]) -> None:
    for path in transactions.glob("*.txnindex"):
        path.unlink()
    with pytest.raises(CorruptIndex, match=r"byte \d+: it aborts a transaction of producer 7 that no \.txnindex names"):
        read_rows(strict(transactions, **COMMITTED, **sizing))


def test_transaction_index_with_impossible_entries_is_refused(transactions: Path) -> None:
    (path,) = transactions.glob("*.txnindex")
    path.write_bytes(b"\xff" * 34)
    with pytest.raises(CorruptIndex, match=rf"{path}: entry 0"):
        read_rows(strict(transactions, **COMMITTED))


@pytest.mark.parametrize("harm", ["remove", "damage"])
def test_last_stable_offset_is_found_without_snapshots(transactions: Path, harm: str) -> None:
    snapshots = list(transactions.glob("*.snapshot"))
    assert snapshots
    for path in snapshots:
        if harm == "remove":
            path.unlink()
        else:
            path.write_bytes(b"\0\1garbage")
    assert [row["value"] for row in read_rows(strict(transactions, **COMMITTED))] == [b"b0", b"plain", b"b1", b"c0"]


# S-21: indexes that cannot be trusted.


@pytest.mark.parametrize("harm", ["remove", "zeros", "garbage", "shifted", "other"])
@pytest.mark.parametrize(
    "options",
    [
        {"maxBytesPerPartition": 200},
        {"startingOffsets": '{"t":{"0":25}}'},
        {"endingOffsets": '{"t":{"0":31}}'},
        {"startingTimestamp": NOW + 20, "endingTimestamp": NOW + 41},
    ],
)
def test_wrong_index_costs_time_and_never_a_row(log: Path, harm: str, options: dict[str, Any]) -> None:
    right = read_rows(strict(log, **options))
    assert right
    for path in [*log.glob("*.index"), *log.glob("*.timeindex")]:
        data = path.read_bytes()
        if harm == "remove":
            path.unlink()
        elif harm == "zeros":
            path.write_bytes(bytes(len(data)))
        elif harm == "garbage":
            path.write_bytes(b"\x55" * len(data))
        elif harm == "shifted" and path.suffix == ".index":
            entries = [struct.unpack_from(">ii", data, at) for at in range(0, len(data), 8)]
            path.write_bytes(b"".join(struct.pack(">ii", offset, position + 7) for offset, position in entries))
        elif harm == "other" and path.suffix == ".index":
            # Each entry stands for a batch, but not for its own.
            entries = [struct.unpack_from(">ii", data, at) for at in range(0, len(data), 8)]
            moved = [(offset, later[1]) for (offset, _), later in pairwise(entries)]
            path.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in moved))
    assert read_rows(strict(log, **options)) == right

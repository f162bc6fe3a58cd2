"""Files that nobody wants to meet (S-01 to S-22 of the reliability rules): strict says file and byte, quarantine goes on and reports."""

from __future__ import annotations

import json
import os
import socket
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptIndex, CorruptRecord, InvalidArgument, KafkaStorage, OffsetOutOfRange
from milepost.files import Disk
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.spark.columns import Columns
from milepost.spark.log_files.listing import list_partitions
from milepost.spark.log_files.views import plan_view
from milepost.spark.options import SourceOptions
from milepost.spark.reader import MilepostReader
from tests.spark.logs import NOW, Batch, End, Gap, many_batches, plain_scan, write_log
from tests.spark.rows import ALL, plain, read_rows, read_tasks, to_rows

FIRST = "00000000000000000000.log"


def offsets(options: dict[str, Any]) -> list[int]:
    return [row["offset"] for row in read_rows(options)]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def positions(path: Path) -> list[tuple[int, int, int]]:
    """(position, base offset, last offset) of every batch."""
    found, at = [], 0
    for batch in iter_batches(path.read_bytes()):
        found.append((at, batch.base_offset, batch.last_offset))
        at += batch.size
    return found


def change(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three records a batch in several segments: offsets 0 to 59."""
    directory = write_log(tmp_path / "data", steps=list(many_batches(20)), segment_bytes=1000, interval=0)
    assert len(segments(directory)) >= 3
    return directory


def strict(directory: Path, **more: object) -> dict[str, Any]:
    return {"path": directory.parent, "subscribe": "t", "endOfLog": "logEnd", **more}


def quarantine(directory: Path, aside: Path, **more: object) -> dict[str, Any]:
    return strict(directory, mode="quarantine", quarantinePath=aside, **more)


def notes(aside: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(aside.rglob("*.json"))]


# S-01, S-02: torn tails.


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_torn_tail_of_the_active_segment_is_where_the_log_ends(log: Path, cut: int) -> None:
    active = segments(log)[-1]
    position, first, _ = positions(active)[-1]
    with active.open("r+b") as file:
        file.truncate(position + cut)
    assert offsets(strict(log)) == list(range(first))
    rows = read_tasks(strict(log, view="segments"), Columns.of("segments"))
    assert [row["tail_bytes"] for task in rows for row in task][-1] == cut


def test_torn_tail_of_a_sealed_segment_names_file_and_byte(log: Path, tmp_path: Path) -> None:
    sealed = segments(log)[0]
    position, first, last = positions(sealed)[-1]
    with sealed.open("r+b") as file:
        file.truncate(position + 70)
    with pytest.raises(CorruptRecord, match=rf"{sealed}: batch at byte {position}: it has \d+ bytes, and 70 bytes are left"):
        offsets(strict(log))
    assert offsets(quarantine(log, tmp_path / "aside")) == [*range(first), *range(last + 1, 60)]
    note = notes(tmp_path / "aside")[0]
    assert (note["path"], note["position"], note["end"], note["copied"]) == (str(sealed), position, position + 70, 70)


# S-03: wrong CRC in the middle.


@pytest.mark.parametrize("which", [0, 1, 2])
def test_wrong_crc_names_file_and_byte_and_is_put_aside_in_quarantine(log: Path, tmp_path: Path, which: int) -> None:
    sealed = segments(log)[0]
    position, first, last = positions(sealed)[which]
    behind = positions(sealed)[which + 1][0]
    damaged = sealed.read_bytes()[position:behind]
    change(sealed, position + 65, bytes([damaged[65] ^ 1]))
    with pytest.raises(CorruptRecord, match=rf"{sealed}: batch at byte {position}: its CRC is wrong"):
        offsets(strict(log))
    aside = tmp_path / "aside"
    assert offsets(quarantine(log, aside)) == [*range(first), *range(last + 1, 60)]
    (note,) = notes(aside)
    assert (note["position"], note["end"], note["next_offset"], note["resumed_at"]) == (position, behind, first, last + 1)
    kept = aside / "t-0" / f"{sealed.name}.{position}-{behind}"
    assert kept.read_bytes() == sealed.read_bytes()[position:behind]
    assert not [path for path in log.iterdir() if "quarantine" in path.name]


def test_damage_met_by_two_tasks_is_put_aside_once(log: Path, tmp_path: Path) -> None:
    sealed = segments(log)[0]
    position, first, last = positions(sealed)[2]
    change(sealed, position + 65, b"\xff\xff\xff")
    aside = tmp_path / "aside"
    assert offsets(quarantine(log, aside, maxRecordsPerPartition=1)) == [*range(first), *range(last + 1, 60)]
    assert len(notes(aside)) == 1


def test_size_field_that_lies_is_passed_by_looking_for_the_next_batch(log: Path, tmp_path: Path) -> None:
    sealed = segments(log)[0]
    position, first, last = positions(sealed)[1]
    change(sealed, position + 8, struct.pack(">i", 0x01000000))
    with pytest.raises(CorruptRecord, match=rf"{sealed}.*byte {position}"):
        offsets(strict(log))
    assert offsets(quarantine(log, tmp_path / "aside")) == [*range(first), *range(last + 1, 60)]


def test_records_that_do_not_parse_behind_a_right_crc_are_damage(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "data", steps=list(many_batches(4)))
    good = build_batch([Record(12, NOW, b"k", b"v")])
    bad = bytearray(good)
    bad[61] = 0x7F  # the length of the record
    from milepost.codec.crc32c import crc32c

    struct.pack_into(">I", bad, 17, crc32c(memoryview(bad)[21:]))
    path = directory / FIRST
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bad + build_batch([Record(13, NOW, b"k", b"v")]))
    with pytest.raises(CorruptRecord, match=rf"byte {size}: its CRC is right and its records are damaged: record 0"):
        offsets(strict(directory))
    assert offsets(quarantine(directory, tmp_path / "aside")) == [*range(12), 13]


# S-04: zeros.


@pytest.mark.parametrize("zeros", [1, 16, 17, 61, 5000])
@pytest.mark.parametrize("which", [0, -1])
def test_zeros_behind_the_data_are_the_end_of_it(log: Path, zeros: int, which: int) -> None:
    path = segments(log)[which]
    path.write_bytes(path.read_bytes() + bytes(zeros))
    assert offsets(strict(log)) == list(range(60))


# S-05, S-06.


def test_three_formats_in_one_file_read_and_the_oldest_has_no_time(tmp_path: Path) -> None:
    steps = [Batch((b"a", b"b"), (5,), magic=0), Batch((b"c",), (6,), magic=1, codec=Codec.GZIP), Batch((b"d",), (7,))]
    directory = write_log(tmp_path / "data", steps=steps)
    rows = read_rows(strict(directory))
    assert [(row["value"], row["timestamp"], row["timestampType"]) for row in rows] == [
        (b"a", None, -1),
        (b"b", None, -1),
        (b"c", NOW + 6, 0),
        (b"d", NOW + 7, 0),
    ]


def test_unknown_codec_is_named(log: Path) -> None:
    sealed = segments(log)[0]
    data = bytearray(sealed.read_bytes())
    position, following = positions(sealed)[1][0], positions(sealed)[2][0]
    data[position + 22] = 5
    from milepost.codec.crc32c import crc32c

    struct.pack_into(">I", data, position + 17, crc32c(memoryview(data)[position + 21 : following]))
    sealed.write_bytes(data)
    with pytest.raises(CorruptRecord, match=rf"{sealed}.*byte {position}.*codec 5.*known are 0 none"):
        offsets(strict(log))


def test_unknown_magic_is_named(log: Path) -> None:
    sealed = segments(log)[0]
    position = positions(sealed)[1][0]
    change(sealed, position + 16, b"\x03")
    with pytest.raises(CorruptRecord, match=rf"{sealed}.*byte {position}.*magic is unknown"):
        offsets(strict(log))


# S-07: bombs.


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_batch_that_grows_beyond_the_cap_is_refused(tmp_path: Path, codec: Codec) -> None:
    from milepost.spark.decode import RowDecoder
    from milepost.spark.offset_range import OffsetRange

    bomb = build_batch([Record(0, NOW, b"k", bytes(4 << 20))], codec=codec)
    assert len(bomb) < 100_000
    decoder = RowDecoder(ALL, max_decompressed=1 << 20)
    directory = write_log(tmp_path / "data")
    list(decoder.start(OffsetRange(next(iter(listed(directory))), 0, 10), where="bomb.log"))
    with pytest.raises(CorruptRecord, match=r"bomb.log: batch at byte 0: .*1048576"):
        list(decoder.feed(bomb, 0, len(bomb)))


def listed(directory: Path) -> dict[Any, Any]:
    return list_partitions(Disk(), (str(directory.parent),)).partitions


# S-08, S-09: foreign names.


def test_foreign_files_and_directories_are_left_out_and_counted_by_reason(log: Path) -> None:
    base = segments(log)[1].name[:-4]
    for name in (
        f"{base}.log.swap",
        f"{base}.log.cleaned",
        f"{base}.log.deleted",
        "notes.txt",
        ".page.log.swp",
        "123.log",
        f"{base}.log~",
    ):
        (log / name).write_bytes(b"not a log")
    data = log.parent
    for name in ("t-1.0123456789abcdef0123456789abcdef-delete", "t-2.0123456789abcdef0123456789abcdef-future", "lost+found", "t"):
        (data / name).mkdir()
    (data / "file").write_text("x")
    assert offsets(strict(log)) == list(range(60))
    reasons = {Path(each.path).name: each.reason for each in list_partitions(Disk(), (str(data),)).skipped}
    assert set(reasons) == {
        f"{base}.log.swap", f"{base}.log.cleaned", f"{base}.log.deleted", "notes.txt", ".page.log.swp", "123.log", f"{base}.log~",
        "t-1.0123456789abcdef0123456789abcdef-delete", "t-2.0123456789abcdef0123456789abcdef-future", "lost+found", "t", "file",
    }  # fmt: skip
    assert reasons["t-1.0123456789abcdef0123456789abcdef-delete"] == "a directory marked -delete"
    rows = [row for task in read_tasks(strict(log, view="files"), Columns.of("files")) for row in task]
    assert sum(row["kind"] == "skipped" for row in rows) == 12


@pytest.mark.parametrize("view", ["segments", "batches", "files"])
def test_view_of_nothing_says_what_is_there(log: Path, tmp_path: Path, view: str) -> None:
    def planned(**given: str) -> object:
        return plan_view(SourceOptions.parse({"view": view, **given}, streaming=False))

    with pytest.raises(InvalidArgument, match=r"there is no topic nope in .*; topics there: t$"):
        planned(path=str(log.parent), subscribe="nope")
    (tmp_path / "empty").mkdir()
    with pytest.raises(KafkaStorage, match="empty: there is no partition in it; name a data directory"):
        planned(path=str(tmp_path / "empty"))


def test_internal_topics_are_found_although_their_names_begin_with_an_underscore(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "data", "__consumer_offsets", 0, [Batch((b"v",))])
    assert [row["topic"] for row in read_rows({"path": directory.parent, "subscribe": "__consumer_offsets"})] == [
        "__consumer_offsets"
    ]


def test_empty_segment_files_are_passed(log: Path) -> None:
    (log / "00000000000000000060.log").write_bytes(b"")
    assert offsets(strict(log)) == list(range(60))


# S-10: wrong names, overlaps.


def test_file_named_by_a_higher_offset_than_it_holds_is_an_error(log: Path, tmp_path: Path) -> None:
    second = segments(log)[1]
    base = int(second.stem)
    second.rename(second.with_name(f"{base + 1:020d}.log"))
    with pytest.raises(
        CorruptRecord, match=rf"{base + 1:020d}\.log: batch at byte 0: it starts at offset {base}, and {base + 1} is"
    ):
        offsets(strict(log))


def test_segments_that_overlap_are_an_error(log: Path, tmp_path: Path) -> None:
    first, second = segments(log)[:2]
    first.write_bytes(first.read_bytes() + second.read_bytes()[: positions(second)[1][0]])
    with pytest.raises(KafkaStorage, match=rf"{first}.*offsets must rise from file to file"):
        offsets(strict(log))
    assert offsets(quarantine(log, tmp_path / "aside")) == list(range(60))


# S-11, S-12: what is no regular file.


def test_symbolic_links_are_followed_only_when_asked_for_and_only_below_the_path(log: Path, tmp_path: Path) -> None:
    data = log.parent
    (data / "u-0").symlink_to(log, target_is_directory=True)
    outside = write_log(tmp_path / "elsewhere", "x", 0, [Batch((b"v",))])
    (data / "x-0").symlink_to(outside, target_is_directory=True)
    (data / "y-0").symlink_to(data / "y-0")
    (data / "z-0").symlink_to(data / "nowhere")
    listing = list_partitions(Disk(), (str(data),))
    assert [str(each) for each in listing.partitions] == ["t-0"]
    assert {Path(each.path).name for each in listing.skipped} == {"u-0", "x-0", "y-0", "z-0"}
    listing = list_partitions(Disk(), (str(data),), follow_symlinks=True)
    assert [str(each) for each in listing.partitions] == ["t-0", "u-0"]
    reasons = {Path(each.path).name: each.reason for each in listing.skipped}
    assert "leads out of" in reasons["x-0"]
    assert "leads nowhere" in reasons["y-0"]
    assert "leads nowhere" in reasons["z-0"]
    assert len(read_rows({"path": data, "subscribe": "u", "followSymlinks": "true"})) == 60


def test_link_to_a_segment_outside_is_not_read(log: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.log"
    segments(log)[1].rename(moved)
    (log / f"{positions(moved)[0][1]:020d}.log").symlink_to(moved)
    listing = list_partitions(Disk(), (str(log.parent),), follow_symlinks=True)
    assert [each.reason for each in listing.skipped] == [f"a symbolic link that leads out of {log.parent}"]


def test_fifo_socket_and_device_named_like_segments_are_not_opened(log: Path) -> None:
    os.mkfifo(log / "00000000000000000100.log")
    (log / "00000000000000000200.log").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(log)  # the name of a socket has 108 bytes at most
        try:
            listener.bind("00000000000000000300.log")
        finally:
            os.chdir(here)
        assert offsets(strict(log)) == list(range(60))
        reasons = sorted(each.reason for each in list_partitions(Disk(), (str(log.parent),)).skipped)
    assert reasons == [
        "a symbolic link; followSymlinks=true follows it",
        "named like a segment but a FIFO",
        "named like a segment but a socket",
    ]


def test_segment_that_becomes_a_link_after_the_plan_is_not_followed(log: Path, tmp_path: Path) -> None:
    reader = planned(log)
    parts = reader.partitions()
    first = segments(log)[0]
    first.rename(tmp_path / "aside.log")
    first.symlink_to(tmp_path / "aside.log")
    with pytest.raises(KafkaStorage, match=str(first)):
        [batch.num_rows for part in parts for batch in reader.read(part)]


# S-13: permissions.


def test_file_that_may_not_be_read_is_an_error_in_both_modes(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = str(segments(log)[1])
    opened = Disk.open

    def refuse(self: Disk, path: str, flags: int = os.O_RDONLY) -> int:
        if path == closed:
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path, flags)

    monkeypatch.setattr(Disk, "open", refuse)
    for options in (strict(log), quarantine(log, tmp_path / "aside")):
        with pytest.raises(KafkaStorage, match=rf"{closed}: Permission denied"):
            offsets(options)


# S-14 to S-17: files that change between plan and read.


def planned(log: Path, **more: object) -> MilepostReader:
    options = {name: str(value) for name, value in strict(log, **more).items()}
    return MilepostReader(SourceOptions.parse(options, streaming=False), ALL)


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


COMMITTED = {"kafka.isolation.level": "read_committed"}


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


# S-22: odd content.


def test_times_that_no_timestamp_can_hold_go_into_their_own_column(tmp_path: Path) -> None:
    times = (-1 - NOW, 0 - NOW, 2**63 - 1 - NOW, 9223372036854775 - NOW, 9223372036854776 - NOW)
    directory = write_log(tmp_path / "data", steps=[Batch((b"v",) * 5, times)])
    rows = read_rows(strict(directory))
    assert [(row["timestamp"], row["bad_ts"]) for row in rows] == [
        (None, None),
        (0, None),
        (None, 2**63 - 1),
        (9223372036854775, None),
        (None, 9223372036854776),
    ]


def test_header_keys_that_are_not_text_become_replacement_characters(tmp_path: Path) -> None:
    key = b"\xff\xfeok".decode("utf-8", "surrogateescape")
    directory = write_log(tmp_path / "data", steps=[Batch((b"v",), headers=(("plain", b"1"), (key, b"2"), ("plain", None)))])
    assert [row["headers"] for row in read_rows(strict(directory))] == [
        [("plain", b"1"), ("\ufffd\ufffdok", b"2"), ("plain", None)]
    ]


# S-23: sizes.


def test_size_field_that_claims_gigabytes_takes_no_memory(log: Path) -> None:
    sealed = segments(log)[0]
    position = positions(sealed)[1][0]
    change(sealed, position + 8, struct.pack(">i", 2**31 - 13))
    with pytest.raises(
        CorruptRecord, match=rf"{sealed}: batch at byte {position}: it has 2147483647 bytes, and \d+ bytes are left"
    ):
        offsets(strict(log))


def test_log_start_beyond_the_end_hides_nothing(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    (log.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5000\n")
    assert offsets(strict(log)) == list(range(60))
    assert "its checkpointed start, 5000, lies beyond its end, 60" in caplog.text


def test_log_start_inside_the_log_is_where_rows_begin(log: Path) -> None:
    (log.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 31\n")
    assert offsets(strict(log)) == list(range(31, 60))


def test_record_larger_than_every_buffer_is_read(tmp_path: Path) -> None:
    big = bytes(range(256)) * 80_000
    directory = write_log(tmp_path / "data", steps=[Batch((b"a",)), Batch((big,)), Batch((b"b",))], segment_bytes=64 << 20)
    assert [row["value"] for row in read_rows(strict(directory))] == [b"a", big, b"b"]


def test_plan_reads_a_directory_as_it_is_and_changes_nothing(log: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in log.parent.rglob("*")}
    read_rows(strict(log, **COMMITTED))
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in log.parent.rglob("*")} == before
    assert plain_scan(log).end == 60

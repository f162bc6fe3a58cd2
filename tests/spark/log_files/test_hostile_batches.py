"""Reading batches that are damaged, of an old or unknown format, too large, or odd: S-01 to S-07, S-22, S-23."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord
from milepost.files import Disk
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.spark.columns import Columns
from milepost.spark.log_files.listing import list_partitions
from tests.spark.log_files.hostile import COMMITTED, offsets, positions, quarantine, segments, strict
from tests.spark.logs import NOW, Batch, many_batches, plain_scan, write_log
from tests.spark.rows import ALL, read_rows, read_tasks

FIRST = "00000000000000000000.log"


def change(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


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

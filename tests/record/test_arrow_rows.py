"""Rows in Arrow memory: what records become, byte by byte, on the compiled kernel and on its plain twin."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.codec.crc32c import crc32c
from milepost.errors import InvalidRecord
from milepost.record.batch import RecordBatch, TimestampType
from milepost.record.builder import build_batch, build_legacy
from milepost.record.kernel import scan_records
from milepost.record.records import Record, header_key_to_bytes
from tests.conftest import twin

PLAIN = 0x27
"""Codec and control: what makes a batch special."""
MAX = 2**63 - 1


@pytest.fixture(scope="module", params=["compiled", "pure"])
def arrow_rows(request: pytest.FixtureRequest) -> ModuleType:
    return twin("milepost.record.arrow_rows", request.param)


class Memory:
    """Columns in plain memory, and what they say."""

    def __init__(
        self, module: ModuleType, capacity: int = 64, size: int = 4096, headers: int = 64, without: tuple[str, ...] = ()
    ):
        bits = (capacity + 7) // 8
        sizes = {
            "offset": 8 * capacity, "timestamp": 8 * capacity, "timestamp_valid": bits, "bad_timestamp": 8 * capacity,
            "bad_timestamp_valid": bits, "timestamp_type": 4 * capacity, "key_ends": 4 * capacity + 4, "key_valid": bits, "key_data": size,
            "value_ends": 4 * capacity + 4, "value_valid": bits, "value_data": size, "headers_ends": 4 * capacity + 4,
            "headers_valid": bits, "header_key_ends": 4 * headers + 4, "header_key_data": size, "header_value_ends": 4 * headers + 4,
            "header_value_valid": (headers + 7) // 8, "header_value_data": size,
        }  # fmt: skip
        # Filled with ones: what is not written must not look like zeros that were.
        self.room = {name: memoryview(bytearray(b"\xff" * length)) for name, length in sizes.items() if name not in without}
        self.rows = module.ArrowRows(capacity, headers, self.room)

    def numbers(self, name: str, code: str, count: int) -> list[int]:
        return list(struct.unpack_from(f"={count}{code}", self.room[name]))

    def bits(self, name: str, count: int) -> list[bool]:
        return [bool(self.room[name][place >> 3] >> (place & 7) & 1) for place in range(count)]

    def contents(self, name: str, count: int) -> list[bytes | None]:
        ends = self.numbers(f"{name}_ends", "i", count + 1)
        valid = self.bits(f"{name}_valid", count) if f"{name}_valid" in self.room else [True] * count
        data = bytes(self.room[f"{name}_data"])
        return [data[ends[at] : ends[at + 1]] if valid[at] else None for at in range(count)]

    def table(self) -> list[tuple[Any, ...]]:
        count, headers = self.rows.sizes[:2]
        times = [
            time if valid else None
            for time, valid in zip(self.numbers("timestamp", "q", count), self.bits("timestamp_valid", count), strict=True)
        ]
        bad = [
            time if valid else None
            for time, valid in zip(
                self.numbers("bad_timestamp", "q", count), self.bits("bad_timestamp_valid", count), strict=True
            )
        ]
        entries = list(zip(self.contents("header_key", headers), self.contents("header_value", headers), strict=True))
        ends = self.numbers("headers_ends", "i", count + 1)
        lists = [entries[ends[at] : ends[at + 1]] if self.bits("headers_valid", count)[at] else None for at in range(count)]
        return list(
            zip(
                self.numbers("offset", "q", count), times, bad, self.numbers("timestamp_type", "i", count), self.contents("key", count),
                self.contents("value", count), lists, strict=True,
            )
        )  # fmt: skip

    def fill(
        self, data: bytes, start: int = 0, low: int = 0, high: int = MAX, special: int = PLAIN, used: int = MAX, rows: int = MAX
    ) -> Any:
        return self.rows.fill(data, start, len(data), low, high, special, min(used, 2**62), min(rows, 2**62))


def test_record_becomes_a_row_with_microseconds(arrow_rows: ModuleType) -> None:
    memory = Memory(arrow_rows)
    data = build_batch([Record(7, 1_000, b"k", b"v", (("h", b"1"), ("h", None))), Record(9, -1, None, None)])
    assert memory.fill(data) == (len(data), arrow_rows.Fill.END)
    assert memory.table() == [
        (7, 1_000_000, None, 0, b"k", b"v", [(b"h", b"1"), (b"h", None)]),
        (9, None, None, 0, None, None, None),
    ]
    assert memory.rows.next_offset == 10


def test_time_of_the_append_is_the_time_of_every_record(arrow_rows: ModuleType) -> None:
    memory = Memory(arrow_rows)
    data = build_batch([Record(0, 5, b"", b"")], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=77)
    memory.fill(data)
    assert memory.table() == [(0, 77_000, None, 1, b"", b"", None)]


@pytest.mark.parametrize(
    ("time", "micros", "bad"),
    [
        (9_223_372_036_854_775, 9_223_372_036_854_775_000, None),
        (9_223_372_036_854_776, None, 9_223_372_036_854_776),
        (2**63 - 1, None, 2**63 - 1),
        (0, 0, None),
    ],
)
def test_time_beyond_64_bits_of_microseconds_is_kept_apart(
    arrow_rows: ModuleType, time: int, micros: int | None, bad: int | None
) -> None:
    memory = Memory(arrow_rows)
    memory.fill(build_batch([Record(0, time, b"", b"")]))
    assert [row[1:3] for row in memory.table()] == [(micros, bad)]


def test_only_the_offsets_that_are_wanted_become_rows(arrow_rows: ModuleType) -> None:
    data = build_batch([Record(at, 0, b"", b"%d" % at) for at in range(5)])
    data += build_batch([Record(at, 0, b"", b"%d" % at) for at in range(5, 8)])
    data += build_batch([Record(8, 0, b"", b"8")])
    memory = Memory(arrow_rows)
    second = RecordBatch(data).size + RecordBatch(data, RecordBatch(data).size).size
    assert memory.fill(data, low=3, high=7) == (second, arrow_rows.Fill.PAST)
    assert [row[0] for row in memory.table()] == [3, 4, 5, 6]


def test_batch_that_is_not_plain_is_left_to_the_caller(arrow_rows: ModuleType) -> None:
    from milepost.codec.compression import Codec
    from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch

    first = build_batch([Record(0, 0, b"", b"")])
    packed = build_batch([Record(1, 0, b"", b"")], codec=Codec.LZ4)
    marker = end_transaction_batch(
        EndTransactionMarker(ControlType.ABORT, 0), offset=1, timestamp=0, producer_id=1, producer_epoch=0
    )
    old = build_legacy([Record(1, 0, b"", b"")], magic=1)
    for other in (packed, marker, old):
        memory = Memory(arrow_rows)
        assert memory.fill(first + other) == (len(first), arrow_rows.Fill.SPECIAL)
    transactional = build_batch([Record(1, 0, b"", b"")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert Memory(arrow_rows).fill(first + transactional)[1] is arrow_rows.Fill.END
    assert Memory(arrow_rows).fill(first + transactional, special=PLAIN | 0x10) == (len(first), arrow_rows.Fill.SPECIAL)


@pytest.mark.parametrize("cut", [1, 12, 16, 17, 60, 61, 70])
def test_batch_that_is_not_all_there_is_left(arrow_rows: ModuleType, cut: int) -> None:
    first = build_batch([Record(0, 0, b"", b"")])
    second = build_batch([Record(1, 0, b"key", b"value" * 5)])
    memory = Memory(arrow_rows)
    assert memory.fill(first + second[:cut]) == (len(first), arrow_rows.Fill.PARTIAL)
    assert memory.rows.rows == 1


def test_damage_is_told_by_its_kind(arrow_rows: ModuleType) -> None:
    Fill = arrow_rows.Fill
    good = build_batch([Record(5, 0, b"k", b"v")])

    def changed(position: int, content: bytes, right_crc: bool = False) -> bytes:
        data = bytearray(good)
        data[position : position + len(content)] = content
        if right_crc:
            struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
        return bytes(data)

    assert Memory(arrow_rows).fill(bytes(100))[1] is Fill.BAD_SIZE
    assert Memory(arrow_rows).fill(changed(8, b"\0\0\0\x20"))[1] is Fill.BAD_SIZE
    assert Memory(arrow_rows).fill(changed(16, b"\x03"))[1] is Fill.BAD_MAGIC
    assert Memory(arrow_rows).fill(changed(65, b"?"))[1] is Fill.BAD_CRC
    assert Memory(arrow_rows).fill(changed(61, b"\x7f", True))[1] is Fill.DAMAGED
    assert Memory(arrow_rows).fill(changed(57, b"\xff\xff\xff\xff", True))[1] is Fill.DAMAGED
    memory = Memory(arrow_rows)
    memory.rows.expect(6)
    assert memory.fill(good) == (0, Fill.DISORDER)


def test_batch_without_room_for_its_last_record_is_not_taken_at_all(arrow_rows: ModuleType) -> None:
    first = build_batch([Record(0, 0, b"k", b"v", (("h", b"1"),))])
    second = build_batch([Record(1, 0, b"a", b"b", (("i", b"2"),)), Record(2, 0, b"c", b"d" * 300)])
    for memory in (Memory(arrow_rows, size=100), Memory(arrow_rows, capacity=2), Memory(arrow_rows, headers=1)):
        assert memory.fill(first + second) == (len(first), arrow_rows.Fill.FULL)
        assert memory.table() == [(0, 0, None, 0, b"k", b"v", [(b"h", b"1")])]
        memory.rows.clear()
        third = build_batch([Record(1, 0, None, None)])
        assert memory.fill(third) == (len(third), arrow_rows.Fill.END)
        assert memory.table() == [(1, 0, None, 0, None, None, None)]


def test_filling_stops_at_as_many_bytes_or_rows_as_asked_for(arrow_rows: ModuleType) -> None:
    data = b"".join(build_batch([Record(at, 0, b"k", b"v" * 10)]) for at in range(6))
    size = len(data) // 6
    assert Memory(arrow_rows).fill(data, rows=2) == (2 * size, arrow_rows.Fill.FULL)
    assert Memory(arrow_rows).fill(data, used=23) == (3 * size, arrow_rows.Fill.FULL)


def test_column_that_is_not_wanted_has_no_memory(arrow_rows: ModuleType) -> None:
    names = ("offset", "timestamp", "timestamp_valid", "bad_timestamp", "bad_timestamp_valid", "timestamp_type", "key_ends", "key_valid",
             "key_data", "headers_ends", "headers_valid", "header_key_ends", "header_key_data", "header_value_ends", "header_value_valid",
             "header_value_data")  # fmt: skip
    memory = Memory(arrow_rows, without=names)
    data = build_batch([Record(0, 0, b"k" * 50, b"v", (("h", b"1"),)), Record(1, 0, None, None)])
    assert memory.fill(data)[1] is arrow_rows.Fill.END
    assert memory.contents("value", 2) == [b"v", None]
    assert memory.rows.sizes == (2, 0, 0, 1, 0, 0)


def test_records_that_were_unpacked_and_single_ones_are_added(arrow_rows: ModuleType) -> None:
    memory = Memory(arrow_rows)
    batch = RecordBatch(build_batch([Record(4, 8, b"k", b"v"), Record(5, 9, None, b"w")]))
    payload = bytes(batch.payload())
    arguments = (payload, 0, len(payload), batch.record_count, 4, batch.base_timestamp, -1, False)
    assert memory.rows.add_records(*arguments, 5, MAX) is arrow_rows.Fill.END
    assert memory.rows.add(6, -1, -1, b"x", None)
    assert memory.table() == [(5, 9_000, None, 0, None, b"w", None), (6, None, None, -1, b"x", None, None)]
    assert memory.rows.add_records(payload, 0, len(payload) - 1, *arguments[3:], 0, MAX) is arrow_rows.Fill.DAMAGED
    assert memory.rows.rows == 2
    small = Memory(arrow_rows, size=3)
    assert not small.rows.add(0, 0, 0, b"long", b"")
    assert small.rows.rows == 0


records = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 2**62),
    st.one_of(st.none(), st.binary(max_size=20)),
    st.one_of(st.none(), st.binary(max_size=200)),
    st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=5))), max_size=3).map(tuple),
)


@given(st.lists(records, min_size=1, max_size=8), st.integers(0, 10))
def test_any_record_comes_out_as_it_went_in(arrow_rows: ModuleType, made: list[Record], low: int) -> None:
    numbered = [Record(at, each.timestamp, each.key, each.value, each.headers) for at, each in enumerate(made)]
    memory = Memory(arrow_rows, size=1 << 14)
    memory.fill(build_batch(numbered), low=low)
    limit = (2**63 - 1) // 1000
    assert memory.table() == [
        (
            each.offset,
            each.timestamp * 1000 if each.timestamp != -1 and each.timestamp <= limit else None,
            each.timestamp if each.timestamp > limit else None,
            0,
            each.key,
            each.value,
            [(header_key_to_bytes(key), value) for key, value in each.headers] or None,
        )
        for each in numbered
        if each.offset >= low
    ]


@given(st.lists(records, min_size=1, max_size=4), st.integers(0), st.integers(0, 255))
def test_one_changed_byte_is_damage_exactly_where_the_other_kernel_says_so(
    arrow_rows: ModuleType, made: list[Record], place: int, octet: int
) -> None:
    numbered = [Record(at, each.timestamp, each.key, each.value, each.headers) for at, each in enumerate(made)]
    batch = RecordBatch(build_batch(numbered))
    payload = bytearray(batch.payload())
    payload[place % len(payload)] = octet
    try:
        scan_records(bytes(payload), 0, len(payload), batch.record_count, batch.base_timestamp)
        is_good = True
    except InvalidRecord:
        is_good = False
    memory = Memory(arrow_rows, size=1 << 14)
    arguments = (bytes(payload), 0, len(payload), batch.record_count, 0, batch.base_timestamp, -1, False, -(2**31), MAX)
    found = memory.rows.add_records(*arguments)
    assert found is (arrow_rows.Fill.END if is_good else arrow_rows.Fill.DAMAGED)

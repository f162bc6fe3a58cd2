"""The kernel, compiled and as plain Python: the fixture `kernel` gives both, and every test runs on each.

Record bytes are written out by hand: length · attributes · timestamp delta · offset delta · key length · key · ..
"""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
import zlib
from array import array
from pathlib import Path

import pytest

import milepost
from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.batches import batch_at

TIME = 1_700_000_000_000
LONG_MAX = 9223372036854775807

# (k1, v1) and (null key, "hello", header h=x, 5 ms later): base offset 100, leader epoch 7.
WORKED = bytes.fromhex(
    "00000000000000640000004c000000070232deae190000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff00000002"
    "14000000046b31047631001e000a02010a68656c6c6f0202680278"
)
# The commit marker of producer 4000 epoch 2 at offset 102.
MARKER = bytes.fromhex(
    "0000000000000066000000420000000702 2d78afa4 0030 00000000 0000018bcfe56be8 0000018bcfe56be8 0000000000000fa0 0002 ffffffff"
    "00000001 20000000 08 00000001 0c 000000000003 00"
)
# Offset 5, key k, value v.
V0 = bytes.fromhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76")
V1 = bytes.fromhex("0000000000000005 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76")

PLAIN = "10 00 00 00 02 6b 02 76 00"  # k -> v, both deltas 0


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def scan(kernel, data: bytes, count: int, base_timestamp: int = 0):
    return kernel.scan_records(data, 0, len(data), count, base_timestamp)


def test_twins_are_what_they_claim(kernel):
    compiled = not kernel.__file__.endswith(".py")
    assert type(kernel.scan_records).__name__ == ("cython_function_or_method" if compiled else "function")


# scan_records


def test_worked_batch(kernel):
    assert kernel.scan_records(WORKED, 61, 88, 2, TIME) == (TIME + 5, 1, TIME, 1, True)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_any_buffer_of_bytes(kernel, kind):
    assert kernel.scan_records(kind(WORKED), 61, 88, 2, TIME) == (TIME + 5, 1, TIME, 1, True)


def test_no_records_means_that_nothing_is_looked_at(kernel):
    assert kernel.scan_records(b"\xff\xff", 0, 2, 0, TIME) == (-1, -1, -1, -1, True)
    assert kernel.scan_records(b"", 0, 0, 0, 0) == (-1, -1, -1, -1, True)


def test_the_first_of_equal_maxima_counts(kernel):
    data = octets("10 00 0a 00 02 6b 02 76 00", "10 00 0a 02 02 6b 02 76 00", "10 00 02 04 02 6b 02 76 00")
    assert scan(kernel, data, 3, 100) == (105, 0, 101, -1, True)


@pytest.mark.parametrize(("base", "expected"), [(-1000, (-1, -1, -1000)), (-1, (-1, -1, -1)), (0, (0, 0, 0))])
def test_negative_timestamps_leave_the_maximum_at_minus_one(kernel, base, expected):
    assert scan(kernel, octets(PLAIN), 1, base)[:3] == expected


def test_timestamps_wrap_as_in_java(kernel):
    longest = octets("22 00 fe ff ff ff ff ff ff ff ff 01 00 02 6b 02 76 00")
    assert scan(kernel, longest, 1, 1)[:3] == (-1, -1, -LONG_MAX - 1)
    shortest = longest.replace(octets("fe ff ff ff"), octets("ff ff ff ff"))
    assert scan(kernel, shortest, 1, -1)[:3] == (LONG_MAX, 0, LONG_MAX)


@pytest.mark.parametrize(
    ("deltas", "sequential"),
    [("00 02 04", True), ("00 02 06", False), ("02 04 06", False), ("00 00 00", False), ("04 02 00", False)],
)
def test_offset_deltas_in_sequence(kernel, deltas, sequential):
    data = b"".join(octets("10 00 00", delta, "02 6b 02 76 00") for delta in deltas.split())
    assert scan(kernel, data, 3)[4] is sequential


def test_first_null_key_is_found_and_an_empty_key_is_none(kernel):
    empty, null, other_null = "0e 00 00 00 00 02 76 00", "0e 00 00 02 01 02 76 00", "0e 00 00 04 7f 02 76 00"
    assert scan(kernel, octets(empty, null, other_null), 3)[3] == 1
    assert scan(kernel, octets(empty), 1)[3] == -1


def test_null_value_and_null_header_value(kernel):
    assert scan(kernel, octets("14 00 00 00 02 6b 01 02 02 68 01"), 1) == (0, 0, 0, -1, True)


def test_padded_varints_are_read_as_kafka_does(kernel):
    assert scan(kernel, octets("92 00 00 80 00 00 02 6b 02 76 00"), 1) == (0, 0, 0, -1, True)


DAMAGE = {
    "nothing there": ("", 1, "1 records of at least 7 bytes do not fit the 0 bytes at position 0"),
    "more records than bytes": (PLAIN, 2147483647, "2147483647 records of at least 7 bytes do not fit the 9 bytes at position 0"),
    "one record too many": (
        PLAIN + "0e 00 00 02 02",
        2,
        "record 1: its length, 7, stands before position 10, where 4 bytes are left",
    ),
    "one record too few": (PLAIN + PLAIN, 1, "9 bytes are left over at position 9, behind the last of 1 records"),
    "length larger than the data": (
        "12 00 00 00 02 6b 02 76 00",
        1,
        "record 0: its length, 9, stands before position 1, where 8",
    ),
    "negative length": (
        "01 00 00 00 02 6b 02 76 00",
        1,
        "record 0: its length, -1, stands before position 1, where 8 bytes are left",
    ),
    "length of zero": ("00 00 00 00 00 00 00", 1, "record 0: the number at position 1 is cut by the end of the record at 1"),
    "length that is one short": ("0e 00 00 00 02 6b 02 76 00", 1, "record 0: the number at position 8 is cut .* at 8"),
    "length that is one long": ("12 00 00 00 02 6b 02 76 00 00", 1, "record 0: its fields end at position 9, its length says 10"),
    "key past the record": (
        "10 00 00 00 0a 6b 02 76 00",
        1,
        "record 0: a key or value of 5 bytes at position 5 runs past .* at 9",
    ),
    "key as long as an integer goes": (
        "16 00 00 00 fe ff ff ff 0f 02 76 00",
        1,
        "a key or value of 2147483647 bytes at position 9",
    ),
    "value past the record": (
        "10 00 00 00 02 6b 06 76 00",
        1,
        "record 0: a key or value of 3 bytes at position 7 runs past .* at 9",
    ),
    "negative header count": (
        "10 00 00 00 02 6b 02 76 01",
        1,
        "record 0: -1 headers are declared before position 9, where 0 bytes",
    ),
    "more headers than bytes": (
        "14 00 00 00 02 6b 02 76 06 00 01",
        1,
        "record 0: 3 headers are declared before position 9, where 2",
    ),
    "header without bytes": ("12 00 00 00 02 6b 02 76 02 00", 1, "record 0: the number at position 10 is cut"),
    "null header key": ("14 00 00 00 02 6b 02 76 02 01 01", 1, "record 0: the header key before position 10 has length -1"),
    "header key past the record": (
        "14 00 00 00 02 6b 02 76 02 06 68",
        1,
        "a key or value of 3 bytes at position 10 runs past .* at 11",
    ),
    "header value past the record": ("16 00 00 00 02 6b 02 76 02 00 04 78", 1, "a key or value of 2 bytes at position 11"),
    "endless length": ("ff ff ff ff ff 00 00 00 00", 1, "record 0: the number at position 0 does not end within the 5 bytes"),
    "endless timestamp": (
        "1c 00 80 80 80 80 80 80 80 80 80 80 00 00 00",
        1,
        "record 0: the number at position 2 does not end within",
    ),
    "timestamp of more than 64 bits": (
        "1c 00 80 80 80 80 80 80 80 80 80 02 00 00 00",
        1,
        "position 2 carries more than the 32 bits",
    ),
    "length of more than 32 bits": (
        "ff ff ff ff 10 00 00 00 00",
        1,
        "record 0: the number at position 0 carries more than the 32 bits",
    ),
    "in the second record": (PLAIN + "10 00 00 02 0a 6b 02 76 00", 2, "record 1: a key or value of 5 bytes at position 14"),
}


@pytest.mark.parametrize(("data", "count", "sentence"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_record_is_named_by_its_byte(kernel, data, count, sentence):
    for damaged in (octets(data), bytearray.fromhex(data)):
        with pytest.raises(InvalidRecord, match=sentence):
            kernel.scan_records(damaged, 0, len(damaged), count, 0)
        with pytest.raises(InvalidRecord, match=sentence):
            kernel.decode_records(damaged, 0, len(damaged), count, 0, 0)


def test_position_counts_from_the_start_of_the_buffer(kernel):
    data = bytes(1000) + octets("10 00 00 00 0a 6b 02 76 00")
    with pytest.raises(InvalidRecord, match="5 bytes at position 1005 runs past the end of the record at 1009"):
        kernel.scan_records(data, 1000, len(data), 1, 0)


def test_nothing_behind_the_end_is_read(kernel):
    data = octets(PLAIN)
    for end in range(9):
        with pytest.raises(InvalidRecord):
            kernel.scan_records(data, 0, end, 1, 0)


def test_negative_count(kernel):
    with pytest.raises(InvalidRecord, match="the record count is -1"):
        scan(kernel, octets(PLAIN), -1)


@pytest.mark.parametrize(("start", "end"), [(-1, 9), (0, 10), (5, 4)])
def test_range_outside_the_buffer(kernel, start, end):
    for call in (
        lambda data: kernel.scan_records(data, start, end, 1, 0),
        lambda data: kernel.decode_records(data, start, end, 1, 0, 0),
        lambda data: kernel.find_batch(data, start, end, 0, 1),
    ):
        with pytest.raises(InvalidArgument, match=f"bytes {start} to {end} of a buffer of 9"):
            call(octets(PLAIN))


@pytest.mark.parametrize("kernel", ["compiled"], indirect=True)
def test_large_batches_are_scanned_without_the_gil(kernel):
    data = octets(PLAIN) * 1_000_000  # some 10 ms
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that a thread runs only when another gives the GIL away
    try:
        assert any(_other_thread_ran_during(lambda: kernel.scan_records(data, 0, len(data), 1_000_000, 0)) for _ in range(20))
    finally:
        sys.setswitchinterval(interval)


def _other_thread_ran_during(call) -> bool:
    go, done, seen = threading.Event(), [], []
    thread = threading.Thread(target=lambda: (go.wait(), seen.append(len(done))))
    thread.start()
    go.set()
    call()
    done.append(True)
    thread.join()
    return seen == [0]


# decode_records and encode_records


def columns_of(kernel, columns) -> dict[str, list[int]]:
    return {name: list(getattr(columns, name)) for name in kernel.Columns.__slots__}


def test_worked_batch_in_columns(kernel):
    columns = kernel.decode_records(WORKED, 61, 88, 2, 100, TIME)
    assert len(columns) == 2
    assert columns_of(kernel, columns) == {
        "offsets": [100, 101],
        "timestamps": [TIME, TIME + 5],
        "key_start": [66, 77],
        "key_length": [2, -1],
        "value_start": [69, 78],
        "value_length": [2, 5],
        "header_start": [72, 84],
        "header_end": [72, 88],
        "header_count": [0, 1],
    }
    assert columns.offsets.typecode == columns.timestamps.typecode == "q"
    assert columns.key_start.typecode == columns.header_count.typecode == "i"


def test_no_records_make_empty_columns(kernel):
    columns = kernel.decode_records(b"\xff", 0, 1, 0, 100, TIME)
    assert len(columns) == 0
    assert columns.key_start == array("i")


def test_gaps_left_by_compaction(kernel):
    data = octets("10 00 00 04 02 6b 02 76 00", "10 00 00 0e 02 6b 02 76 00")
    columns = kernel.decode_records(data, 0, 18, 2, 100, 0)
    assert list(columns.offsets) == [102, 107]


def test_any_negative_length_is_null(kernel):
    columns = kernel.decode_records(octets("0c 00 00 00 7f 03 00"), 0, 7, 1, 0, 0)
    assert (columns.key_length[0], columns.value_length[0], columns.header_count[0]) == (-1, -1, 0)


def test_records_are_encoded_as_they_were(kernel):
    columns = kernel.decode_records(WORKED, 61, 88, 2, 100, TIME)
    assert kernel.encode_records(columns, WORKED, WORKED, WORKED, 100, TIME) == WORKED[61:]


def test_keys_values_and_headers_from_three_buffers(kernel):
    columns = kernel.Columns(2)
    columns.offsets[:] = array("q", [100, 101])
    columns.timestamps[:] = array("q", [TIME, TIME + 5])
    columns.key_length[:] = array("i", [2, -1])
    columns.value_start[1] = 2
    columns.value_length[:] = array("i", [2, 5])
    columns.header_end[1] = 4
    columns.header_count[1] = 1
    assert (
        kernel.encode_records(columns, b"k1", bytearray(b"v1hello"), memoryview(octets("02 68 02 78")), 100, TIME) == WORKED[61:]
    )


def test_columns_may_be_other_buffers_of_integers(kernel):
    columns = kernel.decode_records(WORKED, 61, 88, 2, 100, TIME)
    for name in kernel.Columns.__slots__:
        column = getattr(columns, name)
        setattr(columns, name, memoryview(column.tobytes()).cast(column.typecode))
    assert kernel.encode_records(columns, WORKED, WORKED, WORKED, 100, TIME) == WORKED[61:]


def test_long_numbers_are_encoded(kernel):
    columns = kernel.Columns(2)
    columns.offsets[:] = array("q", [0, 2147483647])
    columns.timestamps[:] = array("q", [LONG_MAX, -LONG_MAX - 1])
    columns.key_length[:] = columns.value_length[:] = array("i", [-1, -1])
    encoded = kernel.encode_records(columns, b"", b"", b"", 0, 0)
    assert encoded == octets(
        "1e 00 fe ff ff ff ff ff ff ff ff 01 00 01 01 00", "26 00 ff ff ff ff ff ff ff ff ff 01 fe ff ff ff 0f 01 01 00"
    )


def test_nothing_is_encoded_from_no_rows(kernel):
    assert kernel.encode_records(kernel.Columns(0), b"", b"", b"", 0, 0) == b""


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("key_length", 3, "row 0: its key lies outside the buffer of keys"),
        ("key_length", -2, "row 0: its key lies outside"),
        ("key_start", -1, "row 0: its key lies outside"),
        ("key_start", 2147483647, "row 0: its key lies outside"),
        ("value_length", 3, "row 0: its value lies outside the buffer of values"),
        ("value_start", -1, "row 0: its value lies outside"),
        ("header_end", 3, "row 0: its headers lie outside the buffer of headers"),
        ("header_end", -1, "row 0: its headers lie outside"),
        ("header_start", -1, "row 0: its headers lie outside"),
        ("header_count", -1, "row 0: its headers lie outside the buffer of headers, or their count is negative"),
        ("offsets", 2147483648, "row 0: its offset is more than 32 bits away"),
        ("offsets", -2147483649, "row 0: its offset is more than 32 bits away"),
    ],
)
def test_row_that_cannot_be_encoded(kernel, column, value, sentence):
    columns = kernel.Columns(1)
    getattr(columns, column)[0] = value
    with pytest.raises(InvalidArgument, match=sentence):
        kernel.encode_records(columns, b"kk", b"vv", b"hh", 0, 0)


def test_columns_of_different_length(kernel):
    columns = kernel.Columns(2)
    columns.key_length.pop()
    with pytest.raises(InvalidArgument, match="column key_length has 1 rows, column offsets has 2"):
        kernel.encode_records(columns, b"", b"", b"", 0, 0)


def test_more_than_a_batch_can_hold(kernel):
    columns = kernel.Columns(2)
    columns.value_length[:] = array("i", [2147483647, 1])
    with pytest.raises(InvalidArgument, match="2 records may take 2147483720 bytes"):
        kernel.encode_records(columns, b"", b"", b"", 0, 0)


# find_batch


def test_batch_behind_damage_is_found(kernel):
    file = b"\xff" * 100 + WORKED + MARKER
    assert kernel.find_batch(file, 0, len(file), 0, LONG_MAX) == 100
    assert kernel.find_batch(file, 100, len(file), 0, LONG_MAX) == 100
    assert kernel.find_batch(file, 101, len(file), 0, LONG_MAX) == 188
    assert kernel.find_batch(file, 189, len(file), 0, LONG_MAX) == -1


@pytest.mark.parametrize("batch", [V0, V1, WORKED, MARKER], ids=["magic 0", "magic 1", "magic 2", "marker"])
def test_batch_is_found_behind_every_kind_of_filling(kernel, batch):
    for filling in (bytes(200), b"\x01" * 77, b"\x02" * 61, WORKED[:-1], V1[:-1], bytes(range(256))):
        file = memoryview(bytearray(filling + batch + filling))
        assert kernel.find_batch(file, 0, len(file), 0, LONG_MAX) == len(filling)


def test_batch_with_a_damaged_byte_is_not_found_unless_the_byte_is_outside_its_crc(kernel):
    unprotected = set(range(16)) - set(range(8, 12))  # base offset and leader epoch
    for position in range(88):
        damaged = bytearray(WORKED)
        damaged[position] ^= 0x01
        assert (kernel.find_batch(damaged, 0, 88, 0, LONG_MAX) == 0) == (position in unprotected), position


def test_batch_must_end_by_the_end(kernel):
    assert kernel.find_batch(WORKED, 0, 87, 0, LONG_MAX) == -1
    assert kernel.find_batch(V0 + V0, 0, 28 + 27, 0, LONG_MAX) == 0
    assert kernel.find_batch(b"", 0, 0, 0, LONG_MAX) == -1


@pytest.mark.parametrize(
    ("low", "high", "found"), [(100, 101, 0), (101, 200, -1), (0, 100, -1), (0, 99, -1), (0, 101, 0), (-5, LONG_MAX, 0)]
)
def test_both_offsets_must_be_plausible(kernel, low, high, found):
    assert kernel.find_batch(WORKED, 0, 88, low, high) == found


@pytest.mark.parametrize(("low", "high", "found"), [(5, 5, 0), (6, 9, -1), (0, 4, -1)])
def test_offset_of_a_message_must_be_plausible(kernel, low, high, found):
    for message in (V0, V1):
        assert kernel.find_batch(message, 0, len(message), low, high) == found


def test_negative_offset_is_never_plausible(kernel):
    for batch in (WORKED, V0, V1):
        negative = b"\x80" + batch[1:]
        assert kernel.find_batch(negative, 0, len(negative), -LONG_MAX - 1, LONG_MAX) == -1


def test_message_whose_fields_do_not_fill_it_is_no_message_though_its_crc_is_right(kernel):
    body = octets("00 00 00000002 6b 00000001 76")
    forged = V0[:12] + struct.pack(">I", zlib.crc32(body)) + body
    assert batch_at(forged, 0).is_valid()
    assert kernel.find_batch(forged, 0, 28, 0, LONG_MAX) == -1


def test_message_with_null_key_and_null_value_is_found(kernel):
    body = octets("01 00 0000018bcfe56800 ffffffff ffffffff")
    message = octets("0000000000000005 00000016") + struct.pack(">I", zlib.crc32(body)) + body
    assert kernel.find_batch(b"?" + message, 0, 35, 0, 9) == 1


# check_entries


def offset_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_offset_index_of_the_articles_is_in_order(kernel):
    index = offset_index((6, 156), (14, 459), (22, 656), (26, 838), (31, 1050))
    assert kernel.check_entries(index, 5, 8) == -1
    assert kernel.check_entries(memoryview(index), 5, 8) == -1


@pytest.mark.parametrize(
    ("entries", "slot"),
    [
        ([], -1),
        ([(0, 0)], -1),
        ([(-1, 0)], 0),
        ([(0, -1)], 0),
        ([(6, 156), (6, 459)], 1),
        ([(6, 156), (5, 459)], 1),
        ([(6, 156), (14, 156)], -1),
        ([(6, 156), (14, 155)], 1),
        ([(6, 156), (14, 459), (0, 0), (0, 0)], 2),
        ([(6, 156), (2147483647, 2147483647)], -1),
        ([(6, 156), (-2147483648, 459)], 1),
    ],
)
def test_first_slot_of_an_offset_index_that_breaks_the_order(kernel, entries, slot):
    assert kernel.check_entries(offset_index(*entries), len(entries), 8) == slot


@pytest.mark.parametrize(
    ("entries", "slot"),
    [
        ([], -1),
        ([(0, 0)], -1),
        ([(-1, 0)], 0),
        ([(10, -1)], 0),
        ([(TIME, 3), (TIME + 1, 3), (LONG_MAX, 2147483647)], -1),
        ([(TIME, 3), (TIME, 4)], 1),
        ([(TIME, 3), (TIME - 1, 4)], 1),
        ([(TIME, 3), (TIME + 1, 2)], 1),
        ([(TIME, 3), (TIME + 1, 4), (0, 0)], 2),
        ([(2**32, 0), (2**32 - 1, 0)], 1),
    ],
)
def test_first_slot_of_a_time_index_that_breaks_the_order(kernel, entries, slot):
    assert kernel.check_entries(time_index(*entries), len(entries), 12) == slot


def test_only_the_entries_asked_for_are_looked_at(kernel):
    assert kernel.check_entries(offset_index((6, 156), (14, 459), (0, 0)), 2, 8) == -1


@pytest.mark.parametrize(("entries", "kind"), [(3, 8), (-1, 8), (2, 12), (2**61, 8), (1, 16)])
def test_entries_that_are_not_there(kernel, entries, kind):
    with pytest.raises(InvalidArgument, match=f"entries of {kind} bytes"):
        kernel.check_entries(bytes(16), entries, kind)


# Without Cython


def test_plain_kernel_runs_where_cython_is_not_installed():
    program = f"""
import sys
sys.path[:] = {sys.path!r}
sys.path.insert(0, {str(Path(milepost.__file__).parents[1])!r})
sys.modules["cython"] = sys.modules["Cython"] = None
import milepost.record.kernel as kernel
assert kernel.__file__.endswith(".py"), kernel.__file__
worked = bytes.fromhex({WORKED.hex()!r})
print(kernel.scan_records(worked, 61, 88, 2, {TIME}))
columns = kernel.decode_records(worked, 61, 88, 2, 100, {TIME})
print(kernel.encode_records(columns, worked, worked, worked, 100, {TIME}) == worked[61:])
print(kernel.find_batch(worked, 0, 88, 0, 1000))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"MILEPOST_PURE": "1"})
    assert answer.stderr == ""
    assert answer.stdout == f"({TIME + 5}, 1, {TIME}, 1, True)\nTrue\n0\n"

"""The kernel's columns: records decoded into them, and encoded from them."""

from __future__ import annotations

from array import array

import pytest

from milepost.errors import InvalidArgument
from tests.record.octets import LONG_MAX, TIME, WORKED, octets


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

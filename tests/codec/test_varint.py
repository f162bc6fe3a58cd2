"""Varints: the table of the format, the bounds, and what is refused."""

from __future__ import annotations

import time

import pytest

from milepost.codec.varint import (
    read_unsigned_varint,
    read_varint,
    varint_size,
    write_unsigned_varint,
    write_varint,
    write_varlong,
)
from milepost.errors import InvalidArgument, InvalidRecord

INT_MAX, LONG_MAX = 2147483647, 9223372036854775807

VARINTS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (300, "d804"),
    (8191, "fe7f"),
    (8192, "808001"),
    (INT_MAX, "feffffff0f"),
    (-INT_MAX - 1, "ffffffff0f"),
]
VARLONGS = [*VARINTS, (LONG_MAX, "feffffffffffffffff01"), (-LONG_MAX - 1, "ffffffffffffffffff01")]
UNSIGNED = [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (4294967295, "ffffffff0f")]


def written(write, value):
    out = bytearray(b"before")
    write(out, value)
    return out[6:].hex()


@pytest.mark.parametrize(("value", "encoded"), VARINTS)
def test_varint(value, encoded):
    assert written(write_varint, value) == encoded
    assert varint_size(value) == len(encoded) // 2
    assert read_varint(b"?" + bytes.fromhex(encoded) + b"?", 1) == (value, 1 + len(encoded) // 2)


@pytest.mark.parametrize(("value", "encoded"), VARLONGS)
def test_varlong(value, encoded):
    assert written(write_varlong, value) == encoded


@pytest.mark.parametrize(("value", "encoded"), UNSIGNED)
def test_unsigned_varint(value, encoded):
    assert written(write_unsigned_varint, value) == encoded
    assert read_unsigned_varint(bytearray.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_padded_zero_is_read_as_kafka_does():
    assert read_varint(b"\x80\x80\x00", 0) == (0, 3)


@pytest.mark.parametrize("read", [read_varint, read_unsigned_varint])
@pytest.mark.parametrize(("data", "position"), [(b"", 0), (b"\x00", 1), (b"?\x80", 1), (b"\xff\xff\xff", 0)])
def test_number_cut_by_the_end_of_the_data(read, data, position):
    with pytest.raises(InvalidRecord, match=f"at position {position} is cut: the data ends at {len(data)}"):
        read(data, position)


@pytest.mark.parametrize("read", [read_varint, read_unsigned_varint])
def test_number_that_does_not_end_in_its_bytes(read):
    with pytest.raises(InvalidRecord, match="at position 1 does not end within 5 bytes"):
        read(b"?\x80\x80\x80\x80\x80\x00", 1)


@pytest.mark.parametrize(("read", "data"), [(read_varint, "ffffffff10"), (read_unsigned_varint, "ffffffff7f")])
def test_number_with_bits_above_its_width_is_refused_where_kafka_drops_them(read, data):
    with pytest.raises(InvalidRecord, match="carries more than 32 bits"):
        read(bytes.fromhex(data), 0)


def test_a_megabyte_of_continuation_bytes_is_refused_at_once():
    hostile = b"\xff" * 1_000_000
    started = time.thread_time()
    for read in (read_varint, read_unsigned_varint):
        with pytest.raises(InvalidRecord):
            read(hostile, 0)
    assert time.thread_time() - started < 1


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (write_varint, INT_MAX + 1),
        (write_varint, -INT_MAX - 2),
        (write_varlong, LONG_MAX + 1),
        (write_varlong, -LONG_MAX - 2),
        (write_unsigned_varint, -1),
        (write_unsigned_varint, 4294967296),
    ],
)
def test_value_that_does_not_fit_is_not_written(write, value):
    out = bytearray()
    with pytest.raises(InvalidArgument, match=f"{value} does not fit"):
        write(out, value)
    assert out == b""

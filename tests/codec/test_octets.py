"""Numbers in memory, uncompiled; the compiled ones are tested by the modules that they are compiled into (tests/record, offset_map)."""

from __future__ import annotations

import inspect
import re
from array import array
from pathlib import Path

import pytest

from milepost.codec import octets


def test_bytes_of_a_view_are_where_it_says():
    assert octets.octets_of(memoryview(b"abcd")[1:])[0] == ord("b")


@pytest.mark.parametrize("view", [memoryview(b"abcd")[::2], memoryview(array("i", [1])), memoryview(bytes(4)).cast("B", (2, 2))])
def test_view_of_something_else_than_bytes_in_a_row_is_refused(view):
    with pytest.raises(BufferError, match="one behind the other"):
        octets.octets_of(view)


def test_integers_are_big_endian_and_signed():
    assert octets.int32_at(b"\0\x00\x00\x01\x02\xff", 1) == 258
    assert octets.int32_at(b"\xff\xff\xff\xfe", 0) == -2
    assert octets.int64_at(b"\0\x00\x00\x00\x01\x00\x00\x00\x02", 1) == 4294967298
    assert octets.int64_at(b"\x80" + bytes(7), 0) == -(2**63)


@pytest.mark.parametrize(
    ("encoded", "bits", "value"),
    [
        ("00", 32, 0), ("01", 32, -1), ("7e", 32, 63), ("8001", 32, 64), ("ac02", 32, 150), ("8000", 32, 0),
        ("feffffff0f", 32, 2**31 - 1), ("ffffffff0f", 32, -(2**31)),
        ("feffffffffffffffff01", 64, 2**63 - 1), ("ffffffffffffffffff01", 64, -(2**63)),
    ],
)  # fmt: skip
def test_varint_is_read_by_both_readers(encoded, bits, value):
    data = b"\x55" + bytes.fromhex(encoded) + b"\x55"
    behind = len(data) - 1
    assert octets.varint_at(data, 1, behind, bits) == octets.checked_varint_at(data, 1, behind) == (value, behind)


@pytest.mark.parametrize(
    ("encoded", "bits", "error"),
    [
        ("", 32, octets.CUT), ("80", 32, octets.CUT), ("80808080", 64, octets.CUT),
        ("8080808080", 32, octets.ENDLESS), ("80808080808080808080", 64, octets.ENDLESS),
        ("8080808010", 32, octets.TOO_WIDE), ("80808080808080808002", 64, octets.TOO_WIDE),
    ],
)  # fmt: skip
def test_varint_that_is_none_says_why(encoded, bits, error):
    data = bytes.fromhex(encoded)
    assert octets.varint_at(data, 0, len(data), bits) == (0, -error)


@pytest.mark.parametrize("encoded", ["", "80", "ffffffffffffffffffff01"])
def test_checked_varint_that_does_not_end_is_refused(encoded):
    data = bytes.fromhex(encoded)
    assert octets.checked_varint_at(data, 0, len(data)) == (0, -1)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (64, "8001"), (2**31 - 1, "feffffff0f"), (-(2**63), "ffffffffffffffffff01")]
)
def test_varint_is_written_in_as_many_bytes_as_it_takes(value, encoded):
    target = bytearray(12)
    assert octets.put_varint(target, 1, value) == 1 + octets.varint_size(value)
    assert target.hex() == ("00" + encoded).ljust(24, "0")


def test_bytes_are_put_and_null_puts_none():
    target = bytearray(4)
    assert octets.put_bytes(target, 1, b"abcd", 1, 2) == 3
    assert octets.put_bytes(target, 3, b"abcd", 1, -1) == 3
    assert target == b"\0bc\0"


def test_sums_of_64_bits_wrap():
    assert octets.plus(2**63 - 1, 1) == -(2**63)
    assert octets.minus(-(2**63), 1) == 2**63 - 1


def test_c_has_every_function_and_no_other():
    declared = Path(octets.__file__).with_suffix(".pxd").read_text()
    in_c = set(re.findall(r"^cdef inline .*? (\w+)\((?:const|unsigned|long|object|$)", declared, re.MULTILINE))
    in_python = {name for name, _ in inspect.getmembers(octets, inspect.isfunction)}
    assert {name for name in in_c if not name.startswith("_")} == {name for name in in_python if not name.startswith("_")}

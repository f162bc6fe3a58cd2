"""Numbers and bytes in memory, for the modules that are compiled: integers of 4 and 8 bytes, varints, sums that wrap.

`octets.pxd` beside this file has the same functions in C, and a compiled module takes those:

    if cython.compiled:
        from cython.cimports.milepost.codec.octets import int32_at
    else:
        from milepost.codec.octets import int32_at

Nothing is checked but what a varint needs: whoever reads knows that the bytes are there. C integers wrap, Python's do not, so sums of 64
bits go through `plus` and `minus`, which wrap as Java's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer

LONG_MIN, LONG_RANGE = -(2**63), 2**64

# What can be wrong with a varint.
CUT = 1  # it is cut by the end
ENDLESS = 2  # it does not end within the 5 bytes of a varint or the 10 of a varlong
TOO_WIDE = 3  # it carries more than 32 or 64 bits


def octets_of(view: memoryview) -> memoryview:
    """Where the bytes of a view lie, for as long as somebody holds that view. In C several times cheaper than a typed view of Cython's."""
    if view.ndim != 1 or view.itemsize != 1 or not view.c_contiguous:
        raise BufferError("the view is not of bytes, one behind the other")
    return view


def int32_at(data: ReadableBuffer, at: int) -> int:
    """Four bytes, big-endian, signed."""
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def int64_at(data: ReadableBuffer, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def varint_at(data: ReadableBuffer, at: int, end: int, bits: int) -> tuple[int, int]:
    """The varint (32 bits) or varlong (64) at `at`, zigzag, and the position behind it, which is minus the error if there is none."""
    raw = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        if shift > bits - 7 and byte >> (bits - shift) != 0:
            return 0, -(ENDLESS if byte >= 0x80 else TOO_WIDE)
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    return 0, -CUT


def checked_varint_at(data: ReadableBuffer, at: int, end: int) -> tuple[int, int]:
    """The same of a record that was checked before, which is quicker: -1 for the position where there is no number, whatever is wrong."""
    raw = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw %= LONG_RANGE
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    return 0, -1


def _zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def varint_size(value: int) -> int:
    raw, size = _zigzag(value), 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def put_varint(target: bytearray, at: int, value: int) -> int:
    """Writes a varint or varlong, which differ in what they may hold only; the position behind it."""
    raw = _zigzag(value)
    while raw > 0x7F:
        target[at] = raw & 0x7F | 0x80
        raw >>= 7
        at += 1
    target[at] = raw
    return at + 1


def put_bytes(target: bytearray, at: int, data: ReadableBuffer, start: int, size: int) -> int:
    """Copies `size` bytes, none if that is negative; the position behind them."""
    if size <= 0:
        return at
    target[at : at + size] = data[start : start + size]
    return at + size


def plus(left: int, right: int) -> int:
    """Sums of 64 bits wrap."""
    return (left + right - LONG_MIN) % LONG_RANGE + LONG_MIN


def minus(left: int, right: int) -> int:
    return (left - right - LONG_MIN) % LONG_RANGE + LONG_MIN

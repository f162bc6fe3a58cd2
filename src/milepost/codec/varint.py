"""Variable-length integers as Kafka writes them: groups of 7 bits, low group first, high bit set means "one more".

    kind              bits  at most   signed values
    unsigned varint   32    5 bytes   no
    varint            32    5 bytes   zigzag: n -> 2n, or -2n-1 below zero
    varlong           64    10 bytes  zigzag       (written here; only the kernel reads them)

Reading is bounded: the last allowed byte may not ask for another one (400 kB of 0xff would otherwise keep a
Python loop busy for seconds), nor carry bits above the width, which Kafka drops silently and we refuse.
Padded encodings (`80 00` for 0) are read, as Kafka does; they are never written.
"""

from __future__ import annotations

from milepost.codec.buffer import Buffer
from milepost.errors import InvalidArgument, InvalidRecord

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
UNSIGNED_INT_MAX = 2**32 - 1


def read_varint(buffer: Buffer, start: int) -> tuple[int, int]:
    """The value at `start`, and the position behind it."""
    raw, position = read_unsigned_varint(buffer, start)
    return (raw >> 1) ^ -(raw & 1), position


def read_unsigned_varint(buffer: Buffer, start: int) -> tuple[int, int]:
    try:
        byte = buffer[start]
        if byte < 0x80:  # nearly every number of a record
            return byte, start + 1
        value = byte & 0x7F
        position = start + 1
        for shift in range(7, 32, 7):
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 32:
                    raise InvalidRecord(f"the varint at position {start} carries more than 32 bits (it ends 0x{byte:02x})")
                return value, position
    except IndexError:
        raise InvalidRecord(f"the varint at position {start} is cut: the data ends at {len(buffer)}") from None
    raise InvalidRecord(f"the varint at position {start} does not end within {position - start} bytes")


def write_unsigned_varint(out: bytearray, value: int) -> None:
    if not 0 <= value <= UNSIGNED_INT_MAX:
        raise InvalidArgument(f"{value} does not fit an unsigned varint (0 to {UNSIGNED_INT_MAX})")
    _write(out, value)


def write_varint(out: bytearray, value: int) -> None:
    if not INT_MIN <= value <= INT_MAX:
        raise InvalidArgument(f"{value} does not fit a varint ({INT_MIN} to {INT_MAX})")
    _write(out, (value << 1) ^ (value >> 31))


def write_varlong(out: bytearray, value: int) -> None:
    if not LONG_MIN <= value <= LONG_MAX:
        raise InvalidArgument(f"{value} does not fit a varlong ({LONG_MIN} to {LONG_MAX})")
    _write(out, (value << 1) ^ (value >> 63))


def _write(out: bytearray, raw: int) -> None:
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def varint_size(value: int) -> int:
    """How many bytes `write_varint` appends for `value`."""
    return max(1, (((value << 1) ^ (value >> 31)).bit_length() + 6) // 7)

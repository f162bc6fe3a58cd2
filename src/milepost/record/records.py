"""One record as a value, whatever format it was stored in.

On disk a record of a v2 batch is

    type     field            meaning
    varint   length           bytes that follow
    i8       attributes       0, unused
    varlong  timestamp_delta  from the batch's base_timestamp
    varint   offset_delta     from the batch's base_offset
    varint   key_length       negative: the key is null, which is not the empty key
    bytes    key
    varint   value_length     negative: null, a tombstone in a compacted topic
    bytes    value
    varint   header_count
    …        headers          per header: varint key_length, UTF-8 key, varint value_length (negative: null), value

Header keys may repeat and keep their order. A key that is not UTF-8 is decoded with Python's `surrogateescape`,
so that writing the record again gives the same bytes.

Records of magic 0 have no timestamp (-1); records of magic 0 and 1 have no headers and no sequence.
"""

from __future__ import annotations

from itertools import repeat

from milepost.codec.buffer import Buffer
from milepost.codec.varint import read_varint, varint_size, write_varint, write_varlong
from milepost.errors import InvalidArgument
from milepost.frozen_dataclass import frozen_dataclass
from milepost.record.kernel import decode_records
from milepost.record.sequence import increment_sequence

# length 5, attributes 1, timestamp_delta 10, offset_delta 5: the most that stands before the key's length.
MAX_RECORD_OVERHEAD = 21

Headers = tuple[tuple[str, bytes | None], ...]


@frozen_dataclass
class Record:
    """A record. One that is not in a log yet has no offset (-1), and may leave its timestamp (-1) to the log."""

    offset: int = -1
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    sequence: int = -1


def header_key_to_bytes(key: str) -> bytes:
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"header key {key!r} has no UTF-8 form: {error.reason} at character {error.start}") from error


def header_key_from_bytes(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def read_records(
    buffer: Buffer,
    start: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    base_sequence: int,
    log_append_time: int | None,
) -> list[Record]:
    """The `count` records that fill `buffer[start:end]`; InvalidRecord when they do not.

    A `log_append_time` overrides the records' own timestamps. Positions in errors count from the start of the buffer.
    """
    columns = decode_records(buffer, start, end, count, base_offset, base_timestamp)
    # Slices of bytes are bytes already; those of anything else go through a view, so that each byte is copied once.
    data = buffer if isinstance(buffer, bytes) else memoryview(buffer)
    timestamps = columns.timestamps if log_append_time is None else repeat(log_append_time)
    return [
        Record(
            offset,
            timestamp,
            None if key_length < 0 else bytes(data[key_start : key_start + key_length]),
            None if value_length < 0 else bytes(data[value_start : value_start + value_length]),
            _read_headers(data, header_start, header_count) if header_count else (),
            -1 if base_sequence < 0 else increment_sequence(base_sequence, offset - base_offset),
        )
        for offset, timestamp, key_start, key_length, value_start, value_length, header_start, header_count in zip(
            columns.offsets,
            timestamps,
            columns.key_start,
            columns.key_length,
            columns.value_start,
            columns.value_length,
            columns.header_start,
            columns.header_count,
            strict=False,  # `repeat` has no end
        )
    ]


def _read_headers(data: Buffer, position: int, count: int) -> Headers:
    """Headers that the kernel has checked already."""
    headers = []
    for _ in range(count):
        length, position = read_varint(data, position)
        key = header_key_from_bytes(bytes(data[position : position + length]))
        length, position = read_varint(data, position + length)
        value = None if length < 0 else bytes(data[position : position + length])
        position += max(length, 0)
        headers.append((key, value))
    return tuple(headers)


def write_record(
    out: bytearray, offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    """Add one record to a records section."""
    before = bytearray(1)
    write_varlong(before, wrap_i64(timestamp_delta))
    write_varint(before, offset_delta)
    _write_sized(before, key)
    write_varint(before, -1 if value is None else len(value))
    behind = bytearray()
    write_varint(behind, len(headers))
    write_headers(behind, headers)
    # The value, which can be large, is copied once.
    value = value or b""
    write_varint(out, len(before) + len(value) + len(behind))
    out += before
    out += value
    out += behind


def write_headers(out: bytearray, headers: Headers) -> None:
    """Add the headers of a record, without their count."""
    for key, value in headers:
        _write_sized(out, header_key_to_bytes(key))
        _write_sized(out, value)


def wrap_i64(number: int) -> int:
    """As 64-bit arithmetic gives it. A delta of two timestamps can need 65 bits; added back with the same wrap it is right."""
    return (number + 2**63) % 2**64 - 2**63


def size_upper_bound(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """The most bytes a v2 record with this content can take, whatever its offset and timestamp."""
    size = MAX_RECORD_OVERHEAD + _sized(key) + _sized(value) + varint_size(len(headers))
    for header_key, header_value in headers:
        size += _sized(header_key_to_bytes(header_key)) + _sized(header_value)
    return size


def _write_sized(out: bytearray, content: bytes | None) -> None:
    if content is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(content))
        out += content


def _sized(content: bytes | None) -> int:
    if content is None:
        return 1
    return varint_size(len(content)) + len(content)

"""Making messages of magic 0 and 1, plain or wrapped (the layout is in `legacy`).

New data is written in magic 2 only. These are for the cleaner, which rewrites a wrapper when some of its messages go, and
for tests that need an old log. A wrapper's offset is that of its last message; its timestamp is the largest of them, or the
time of the append under LogAppendTime. Inner offsets count from the first message (magic 1) or are absolute (magic 0). In
magic 0 lz4 gets the header checksum that its writers have always computed wrongly.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

from milepost.codec.compression import Codec, compress
from milepost.errors import InvalidArgument
from milepost.record.batch import LOG_APPEND_TIME_FLAG, LOG_OVERHEAD, NO_TIMESTAMP, TimestampType
from milepost.record.legacy import LegacyBatch
from milepost.record.records import Record

_LOG_OVERHEAD = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_NULL = _LENGTH.pack(-1)
assert _LOG_OVERHEAD.size == LOG_OVERHEAD


def build_legacy(
    records: Iterable[Record],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
) -> bytes:
    """One message per record, or one wrapper around all of them."""
    records = list(records)
    if magic not in (0, 1):
        raise InvalidArgument(f"magic {magic}: legacy messages have magic 0 or 1")
    if codec == Codec.ZSTD:
        raise InvalidArgument(f"zstd is not allowed in messages of magic {magic}, only in batches of magic 2")
    if not records:
        raise InvalidArgument("a legacy set needs a record")
    if magic == 1 and timestamp_type == TimestampType.LOG_APPEND_TIME and log_append_time < 0:
        raise InvalidArgument(f"LOG_APPEND_TIME needs the time of the append, not {log_append_time}")
    previous = -1
    for record in records:
        if record.offset <= previous:
            raise InvalidArgument(f"offset {record.offset} is not above the previous record's, {previous}")
        if record.headers:
            raise InvalidArgument(f"the record at offset {record.offset} has headers; messages of magic {magic} have none")
        if record.timestamp < NO_TIMESTAMP:
            raise InvalidArgument(f"timestamp {record.timestamp} at offset {record.offset} is negative (-1 means: none)")
        previous = record.offset
    is_log_append_time = magic == 1 and timestamp_type == TimestampType.LOG_APPEND_TIME
    return _set(records, magic, codec, level, log_append_time if is_log_append_time else None)


def rewrite_legacy(batch: LegacyBatch, kept: Sequence[Record]) -> bytes:
    """`batch` with only the `kept` ones of its messages, all in its own magic (which repairs a wrapper of mixed magics)."""
    if not kept:
        raise InvalidArgument(f"{batch.place()}: no message is kept; drop it")
    is_log_append_time = batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    return _set(kept, batch.magic, batch.codec, None, batch.max_timestamp if is_log_append_time else None)


def _set(records: Sequence[Record], magic: int, codec: Codec, level: int | None, log_append_time: int | None) -> bytes:
    flags = 0 if log_append_time is None else LOG_APPEND_TIME_FLAG
    inner_base = records[0].offset if magic == 1 and codec != Codec.NONE else 0
    messages = b"".join(
        _message(
            magic,
            record.offset - inner_base,
            flags,
            record.timestamp if log_append_time is None else log_append_time,
            record.key,
            record.value,
        )
        for record in records
    )
    if codec == Codec.NONE:
        return messages
    timestamp = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    return _message(magic, records[-1].offset, flags | codec, timestamp, None, compress(codec, messages, level, magic=magic))


def _message(magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    content = b"".join(
        (
            bytes((magic, attributes)),
            _TIMESTAMP.pack(timestamp) if magic == 1 else b"",
            _NULL if key is None else _LENGTH.pack(len(key)) + key,
            _NULL if value is None else _LENGTH.pack(len(value)) + value,
        )
    )
    return _LOG_OVERHEAD.pack(offset, _CRC.size + len(content)) + _CRC.pack(zlib.crc32(content)) + content

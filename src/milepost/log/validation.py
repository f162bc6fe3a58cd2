"""What a leader checks and changes in a batch before it becomes part of the log.

Checked: that there is exactly one batch, that its header agrees with itself, that every record parses, has a key where the topic is compacted, and
carries a timestamp within the topic's bounds. Changed: base offset and leader epoch (which the CRC does not cover), under LogAppendTime or a wrong maximum
the timestamp fields (which it does), and, where the topic asks for another codec, everything behind the header.

Old formats (magic 0 and 1) are refused: converting them would change what the producer sent. A follower keeps them as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost.codec.compression import Codec, decompress
from milepost.codec.crc32c import crc32c
from milepost.config.definition import LONG_MAX
from milepost.config.topic import LogConfig
from milepost.errors import InvalidRecord, RecordValidation, UnsupportedForMessageFormat
from milepost.log.producer_entry import AppendOrigin
from milepost.record.batch import (
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
)
from milepost.record.builder import build_batch
from milepost.record.kernel import scan_records

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.log.append_info import Analysis

INVALID_TIMESTAMP = 32
_start_fields = struct.Struct(">q4xi").pack_into  # base offset, (length), leader epoch
_attributes = struct.Struct(">h").pack_into
_max_timestamp = struct.Struct(">q").pack_into
_crc = struct.Struct(">I").pack_into


@dataclass(slots=True)
class Validated:
    """A batch ready to be written: its bytes in pieces, and the view that carries the assigned offsets."""

    batch: RecordBatch
    buffers: Sequence[ReadableBuffer]
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int


def validate(
    analysis: Analysis, offset: int, leader_epoch: int, config: LogConfig, now_ms: int, origin: AppendOrigin, exact_time_offset: bool
) -> Validated:
    """Check the batch and give it its place. `exact_time_offset` asks for the record, not the batch, that brought the largest timestamp."""
    batch = only_batch(analysis)
    if origin is AppendOrigin.CLIENT:
        check_header(batch)
    stamps = config.message_timestamp_type == "LogAppendTime"
    payload: ReadableBuffer = batch.buffer  # type: ignore[assignment]
    start, end = batch.position + HEADER_SIZE, batch.position + batch.size
    source = batch.codec
    if source:
        payload = decompress(source, batch.payload())
        start, end = 0, len(payload)
    largest, newest, smallest, null_key, sequential = scan_records(payload, start, end, batch.record_count, batch.base_timestamp)
    if null_key >= 0 and config.compact and not batch.is_control:
        refuse_records(batch, config, now_ms)
    if not stamps and not times_in_bounds(batch, smallest, largest, config, now_ms):
        refuse_records(batch, config, now_ms)
    if stamps and batch.attributes & LOG_APPEND_TIME_FLAG and origin is AppendOrigin.CLIENT:
        refuse_records(batch, config, now_ms)
    target = target_codec(config, source)
    if target != source and not batch.is_control or source and not sequential:
        return rebuild(batch, offset, leader_epoch, config, target, now_ms if stamps else None)
    if stamps:
        largest = now_ms
    header = bytearray(memoryview(batch.buffer)[batch.position : batch.position + HEADER_SIZE])
    rest = memoryview(batch.buffer)[batch.position + HEADER_SIZE : batch.position + batch.size]
    _start_fields(header, 0, offset, leader_epoch)
    if stamps or largest != batch.max_timestamp:
        stamp(batch, header, rest, largest, stamps)
    batch.base_offset, batch.partition_leader_epoch = offset, leader_epoch
    brought_by = offset + newest if exact_time_offset and not source and not stamps and newest >= 0 else batch.last_offset
    return Validated(batch, (header, rest), batch.size, largest, brought_by, now_ms if stamps else NO_TIMESTAMP)


def only_batch(analysis: Analysis) -> RecordBatch:
    first = analysis.batches[0]
    if not isinstance(first, RecordBatch):
        raise UnsupportedForMessageFormat(
            f"the record set has magic {first.magic}; this log takes magic {MAGIC} only and converts nothing: send it with a newer client"
        )
    if len(analysis.batches) > 1:
        raise InvalidRecord(f"{len(analysis.batches)} batches in one append; a producer sends exactly one")
    return first


def check_header(batch: RecordBatch) -> None:
    """A client's batch must agree with itself."""
    if batch.last_offset_delta < 0 or batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:
        raise InvalidRecord(f"last offset delta {batch.last_offset_delta} and {batch.record_count} records do not fit each other")
    if batch.is_control:
        raise InvalidRecord("a client may not write control batches")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecord(f"producer {batch.producer_id} sent base sequence {batch.base_sequence}; sequences start at 0")


def times_in_bounds(batch: RecordBatch, smallest: int, largest: int, config: LogConfig, now_ms: int) -> bool:
    if smallest <= NO_TIMESTAMP and batch.attributes & LOG_APPEND_TIME_FLAG:
        return False
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return (before == LONG_MAX or now_ms - smallest <= before) and (after == LONG_MAX or largest - now_ms <= after)


def refuse_records(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    """The slow way: look at each record, and raise with a sentence for each that is wrong. Returns when none is."""
    errors, bad_time = [], False
    for index, record in enumerate(batch.records()):
        wrong_time = time_error(record.timestamp, batch, config, now_ms)
        if record.key is None and config.compact and not batch.is_control:
            errors.append((index, "a compacted topic takes no record without a key"))
        elif wrong_time:
            errors.append((index, wrong_time))
            bad_time = True
    if errors:
        raise RecordValidation(
            f"{len(errors)} of {batch.record_count} records were refused; record {errors[0][0]}: {errors[0][1]}",
            errors,
            INVALID_TIMESTAMP if bad_time else InvalidRecord.code,
        )


def time_error(timestamp: int, batch: RecordBatch, config: LogConfig, now_ms: int) -> str:
    if config.message_timestamp_type == "CreateTime" and timestamp != NO_TIMESTAMP:
        before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        if now_ms - timestamp > before:
            return f"timestamp {timestamp} is {now_ms - timestamp} ms old; message.timestamp.before.max.ms is {before}"
        if timestamp - now_ms > after:
            return f"timestamp {timestamp} is {timestamp - now_ms} ms ahead; message.timestamp.after.max.ms is {after}"
        return ""
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        return "the producer marked the batch as LogAppendTime, which only the broker may do"
    return ""


def target_codec(config: LogConfig, source: Codec) -> Codec:
    if config.compression_type == "producer":
        return source
    return Codec.NONE if config.compression_type == "uncompressed" else Codec[config.compression_type.upper()]


def stamp(batch: RecordBatch, header: bytearray, rest: memoryview, max_timestamp: int, is_log_append_time: bool) -> None:
    """Set timestamp type and maximum, which the CRC covers."""
    batch.max_timestamp = max_timestamp
    if is_log_append_time:
        batch.attributes |= LOG_APPEND_TIME_FLAG
    _attributes(header, 21, batch.attributes)
    _max_timestamp(header, 35, max_timestamp)
    batch.crc = crc32c(rest, crc32c(memoryview(header)[CRC_COVERS_FROM:]))
    _crc(header, 17, batch.crc)


def rebuild(batch: RecordBatch, offset: int, leader_epoch: int, config: LogConfig, target: Codec, append_time: int | None) -> Validated:
    """The same records in a new batch: another codec, or offsets counted anew."""
    records = [replace(record, offset=offset + index) for index, record in enumerate(batch.records())]
    data = build_batch(
        records,
        base_offset=offset,
        codec=target,
        level=level_of(config, target),
        timestamp_type=TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME,
        log_append_time=NO_TIMESTAMP if append_time is None else append_time,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        partition_leader_epoch=leader_epoch,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )
    built = RecordBatch(data)
    appended_at = NO_TIMESTAMP if append_time is None else append_time
    return Validated(built, (data,), built.size, built.max_timestamp, built.last_offset, appended_at)


def level_of(config: LogConfig, codec: Codec) -> int | None:
    if codec is Codec.GZIP:
        return config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec is Codec.ZSTD else None

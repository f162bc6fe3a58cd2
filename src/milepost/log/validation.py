"""What a leader checks and changes in a batch before it becomes part of the log.

Checked: that there is exactly one batch, that its header agrees with itself, that every record parses, has a key
where the topic is compacted, and carries a timestamp within the topic's bounds. Changed: base offset and leader epoch
(which the CRC does not cover), under LogAppendTime or a wrong maximum the timestamp fields (which it does), and,
where the topic asks for another codec, everything behind the header.

Old formats (magic 0 and 1) are refused: converting them would change what the producer sent. A follower keeps them as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.codec.compression import DEFAULT_MAX_DECOMPRESSED, Codec, compress, decompress
from milepost.codec.crc32c import crc32c
from milepost.config.definition import LONG_MAX
from milepost.config.topic import LogConfig
from milepost.errors import DecompressedTooLarge, InvalidRecord, MilepostError, RecordValidation, UnsupportedForMessageFormat
from milepost.log.append_info import CLIENT
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from milepost.record.builder import check_producer, pack_batch
from milepost.record.kernel import scan_records
from milepost.record.record_walks import refused_records, renumber_records

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.record.batches import AnyBatch

INVALID_TIMESTAMP = 32
LONG_MIN = -(2**63)
MOST_RECORD_ERRORS = 10
BRIEFLY_COMPRESSED = 16_384
"""Bytes that the slowest level of any codec compresses in a few milliseconds."""
NO_KEY = "a compacted topic takes no record without a key"
MARKED = "the producer marked the batch as LogAppendTime, which only the broker may do"
_base_offset = struct.Struct(">q").pack_into
_leader_epoch = struct.Struct(">i").pack_into
_attributes = struct.Struct(">h").pack_into
_max_timestamp = struct.Struct(">q").pack_into
_crc = struct.Struct(">I").pack_into


class TakesLong(MilepostError):
    """Whoever asked for something quick is told that this is not."""


@dataclass(slots=True)
class Validated:
    """A batch ready to be written: its bytes in pieces, the view that carries the assigned offsets, and what the indexes want to know."""

    batch: RecordBatch
    buffers: Sequence[ReadableBuffer]
    last_offset: int
    size: int
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int


class Validator:
    """The rules of one topic, looked up once: this runs for every batch that is produced."""

    def __init__(self, config: LogConfig, exact_time_offset: bool):
        self.config = config
        self.stamps = config.message_timestamp_type == "LogAppendTime"
        self.is_compacted = config.compact
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.takes_any_time = self.stamps or self.before_max_ms == self.after_max_ms == LONG_MAX
        self.keeps_codec = config.compression_type == "producer"
        # The per-append profile notes the record, not the batch, that brought the largest timestamp.
        self.exact_time_offset = exact_time_offset
        # Nothing to change in a batch but its offset and epoch, no key to look for, nothing to wait for: see `quick_append`.
        self.takes_fast_path = (
            self.keeps_codec and not (self.stamps or self.is_compacted or exact_time_offset) and config.flush_messages == LONG_MAX
        )

    def validate(
        self, batches: Sequence[AnyBatch], offset: int, leader_epoch: int, now_ms: int, origin: AppendOrigin
    ) -> Validated:
        """Check the one batch there is and give it its place."""
        batch, largest, newest, _ = self.examine(only_batch(batches), now_ms, origin, DEFAULT_MAX_DECOMPRESSED)
        return self.place(batch, largest, newest, offset, leader_epoch, now_ms)

    def examine(
        self, batch: RecordBatch, now_ms: int, origin: AppendOrigin, most: int, is_brief: bool = False
    ) -> tuple[RecordBatch, int, int, int]:
        """Check every record of a batch that is decompressed to at most `most` bytes, whatever its place in the log is going to be.

        What is to be stored, which may be another batch; the largest timestamp of its records; which record brought it (-1: it does not
        matter); to how many bytes it was decompressed. Touches nothing but the batch, so any thread may do it. With `is_brief` a batch
        that has to be compressed anew is TakesLong.
        """
        if origin is CLIENT:
            check_header(batch)
        buffer, start, end = batch.buffer, batch.position + HEADER_SIZE, batch.position + batch.size
        is_compressed = batch.attributes & CODEC_MASK
        unpacked = 0
        if is_compressed:
            buffer = decompress(batch.codec, batch.payload(), max_size=most)
            start, end = 0, len(buffer)
            unpacked = end
        largest, newest, smallest, null_key, sequential = scan_records(
            buffer, start, end, batch.record_count, batch.base_timestamp
        )
        any_time = self.takes_any_time and not batch.attributes & LOG_APPEND_TIME_FLAG
        if (null_key >= 0 and self.is_compacted) or not (any_time or self.times_in_bounds(batch, smallest, largest, now_ms)):
            refuse_records(batch, memoryview(buffer)[start:end], self.config, now_ms)
        # Kafka counts anew in compressed batches only. Left as they are, a client's numbers would send readers past the log end.
        if not sequential or (not self.keeps_codec and self.changes_codec(batch)):
            if is_brief and end - start > BRIEFLY_COMPRESSED:
                raise TakesLong(f"{end - start} bytes of records have to be compressed anew")
            if not sequential:
                unpacked *= 2  # there are two of them for a while
                if unpacked > most:
                    raise DecompressedTooLarge(f"{end - start} bytes of records are to be numbered anew; allowed are {most // 2}")
            return rebuild(batch, memoryview(buffer)[start:end], largest, bool(sequential), self.config), largest, -1, unpacked
        return batch, largest, -1 if is_compressed else newest, unpacked

    def place(self, batch: RecordBatch, largest: int, newest: int, offset: int, leader_epoch: int, now_ms: int) -> Validated:
        """Give a batch that was examined its place."""
        stamps = self.stamps
        if stamps:
            largest = now_ms
        start, size = batch.position, batch.size
        view = memoryview(batch.buffer)
        header, rest = bytearray(view[start : start + HEADER_SIZE]), view[start + HEADER_SIZE : start + size]
        _base_offset(header, 0, offset)
        _leader_epoch(header, 12, leader_epoch)
        if stamps or largest != batch.max_timestamp or batch.attributes & LOG_APPEND_TIME_FLAG:
            stamp(batch, header, rest, largest, stamps)
        batch.base_offset, batch.partition_leader_epoch = offset, leader_epoch
        last_offset = offset + batch.last_offset_delta
        brought_by = offset + newest if self.exact_time_offset and not stamps and newest >= 0 else last_offset
        return Validated(batch, (header, rest), last_offset, size, largest, brought_by, now_ms if stamps else NO_TIMESTAMP)

    def changes_codec(self, batch: RecordBatch) -> bool:
        return not batch.is_control and target_codec(self.config, batch.codec) != batch.codec

    def times_in_bounds(self, batch: RecordBatch, smallest: int, largest: int, now_ms: int) -> bool:
        """False sends the batch to a closer look at each record; records without a timestamp are told apart there."""
        if batch.attributes & LOG_APPEND_TIME_FLAG and (self.stamps or smallest <= NO_TIMESTAMP):
            return False
        if self.stamps:
            return True
        return (self.before_max_ms == LONG_MAX or now_ms - smallest <= self.before_max_ms) and (
            self.after_max_ms == LONG_MAX or largest - now_ms <= self.after_max_ms
        )


def only_batch(batches: Sequence[AnyBatch]) -> RecordBatch:
    first = batches[0]
    if not isinstance(first, RecordBatch):
        raise UnsupportedForMessageFormat(
            f"the record set has magic {first.magic}; this log takes magic {MAGIC} only and converts nothing: send it with a newer client"
        )
    if len(batches) > 1:
        raise InvalidRecord(f"{len(batches)} batches in one append; a producer sends exactly one")
    return first


def check_header(batch: RecordBatch) -> None:
    """A client's batch must agree with itself."""
    if batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:
        raise InvalidRecord(f"last offset delta {batch.last_offset_delta} and {batch.record_count} records do not fit each other")
    if batch.attributes & CONTROL_FLAG:
        raise InvalidRecord("a client may not write control batches")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecord(f"producer {batch.producer_id} sent base sequence {batch.base_sequence}; sequences start at 0")


def refuse_records(batch: RecordBatch, records: memoryview, config: LogConfig, now_ms: int) -> None:
    """A closer look: raise with a sentence for each of the first records that are wrong. Returns when none is."""
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    checks_times = config.message_timestamp_type == "CreateTime"
    needs_key = config.compact and not batch.is_control
    base_timestamp, earliest, latest = batch.base_timestamp, LONG_MIN, LONG_MAX
    if checks_times:
        earliest, latest = max(LONG_MIN, now_ms - before), min(LONG_MAX, now_ms + after)
    everywhere = ""
    if batch.attributes & LOG_APPEND_TIME_FLAG:
        # One time for all of them, whatever they say.
        everywhere = (
            time_error(batch.max_timestamp, config, now_ms) if checks_times and batch.max_timestamp != NO_TIMESTAMP else MARKED
        )
        earliest, latest = LONG_MIN, LONG_MAX
    total, is_time_wrong, rows = refused_records(
        records, 0, len(records), batch.record_count, base_timestamp, earliest, latest, needs_key, MOST_RECORD_ERRORS
    )
    errors = [(index, NO_KEY if is_keyless else time_error(timestamp, config, now_ms)) for index, timestamp, is_keyless in rows]
    if everywhere:
        without_key = {index for index, _ in errors}
        errors = [
            (index, NO_KEY if index in without_key else everywhere)
            for index in range(min(batch.record_count, MOST_RECORD_ERRORS))
        ]
        total, is_time_wrong = batch.record_count, total < batch.record_count
    if errors:
        raise RecordValidation(
            f"{total} of {batch.record_count} records were refused; record {errors[0][0]}: {errors[0][1]}",
            errors,
            INVALID_TIMESTAMP if is_time_wrong else InvalidRecord.code,
        )


def time_error(timestamp: int, config: LogConfig, now_ms: int) -> str:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if now_ms - timestamp > before:
        return f"timestamp {timestamp} is {now_ms - timestamp} ms old; message.timestamp.before.max.ms is {before}"
    if timestamp - now_ms > after:
        return f"timestamp {timestamp} is {timestamp - now_ms} ms ahead; message.timestamp.after.max.ms is {after}"
    return ""


def target_codec(config: LogConfig, source: Codec) -> Codec:
    if config.compression_type == "producer":
        return source
    return Codec.NONE if config.compression_type == "uncompressed" else Codec[config.compression_type.upper()]


def stamp(batch: RecordBatch, header: bytearray, rest: memoryview, max_timestamp: int, is_log_append_time: bool) -> None:
    """Set timestamp type and maximum, which the CRC covers."""
    batch.max_timestamp = max_timestamp
    batch.attributes = batch.attributes | LOG_APPEND_TIME_FLAG if is_log_append_time else batch.attributes & ~LOG_APPEND_TIME_FLAG
    _attributes(header, 21, batch.attributes)
    _max_timestamp(header, 35, max_timestamp)
    batch.crc = crc32c(rest, crc32c(memoryview(header)[CRC_COVERS_FROM:]))
    _crc(header, 17, batch.crc)


def rebuild(batch: RecordBatch, records: memoryview, max_timestamp: int, is_sequential: bool, config: LogConfig) -> RecordBatch:
    """The same records in a new batch: another codec, or offsets counted anew. Its place in the log is not in it yet."""
    check_producer(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional, batch.is_control)
    target = batch.codec if batch.is_control else target_codec(config, batch.codec)
    section = records if is_sequential else renumber_records(records, 0, len(records), batch.record_count)
    return RecordBatch(
        pack_batch(
            base_offset=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            attributes=batch.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG) | target,
            last_offset_delta=batch.record_count - 1,
            base_timestamp=batch.base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            record_count=batch.record_count,
            payload=section if target is Codec.NONE else compress(target, section, level_of(config, target)),
        )
    )


def level_of(config: LogConfig, codec: Codec) -> int | None:
    if codec is Codec.GZIP:
        return config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec is Codec.ZSTD else None

"""Making record batches of magic 2: new ones, and what compaction leaves of old ones.

A new batch takes records with rising offsets. Gaps are allowed, also before the first record (`base_offset`) and behind
the last (`last_offset`): they are what compaction makes. base_timestamp is the first record's timestamp, max_timestamp the
largest (never below -1) or, under LogAppendTime, the time of the append. The builder refuses what no producer should
send: timestamps below -1, a producer id without epoch or sequence, a transaction without a producer.

A rewritten batch is not judged like that, since whatever the log holds must survive cleaning. It keeps base offset, last
offset delta, sequences, producer, leader epoch, codec (at its default level), timestamp type and the transactional and
control bits, even when its first or last record is gone. A *delete horizon* takes the place of base_timestamp; the records
keep their timestamps by having their deltas rewritten. An emptied batch is the 61 bytes of its header: no codec,
base_timestamp -1, no horizon.

Not promised: the same compressed bytes as another implementation's encoder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from milepost.codec.buffer import Buffer
from milepost.codec.compression import Codec, compress
from milepost.codec.crc32c import crc32c
from milepost.errors import InvalidArgument
from milepost.record.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    TimestampType,
)
from milepost.record.legacy_builder import build_legacy, rewrite_legacy
from milepost.record.records import Record, size_upper_bound, write_record

__all__ = ["BatchBuilder", "build_batch", "build_legacy", "empty_batch", "rewrite_batch", "rewrite_legacy"]

MAX_OFFSET_DELTA = 2**31 - 1
KNOWN_FLAGS = CODEC_MASK | LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG

_pack_crc = struct.Struct(">I").pack_into


class BatchBuilder:
    """One batch in the making: `append` records while `has_room_for` them, then `build` it, once."""

    def __init__(
        self,
        *,
        base_offset: int | None = None,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
        size_limit: int | None = None,
    ):
        check_producer(producer_id, producer_epoch, base_sequence, is_transactional, is_control)
        check_timestamp_type(timestamp_type, log_append_time)
        if base_offset is not None and base_offset < 0:
            raise InvalidArgument(f"base offset {base_offset} is negative")
        if is_control and codec != Codec.NONE:
            raise InvalidArgument(f"a control batch is never compressed, but codec {codec.name.lower()} was asked for")
        if delete_horizon_ms is not None and delete_horizon_ms < 0:
            raise InvalidArgument(f"delete horizon {delete_horizon_ms} is negative")
        self.base_offset = base_offset
        self.codec = codec
        self.level = level
        self.log_append_time = log_append_time if timestamp_type == TimestampType.LOG_APPEND_TIME else None
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.partition_leader_epoch = partition_leader_epoch
        self.delete_horizon_ms = delete_horizon_ms
        self.size_limit = size_limit
        self.attributes = (
            codec
            | (LOG_APPEND_TIME_FLAG if timestamp_type == TimestampType.LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
            | (DELETE_HORIZON_FLAG if delete_horizon_ms is not None else 0)
        )
        self.record_count = 0
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset = -1
        self._records = bytearray()
        self._is_built = False

    @property
    def estimated_size(self) -> int:
        """Size of the batch if it were built now. What compression will save is not known yet and not counted."""
        return HEADER_SIZE + len(self._records)

    def has_room_for(self, record: Record) -> bool:
        """Whether the batch stays within `size_limit`, by upper bounds. The first record always fits: it must go somewhere."""
        if self._is_built:
            return False
        if self.size_limit is None or self.record_count == 0:
            return True
        return self.estimated_size + size_upper_bound(record.key, record.value, record.headers) <= self.size_limit

    def append(self, record: Record) -> None:
        self._ensure_open()
        offset, timestamp = record.offset, record.timestamp
        if offset <= self._last_offset:
            raise InvalidArgument(f"offset {offset} is not above the previous record's, {self._last_offset}")
        if timestamp < NO_TIMESTAMP:
            raise InvalidArgument(f"timestamp {timestamp} of the record at offset {offset} is negative (-1 means: none)")
        base_offset = offset if self.base_offset is None else self.base_offset
        base_timestamp = timestamp if self._base_timestamp is None else self._base_timestamp
        offset_delta = check_offset_delta(offset, base_offset)
        write_record(self._records, offset_delta, timestamp - base_timestamp, record.key, record.value, record.headers)
        # Only now: a record that was refused leaves no trace.
        self.base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._last_offset = offset
        self.record_count += 1

    def build(self, *, last_offset: int | None = None) -> bytes:
        """The batch. `last_offset` says how far it reaches when that is past its last record."""
        self._ensure_open()
        if self.base_offset is None or self._base_timestamp is None or self.record_count == 0:
            raise InvalidArgument("a batch needs a record (empty_batch makes what compaction keeps of one)")
        if last_offset is None:
            last_offset = self._last_offset
        elif last_offset < self._last_offset:
            raise InvalidArgument(f"last offset {last_offset} is below the last record's, {self._last_offset}")
        self._is_built = True
        return pack_batch(
            base_offset=self.base_offset,
            partition_leader_epoch=self.partition_leader_epoch,
            attributes=self.attributes,
            last_offset_delta=check_offset_delta(last_offset, self.base_offset),
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp if self.log_append_time is None else self.log_append_time,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.record_count,
            payload=compress(self.codec, self._records, self.level),
        )

    def _ensure_open(self) -> None:
        if self._is_built:
            raise InvalidArgument("this batch builder has built its batch; make a new one")


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """One batch of all `records`. Without `base_offset` it starts at the first record."""
    builder = BatchBuilder(
        base_offset=base_offset,
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
        delete_horizon_ms=delete_horizon_ms,
    )
    for record in records:
        builder.append(record)
    return builder.build(last_offset=last_offset)


def empty_batch(batch: RecordBatch) -> bytes:
    """The 61 bytes that keep a producer's last sequence when all its records are gone."""
    return pack_batch(
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes & KNOWN_FLAGS & ~CODEC_MASK,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=0,
        payload=b"",
    )


def rewrite_batch(batch: RecordBatch, kept: Sequence[Record], *, delete_horizon_ms: int | None) -> bytes:
    """`batch` with only the `kept` ones of its records. A horizon of None keeps the one the batch has, if any."""
    if not kept:
        raise InvalidArgument(f"{batch.place()}: no record is kept; use empty_batch, or drop the batch")
    horizon = batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms
    base_timestamp = kept[0].timestamp if horizon is None else horizon
    section = bytearray()
    previous = batch.base_offset - 1
    for record in kept:
        if not previous < record.offset <= batch.last_offset:
            raise InvalidArgument(
                f"{batch.place()}: kept offset {record.offset} is not within {previous + 1}..{batch.last_offset}"
            )
        previous = record.offset
        offset_delta, timestamp_delta = record.offset - batch.base_offset, record.timestamp - base_timestamp
        write_record(section, offset_delta, timestamp_delta, record.key, record.value, record.headers)
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        max_timestamp = batch.max_timestamp
    else:
        max_timestamp = max(NO_TIMESTAMP, max(record.timestamp for record in kept))
    return pack_batch(
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes & KNOWN_FLAGS | (0 if horizon is None else DELETE_HORIZON_FLAG),
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=len(kept),
        payload=compress(batch.codec, section),
    )


def pack_batch(
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    payload: Buffer,
) -> bytes:
    """Header and payload, with length and CRC filled in. Nothing is judged here but that every number fits its field."""
    fields = (
        base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(payload),
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    try:
        header = bytearray(HEADER.pack(*fields))
    except struct.error as error:
        raise InvalidArgument(f"a number does not fit its field of the batch header {fields}: {error}") from error
    _pack_crc(header, CRC_POSITION, crc32c(payload, crc32c(header[CRC_COVERS_FROM:])))
    return b"".join((header, payload))


def check_offset_delta(offset: int, base_offset: int) -> int:
    delta = offset - base_offset
    if not 0 <= delta <= MAX_OFFSET_DELTA:
        raise InvalidArgument(f"offset {offset} is not within 0..{MAX_OFFSET_DELTA} of the batch's base offset {base_offset}")
    return delta


def check_producer(producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool, is_control: bool) -> None:
    if producer_id == NO_PRODUCER_ID:
        if is_transactional:
            raise InvalidArgument("a transactional batch needs a producer id")
        return
    if producer_id < 0 or producer_epoch < 0:
        raise InvalidArgument(f"producer id {producer_id} with epoch {producer_epoch}: both must be at least 0")
    if base_sequence < 0 and not is_control:
        raise InvalidArgument(f"producer id {producer_id} with base sequence {base_sequence}: only control batches have none")


def check_timestamp_type(timestamp_type: TimestampType, log_append_time: int) -> None:
    if timestamp_type == TimestampType.NO_TIMESTAMP_TYPE:
        raise InvalidArgument("a batch of magic 2 has timestamps: give CREATE_TIME or LOG_APPEND_TIME")
    if timestamp_type == TimestampType.LOG_APPEND_TIME and log_append_time < 0:
        raise InvalidArgument(f"LOG_APPEND_TIME needs the time of the append, not {log_append_time}")

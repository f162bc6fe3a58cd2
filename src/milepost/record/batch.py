"""A record batch of magic 2, read where it lies: a view of its 61-byte header, and of its records on request.

    byte  size  field                   meaning
    0     8     base_offset             offset of the first record the batch ever had (compaction may have removed it)
    8     4     batch_length            bytes behind this field: the whole batch is 12 + batch_length
    12    4     partition_leader_epoch  stamped by the leader; not covered by the CRC
    16    1     magic                   2; this byte has the same place in every format
    17    4     crc                     CRC-32C of everything from byte 21 on
    21    2     attributes              see below
    23    4     last_offset_delta       last offset = base_offset + this
    27    8     base_timestamp          the first record's; or the delete horizon; -1 in an empty batch
    35    8     max_timestamp           largest of the records', or the time of the append
    43    8     producer_id             -1: none
    51    2     producer_epoch          -1: none
    53    4     base_sequence           the first record's sequence; -1: none
    57    4     record_count            0 in a batch that compaction emptied and kept for its producer
    61    …     records                 one behind the other, or one compressed stream of them

    attributes: bits 0-2 codec · 3 timestamp type (1: LogAppendTime) · 4 transactional · 5 control
                6 base_timestamp is a delete horizon · the rest unused

Numbers are big-endian and signed (the CRC is not). base_offset and partition_leader_epoch may be changed without a new CRC.

Making a view reads the header, once, and looks at nothing else: not at the CRC, not at the magic, not whether the records
are there. `ensure_valid` checks magic, size and CRC; `records` decompresses and checks the structure of every record. Neither
checks that offset deltas rise or stay below last_offset_delta: that is the leader's job at the append.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from milepost.codec.buffer import Buffer
from milepost.codec.compression import DEFAULT_MAX_DECOMPRESSED, Codec, decompress
from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.record.record_walks import find_record
from milepost.record.records import Record, read_records
from milepost.record.sequence import increment_sequence

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

LOG_OVERHEAD = 12  # offset and size: they stand before every batch and message of any format
HEADER_SIZE_UP_TO_MAGIC = 17
CRC_POSITION = 17
CRC_COVERS_FROM = 21
HEADER_SIZE = 61
MAGIC = 2

HEADER = struct.Struct(">qiibIhiqqqhii")

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

# A tuple instead of Codec(number): a view is asked for its codec once per batch, and the enum's call costs as much as the view.
_CODECS = tuple(Codec)
_unpack_header = HEADER.unpack_from


class TimestampType(IntEnum):
    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordPlace(NamedTuple):
    """Of one record of a batch."""

    offset: int
    timestamp: int


class RecordBatch:
    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0):
        self.buffer = buffer
        self.position = position
        try:
            (
                self.base_offset,
                batch_length,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = _unpack_header(buffer, position)
        except struct.error as error:
            raise CorruptRecord(
                f"batch at position {position}: {len(buffer) - position} bytes are left, a batch header has {HEADER_SIZE}"
            ) from error
        self.size: int = LOG_OVERHEAD + batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and transaction markers of this batch may go; None until compaction first rewrites it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def first_timestamp(self) -> int:
        """The first record's timestamp; -1 where only the records can tell (behind a delete horizon)."""
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return self.max_timestamp
        return NO_TIMESTAMP if self.attributes & DELETE_HORIZON_FLAG else self.base_timestamp

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    def view(self) -> memoryview:
        """The whole batch, not copied."""
        self._ensure_whole()
        return memoryview(self.buffer)[self.position : self.position + self.size]

    def payload(self) -> memoryview:
        """What stands behind the header: the records, or the compressed stream of them."""
        self._ensure_whole()
        return memoryview(self.buffer)[self.position + HEADER_SIZE : self.position + self.size]

    def is_valid(self) -> bool:
        if self.magic != MAGIC or self.size < HEADER_SIZE or self.position + self.size > len(self.buffer):
            return False
        return self._computed_crc() == self.crc

    def ensure_valid(self, where: str = "") -> None:
        """Raise CorruptRecord unless the batch is whole and its CRC is right; `where` names file and position."""
        if self.magic != MAGIC:
            raise CorruptRecord(f"{self.place(where)}: magic {self.magic}, expected {MAGIC}")
        self._ensure_whole(where)
        computed = self._computed_crc()
        if computed != self.crc:
            raise CorruptRecord(
                f"{self.place(where)}: its {self.size} bytes have CRC-32C {computed:#010x}, its header says {self.crc:#010x}"
            )

    def records(self, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED, where: str = "") -> list[Record]:
        """Every record, decompressed if need be. Damage gives InvalidRecord or CorruptRecord, never a part of the records."""
        if self.record_count == 0:
            return []  # without touching what stands behind the header
        if self.record_count < 0:
            raise InvalidRecord(f"{self.place(where)}: record count {self.record_count} is negative")
        self._ensure_whole(where)
        data: Buffer = self.buffer
        start, end = self.position + HEADER_SIZE, self.position + self.size
        try:
            if self.is_compressed:
                data = decompress(self.codec, self.payload(), max_size=max_decompressed)
                start, end = 0, len(data)
            log_append_time = self.max_timestamp if self.attributes & LOG_APPEND_TIME_FLAG else None
            return read_records(
                data, start, end, self.record_count, self.base_offset, self.base_timestamp, self.base_sequence, log_append_time
            )
        except (InvalidRecord, CorruptRecord, UnsupportedCompressionType) as error:
            inside = "" if data is self.buffer else "decompressed records: "
            raise type(error)(f"{self.place(where)}: {inside}{error}") from error

    def first_record(self, timestamp: int, offset: int) -> tuple[RecordPlace | None, int]:
        """The first record that is not older than `timestamp` and not below `offset`, and how many are before it.

        Damage is told as `records` tells it.
        """
        if self.record_count == 0:
            return None, 0
        if self.record_count < 0:
            raise InvalidRecord(f"{self.place()}: record count {self.record_count} is negative")
        self._ensure_whole()
        data: Buffer = self.buffer
        start, end = self.position + HEADER_SIZE, self.position + self.size
        stamped = self.max_timestamp if self.attributes & LOG_APPEND_TIME_FLAG else None
        try:
            if self.is_compressed:
                data = decompress(self.codec, self.payload())
                start, end = 0, len(data)
            # One time for all of them is early enough for all or for none.
            least = timestamp if stamped is None else LONG_MIN if stamped >= timestamp else LONG_MAX
            found = find_record(data, start, end, self.record_count, self.base_timestamp, least, offset - self.base_offset)
        except (InvalidRecord, CorruptRecord, UnsupportedCompressionType) as error:
            inside = "" if data is self.buffer else "decompressed records: "
            raise type(error)(f"{self.place()}: {inside}{error}") from error
        if found is None or (stamped is not None and stamped < timestamp):
            return None, self.record_count
        index, offset_delta, own = found
        return RecordPlace(self.base_offset + offset_delta, own if stamped is None else stamped), index

    def place(self, where: str = "") -> str:
        """How errors name this batch."""
        prefix = f"{where}: " if where else ""
        return f"{prefix}batch at position {self.position} with base offset {self.base_offset}"

    def _computed_crc(self) -> int:
        return crc32c(memoryview(self.buffer)[self.position + CRC_COVERS_FROM : self.position + self.size])

    def _ensure_whole(self, where: str = "") -> None:
        if self.size < HEADER_SIZE:
            raise CorruptRecord(
                f"{self.place(where)}: its length field gives {self.size} bytes in all, a batch header has {HEADER_SIZE}"
            )
        available = len(self.buffer) - self.position
        if self.size > available:
            raise CorruptRecord(f"{self.place(where)}: its length field gives {self.size} bytes in all, {available} are there")

    def __repr__(self) -> str:
        return f"<RecordBatch offsets {self.base_offset}..{self.last_offset}, {self.record_count} records, {self.size} bytes>"


def codec_of(attributes: int) -> Codec:
    number = attributes & CODEC_MASK
    if number >= len(_CODECS):
        raise UnsupportedCompressionType(
            f"compression codec {number} in attributes {attributes:#06x}: known are 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd"
        )
    return _CODECS[number]

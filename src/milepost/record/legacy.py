"""Messages of magic 0 (before Kafka 0.10) and magic 1 (before 0.11), read where they lie.

    byte  size  field         meaning
    0     8     offset        of this message; of the last inner message if it is a wrapper
    8     4     size          bytes behind this field, at least 14 (magic 0) or 22 (magic 1)
    12    4     crc           CRC-32 (zlib's) of everything behind it
    16    1     magic         0 or 1
    17    1     attributes    bits 0-2 codec · bit 3 timestamp type (magic 1; 1: LogAppendTime)
    18    8     timestamp     magic 1 only
    …     4     key_length    negative: null
    …     n     key
    …     4     value_length  negative: null
    …     m     value

There are no batches in these formats: each message stands alone, and a compressed set is one *wrapper* message whose value is
the compressed run of inner messages, each with its own offset, size and CRC. A `LegacyBatch` is one such entry of the
log: a plain message, or a wrapper and what is in it. Where its inner messages lie in the log:

    magic 0   inner offsets are absolute
    magic 1   inner offsets are relative: absolute = wrapper offset - last inner offset + inner offset.
              A wrapper offset of 0 comes from old clients that never set it: then the inner offsets stand as they are

A wrapper of magic 1 under LogAppendTime lends its timestamp to all inner messages. A wrapper of magic 1 around messages of
magic 0 is an old bug; it is read, and compaction repairs it.

A view never decompresses by itself: what only the inner messages know (`base_offset`, `last_offset_delta`) says so. The
surface is that of `RecordBatch`; what these formats lack reads as -1, False or None. Not checked when reading: the CRCs
of inner messages.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from milepost.codec.buffer import Buffer
from milepost.codec.compression import DEFAULT_MAX_DECOMPRESSED, Codec, decompress
from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.record.batch import (
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordPlace,
    TimestampType,
    codec_of,
)
from milepost.record.records import Record

MESSAGE_OVERHEAD_V0 = 14
MESSAGE_OVERHEAD_V1 = 22
MESSAGE_OVERHEAD = (MESSAGE_OVERHEAD_V0, MESSAGE_OVERHEAD_V1)
CRC_COVERS_FROM = 16
KEY_POSITION = (18, 26)  # by magic: where the key's length stands

_unpack_start = struct.Struct(">qiIbb").unpack_from
_unpack_size_and_magic = struct.Struct(">8xi4xb").unpack_from
_unpack_timestamp = struct.Struct(">18xq").unpack_from
_unpack_length = struct.Struct(">i").unpack_from


class LegacyBatch:
    __slots__ = ("attributes", "buffer", "crc", "last_offset", "magic", "max_timestamp", "position", "size")
    last_offset: int
    crc: int
    magic: int
    attributes: int

    # What the formats do not have.
    partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    has_producer_id = False
    is_transactional = False
    is_control = False
    delete_horizon_ms = None

    def __init__(self, buffer: Buffer, position: int = 0):
        self.buffer = buffer
        self.position = position
        self.max_timestamp: int = NO_TIMESTAMP
        try:
            self.last_offset, size, self.crc, self.magic, self.attributes = _unpack_start(buffer, position)
            if self.magic == 1:
                (self.max_timestamp,) = _unpack_timestamp(buffer, position)
        except struct.error as error:
            raise CorruptRecord(
                f"message at position {position}: {len(buffer) - position} bytes are left, the smallest of magic 0 has"
                f" {LOG_OVERHEAD + MESSAGE_OVERHEAD_V0}, of magic 1 {LOG_OVERHEAD + MESSAGE_OVERHEAD_V1}"
            ) from error
        if self.magic not in (0, 1):
            raise CorruptRecord(f"message at position {position}: magic {self.magic}, expected 0 or 1")
        self.size: int = LOG_OVERHEAD + size

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def record_count(self) -> int | None:
        """1 for a plain message; None for a wrapper, which does not say."""
        return None if self.is_compressed else 1

    @property
    def base_offset(self) -> int:
        """The first message's offset. A wrapper is decompressed to find it; walk by `last_offset` where that will do."""
        return self.records()[0].offset if self.is_compressed else self.last_offset

    @property
    def last_offset_delta(self) -> int:
        """last_offset - base_offset; decompresses a wrapper, as `base_offset` does."""
        return self.last_offset - self.base_offset

    @property
    def first_timestamp(self) -> int:
        """-1 where only the inner messages can tell."""
        if self.is_compressed and self.timestamp_type != TimestampType.LOG_APPEND_TIME:
            return NO_TIMESTAMP
        return self.max_timestamp

    @property
    def base_timestamp(self) -> int:
        return self.first_timestamp

    def view(self) -> memoryview:
        """The whole entry, not copied."""
        self._ensure_whole()
        return memoryview(self.buffer)[self.position : self.position + self.size]

    def payload(self) -> memoryview:
        """The message's value, which in a wrapper is the compressed stream; empty if it is null."""
        self._ensure_whole()
        value = self._key_and_value()[1]
        return memoryview(self.buffer)[value or slice(0, 0)]

    def is_valid(self) -> bool:
        if self.size < LOG_OVERHEAD + MESSAGE_OVERHEAD[self.magic] or self.position + self.size > len(self.buffer):
            return False
        return self._computed_crc() == self.crc

    def ensure_valid(self, where: str = "") -> None:
        """Raise CorruptRecord unless the entry is whole and its CRC is right; `where` names file and position."""
        self._ensure_whole(where)
        computed = self._computed_crc()
        if computed != self.crc:
            raise CorruptRecord(
                f"{self.place(where)}: its {self.size} bytes have CRC-32 {computed:#010x}, its header says {self.crc:#010x}"
            )

    def records(self, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED, where: str = "") -> list[Record]:
        """The message, or every inner message of a wrapper."""
        self._ensure_whole(where)
        try:
            if self.is_compressed:
                return self._inner_records(max_decompressed)
            return [self._record(self.last_offset, self.max_timestamp)]
        except (InvalidRecord, CorruptRecord, UnsupportedCompressionType) as error:
            raise type(error)(f"{self.place(where)}: {error}") from error

    def holds_older_messages(self, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED) -> bool:
        """Whether this is a wrapper with inner messages of another magic, which compaction must rewrite."""
        return self.is_compressed and any(inner.magic != self.magic for inner in self._inner_messages(max_decompressed))

    def place(self, where: str = "") -> str:
        """How errors name this entry."""
        prefix = f"{where}: " if where else ""
        return f"{prefix}message at position {self.position} with offset {self.last_offset}"

    def _inner_records(self, max_decompressed: int) -> list[Record]:
        messages = self._inner_messages(max_decompressed)
        shift = 0
        if self.magic == 1 and self.last_offset != 0:
            last_inner_offset = messages[-1].last_offset
            if self.last_offset < last_inner_offset:
                raise InvalidRecord(f"the wrapper's offset is below that of its last inner message, {last_inner_offset}")
            shift = self.last_offset - last_inner_offset
        wrapper_decides = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        return [
            inner._record(
                inner.last_offset + shift, self.max_timestamp if wrapper_decides and inner.magic == 1 else inner.max_timestamp
            )
            for inner in messages
        ]

    def first_record(self, timestamp: int, offset: int) -> tuple[RecordPlace | None, int]:
        """The first record that is not older than `timestamp` and not below `offset`, and how many are before it."""
        records = self.records()
        for index, record in enumerate(records):
            if record.timestamp >= timestamp and record.offset >= offset:
                return RecordPlace(record.offset, record.timestamp), index
        return None, len(records)

    def _inner_messages(self, max_decompressed: int) -> list[LegacyBatch]:
        codec = self.codec
        if codec == Codec.ZSTD:
            raise InvalidRecord(f"zstd in a message of magic {self.magic}; only magic 2 may carry it")
        value = self._key_and_value()[1]
        if value is None:
            raise InvalidRecord(f"a wrapper compressed with {codec.name.lower()} has a null value")
        data = decompress(codec, memoryview(self.buffer)[value], max_size=max_decompressed, magic=self.magic)
        messages = list(_walk(data))
        if not messages:
            raise InvalidRecord(f"the wrapper's {len(data)} decompressed bytes hold no inner message")
        return messages

    def _record(self, offset: int, timestamp: int) -> Record:
        key, value = self._key_and_value()
        buffer = self.buffer
        return Record(offset, timestamp, key and bytes(buffer[key]), value and bytes(buffer[value]))

    def _key_and_value(self) -> tuple[slice | None, slice | None]:
        """Where key and value lie in the buffer. Bytes between value and end of the message belong to nothing, as in Kafka."""
        key, position = self._sized(self.position + KEY_POSITION[self.magic], "key")
        value, _ = self._sized(position, "value")
        return key, value

    def _sized(self, position: int, what: str) -> tuple[slice | None, int]:
        end = self.position + self.size
        start = position + 4
        if start > end:
            raise InvalidRecord(f"the length of the {what} at position {position} lies behind the end of the message, {end}")
        (length,) = _unpack_length(self.buffer, position)
        if length < 0:
            return None, start
        if length > end - start:
            raise InvalidRecord(
                f"the {what} at position {position} has length {length}, the message only {end - start} more bytes"
            )
        return slice(start, start + length), start + length

    def _computed_crc(self) -> int:
        return zlib.crc32(memoryview(self.buffer)[self.position + CRC_COVERS_FROM : self.position + self.size])

    def _ensure_whole(self, where: str = "") -> None:
        smallest = LOG_OVERHEAD + MESSAGE_OVERHEAD[self.magic]
        if self.size < smallest:
            raise CorruptRecord(
                f"{self.place(where)}: its size field gives {self.size} bytes, the smallest of magic {self.magic} has {smallest}"
            )
        available = len(self.buffer) - self.position
        if self.size > available:
            raise CorruptRecord(f"{self.place(where)}: its size field gives {self.size} bytes in all, {available} are there")

    def __repr__(self) -> str:
        kind = "wrapper" if self.is_compressed else "message"
        return f"<LegacyBatch magic {self.magic}, {kind} at offset {self.last_offset}, {self.size} bytes>"


def _walk(data: Buffer) -> Iterator[LegacyBatch]:
    """The messages inside a wrapper. A cut one at the end is left out, as everywhere in these formats."""
    position = 0
    while len(data) - position >= HEADER_SIZE_UP_TO_MAGIC:
        size, magic = _unpack_size_and_magic(data, position)
        if size < MESSAGE_OVERHEAD_V0:
            raise CorruptRecord(f"inner message at byte {position}: size field {size}, the smallest is {MESSAGE_OVERHEAD_V0}")
        if size > len(data) - position - LOG_OVERHEAD:
            return
        if magic not in (0, 1):
            raise InvalidRecord(f"inner message at byte {position}: magic {magic}, expected 0 or 1")
        inner = LegacyBatch(data, position)
        if inner.is_compressed:
            raise InvalidRecord(f"inner message at byte {position} is compressed itself")
        inner._ensure_whole()
        yield inner
        position += inner.size

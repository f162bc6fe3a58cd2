"""What an append is about, before and after it happened.

`analyze` looks at the batches of a record set from outside: sizes, CRCs, order of offsets. It decompresses nothing and changes nothing,
and it runs before the log is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord, InvalidRecord, RecordTooLarge
from milepost.log.producer_entry import AppendOrigin
from milepost.record.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP, RecordBatch
from milepost.record.batches import iter_batches

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.record.batches import AnyBatch


@dataclass(slots=True)
class AppendInfo:
    """The answer to an append. Offsets are -1 when nothing was appended."""

    first_offset: int
    last_offset: int
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max_timestamp: int = -1
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = -1
    leader_epoch: int = -1
    valid_bytes: int = 0
    is_duplicate: bool = False


@dataclass(slots=True)
class Analysis:
    batches: list[AnyBatch]
    valid_bytes: int
    codec: Codec
    is_monotonic: bool


def analyze(data: ReadableBuffer, origin: AppendOrigin, max_message_bytes: int | None, leader_epoch: int | None = None) -> Analysis:
    """Check each batch as it stands. `max_message_bytes` is None for a follower, whose leader has checked the size."""
    if len(data) >= HEADER_SIZE and data[16] == MAGIC:
        # Nearly every produce is one whole batch: no generator for that.
        only = RecordBatch(data)
        if only.size == len(data):
            _check(only, origin, max_message_bytes, leader_epoch)
            return Analysis([only], only.size, only.codec, True)
    batches, valid_bytes, codec, is_monotonic, last_offset = [], 0, Codec.NONE, True, -1
    for batch in iter_batches(data):
        _check(batch, origin, max_message_bytes, leader_epoch)
        is_monotonic = is_monotonic and batch.last_offset > last_offset
        last_offset = batch.last_offset
        valid_bytes += batch.size
        codec = batch.codec or codec
        batches.append(batch)
    return Analysis(batches, valid_bytes, codec, is_monotonic)


def _check(batch: AnyBatch, origin: AppendOrigin, max_message_bytes: int | None, leader_epoch: int | None) -> None:
    if origin is AppendOrigin.RAFT_LEADER and batch.partition_leader_epoch != leader_epoch:
        raise InvalidRecord(f"batch at byte {batch.position} has leader epoch {batch.partition_leader_epoch}, expected {leader_epoch}")
    if origin is AppendOrigin.CLIENT and batch.magic >= MAGIC and batch.base_offset != 0:
        raise InvalidRecord(f"batch at byte {batch.position} has base offset {batch.base_offset}; a client's batch starts at 0")
    if max_message_bytes is not None and batch.size > max_message_bytes:
        raise RecordTooLarge(f"batch at byte {batch.position} has {batch.size} bytes; max.message.bytes is {max_message_bytes}")
    if not batch.is_valid():
        batch.ensure_valid("record set")
        raise CorruptRecord(f"batch at byte {batch.position} is damaged")

"""What an append is about, before and after it happened.

`checked_batches` looks at the batches of a record set from outside: sizes and CRCs. It decompresses nothing and
changes nothing, and it runs before the log is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from milepost.errors import InvalidRecord, RecordTooLarge
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP, RecordBatch
from milepost.record.batches import iter_batches

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.record.batches import AnyBatch


# Looked up once: reading an attribute of an enum class costs more than the comparison it is for.
CLIENT, RAFT_LEADER = AppendOrigin.CLIENT, AppendOrigin.RAFT_LEADER


class AppendInfo(NamedTuple):
    """The answer to an append. Offsets are -1 when nothing was appended. A tuple and not a dataclass: one is made for every batch."""

    first_offset: int
    last_offset: int
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max_timestamp: int = -1
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = -1
    leader_epoch: int = -1
    valid_bytes: int = 0
    is_duplicate: bool = False


def checked_batches(
    data: ReadableBuffer, origin: AppendOrigin, max_message_bytes: int | None, leader_epoch: int | None = None
) -> list[AnyBatch]:
    """The whole batches of a record set, each checked as it stands. `max_message_bytes`: None for a follower, whose leader looked."""
    if len(data) >= HEADER_SIZE and data[16] == MAGIC:
        # Nearly every produce is one whole batch: no generator for that.
        only = RecordBatch(data)
        if only.size == len(data):
            _check(only, origin, max_message_bytes, leader_epoch)
            return [only]
    batches = []
    for batch in iter_batches(data):
        _check(batch, origin, max_message_bytes, leader_epoch)
        batches.append(batch)
    return batches


def _check(batch: AnyBatch, origin: AppendOrigin, max_message_bytes: int | None, leader_epoch: int | None) -> None:
    if origin is CLIENT and batch.magic >= MAGIC and batch.base_offset != 0:
        raise InvalidRecord(f"batch at byte {batch.position} has base offset {batch.base_offset}; a client's batch starts at 0")
    if origin is RAFT_LEADER and batch.partition_leader_epoch != leader_epoch:
        raise InvalidRecord(
            f"batch at byte {batch.position} has leader epoch {batch.partition_leader_epoch}, expected {leader_epoch}"
        )
    if max_message_bytes is not None and batch.size > max_message_bytes:
        raise RecordTooLarge(f"batch at byte {batch.position} has {batch.size} bytes; max.message.bytes is {max_message_bytes}")
    if not batch.is_valid():
        batch.ensure_valid("record set")

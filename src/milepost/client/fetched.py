"""From the bytes of a fetch to the records a reader may see.

A broker answers with whole batches as they lie in its log, the first of which may begin before the offset asked for. So the reader drops
what lies before its offset, the markers that end transactions, and, when it reads committed records only, those of aborted
transactions. Which those are the answer says: a list of (producer, first offset). From its first offset on a producer's transactional
batches are aborted, until its ABORT marker.

Checksums are checked: a batch that was damaged on its way is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from milepost.codec.buffer import Buffer
from milepost.errors import CorruptRecord, InvalidRecord, MalformedMessage, UnsupportedCompressionType
from milepost.record.batches import AnyBatch, iter_batches
from milepost.record.control import ControlType, control_type
from milepost.record.records import Record


@dataclass(frozen=True, slots=True)
class Fetched:
    records: list[Record]
    next_offset: int
    """Where to go on: behind the last whole batch, also when none of its records is shown."""


def read_fetched(
    data: Buffer, offset: int, aborted: Sequence[tuple[int, int]] = (), *, is_committed_only: bool = False, where: str = ""
) -> Fetched:
    """The records from `offset` on; `aborted` holds (producer id, first offset)."""
    waiting = sorted(aborted, key=lambda each: each[1])
    aborting: set[int] = set()
    records: list[Record] = []
    next_offset = offset
    try:
        for batch in iter_batches(data, where=where):
            batch.ensure_valid(where)
            while waiting and waiting[0][1] <= batch.last_offset:
                aborting.add(waiting.pop(0)[0])
            if batch.is_control:
                if batch.producer_id in aborting and is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif not (is_committed_only and batch.is_transactional and batch.producer_id in aborting):
                records += [record for record in batch.records() if record.offset >= offset]
            next_offset = max(next_offset, batch.next_offset)
    except (CorruptRecord, InvalidRecord, UnsupportedCompressionType) as error:
        raise MalformedMessage(f"{where}: {error}" if where and where not in str(error) else str(error)) from error
    return Fetched(records, next_offset)


def is_abort(batch: AnyBatch) -> bool:
    records = list(batch.records())
    return bool(records) and control_type(records[0].key) is ControlType.ABORT

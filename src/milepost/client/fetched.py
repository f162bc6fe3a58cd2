"""From the bytes of a fetch to the records a reader may see.

A broker answers with whole batches as they lie in its log, the first of which may begin before the offset asked for. So the reader drops
what lies before its offset, the markers that end transactions, and, when it reads committed records only, those of aborted
transactions. Which those are the answer says: a list of (producer, first offset). From its first offset on a producer's transactional
batches are aborted, until its ABORT marker.

Checksums are checked: a batch that was damaged, on disk or on its way, is not shown, nor what lies behind it. Reading stops in front of
it, so that the next fetch begins there; one that begins there is an error. The checksum does not cover the offset: one that goes back,
or beyond the end of what the broker has, counts as damage too.
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
    data: Buffer,
    offset: int,
    aborted: Sequence[tuple[int, int]] = (),
    *,
    is_committed_only: bool = False,
    where: str = "",
    end: int = -1,
) -> Fetched:
    """The records from `offset` on; `aborted` holds (producer id, first offset), `end` is the high watermark, if it is known."""
    waiting = sorted(aborted, key=lambda each: each[1])
    aborting: set[int] = set()
    records: list[Record] = []
    next_offset = offset
    try:
        for batch in iter_batches(data, where=where):
            batch.ensure_valid(where)
            goes_back = offset < next_offset > batch.last_offset
            if goes_back or (end > offset and batch.last_offset >= end):
                raise CorruptRecord(
                    f"{batch.place(where)}: its last offset is {batch.last_offset}, where {next_offset} to {end - 1} can come"
                )
            while waiting and waiting[0][1] <= batch.last_offset:
                aborting.add(waiting.pop(0)[0])
            if batch.is_control:
                if batch.producer_id in aborting and is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif not (is_committed_only and batch.is_transactional and batch.producer_id in aborting):
                records += [record for record in batch.records() if record.offset >= offset]
            next_offset = max(next_offset, batch.next_offset)
    except (CorruptRecord, InvalidRecord, UnsupportedCompressionType) as error:
        if next_offset == offset:
            raise MalformedMessage(f"{where}: {error}" if where and where not in str(error) else str(error)) from error
    if next_offset == offset and len(data):
        raise MalformedMessage(f"{where}: {len(data)} bytes, and no whole batch is in them")
    return Fetched(records, next_offset)


def is_abort(batch: AnyBatch) -> bool:
    records = list(batch.records())
    return bool(records) and control_type(records[0].key) is ControlType.ABORT

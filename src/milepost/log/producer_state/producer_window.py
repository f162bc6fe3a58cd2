"""The last five batches of each producer, found again in the tail of the log.

A snapshot holds only the newest batch of a producer. Loaded as it is, a producer that retries an older one of its
five unanswered batches after a restart would be told that it is out of order. The batches are still in the log, so
they are looked up there, newest segments first, until every producer has its five or enough has been read.
"""

from __future__ import annotations

from milepost.log.producer_state.producer_entry import BATCHES_KEPT, BatchMetadata, ProducerEntry
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.log.segments import LogSegments
from milepost.record.batch import RecordBatch
from milepost.record.sequence import increment_sequence
from milepost.segment.segment import Segment

# A producer has at most five requests in flight; what lies further back has long been answered.
MOST_BYTES = 64 << 20


def restore_windows(producers: ProducerStateManager, segments: LogSegments, start_offset: int) -> None:
    wanting = {entry.producer_id: entry for entry in producers.producers.values() if 0 < len(entry.batches) < BATCHES_KEPT}
    found: dict[int, list[BatchMetadata]] = {producer_id: [] for producer_id in wanting}
    budget = MOST_BYTES
    for segment in reversed(list(segments)):
        if not wanting or budget <= 0:
            break
        for producer_id, batches in _batches_in(segment, wanting, start_offset).items():
            found[producer_id] = batches + found[producer_id]
            if len(found[producer_id]) + len(wanting[producer_id].batches) >= BATCHES_KEPT:
                del wanting[producer_id]
        budget -= segment.size
    for producer_id, batches in found.items():
        older = _leading_up_to(producers.producers[producer_id].first_sequence, batches)
        if older:
            producers.restore_batches(producer_id, older)


def _leading_up_to(sequence: int, batches: list[BatchMetadata]) -> list[BatchMetadata]:
    """The last batches, without a gap before `sequence`.

    A producer that was forgotten for a while may have started again at 0 in the same epoch. A batch of its former life in the
    window would make its next batch look like a duplicate, and lose it.
    """
    first = len(batches)
    while first and increment_sequence(batches[first - 1].last_sequence, 1) == sequence:
        first -= 1
        sequence = batches[first].first_sequence
    return batches[first:]


def _batches_in(segment: Segment, wanting: dict[int, ProducerEntry], start_offset: int) -> dict[int, list[BatchMetadata]]:
    found: dict[int, list[BatchMetadata]] = {}
    for batch in segment.log.headers():
        if not isinstance(batch, RecordBatch) or batch.is_control or batch.base_offset < start_offset:
            continue
        entry = wanting.get(batch.producer_id)
        if entry is None or batch.producer_epoch != entry.epoch or batch.last_offset >= entry.batches[0].first_offset:
            continue
        metadata = BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        found.setdefault(batch.producer_id, []).append(metadata)
    return found

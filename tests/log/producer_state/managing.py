"""States of producers, and batches that are written to them."""

from __future__ import annotations

from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.record.batch import RecordBatch

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION


def write(manager: ProducerStateManager, *batches: RecordBatch, origin: AppendOrigin = CLIENT) -> None:
    """Append each batch as the log does."""
    for batch in batches:
        append = manager.prepare_update(batch.producer_id, origin)
        completed = append.append(batch)
        manager.update(append)
        if completed is not None:
            manager.complete_transaction(completed)
        manager.update_map_end_offset(batch.last_offset + 1)

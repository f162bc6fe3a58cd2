"""Batches of producers as the tests of producer state need them: data by sequence and offset, and transaction markers."""

from __future__ import annotations

from milepost.record.batch import RecordBatch
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record

PRODUCER = 1


def data(
    first_offset: int,
    last_offset: int | None = None,
    *,
    sequence: int = 0,
    epoch: int = 0,
    producer_id: int = PRODUCER,
    timestamp: int = 1000,
    transactional: bool = False,
) -> RecordBatch:
    last_offset = first_offset if last_offset is None else last_offset
    records = [Record(offset, timestamp, b"key", b"value") for offset in range(first_offset, last_offset + 1)]
    return RecordBatch(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def marker(
    kind: ControlType,
    offset: int,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    producer_id: int = PRODUCER,
    timestamp: int = 1000,
) -> RecordBatch:
    return RecordBatch(
        end_transaction_batch(
            EndTransactionMarker(kind, coordinator_epoch),
            offset=offset,
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
    )


def commit(offset: int, **fields: int) -> RecordBatch:
    return marker(ControlType.COMMIT, offset, **fields)


def abort(offset: int, **fields: int) -> RecordBatch:
    return marker(ControlType.ABORT, offset, **fields)

"""A transactional id's metadata as a record of `__transaction_state`, and back.

The key is the transactional id, the value its whole state, so the newest record of a key is all there is to know and the topic can be
compacted. Value version 1 is written with `transaction.version` 1 and above, version 0 before (unless it cannot say what there is).

What the log may hold beyond what we write: state PrepareEpochFence, which is read as the abort it announces, and state Dead, read as a
tombstone. Records of other types, versions and states are not ours to understand.

Not kept: `last_producer_epoch`, for which the format has no field. After a restart it is unknown (-1).
"""

from __future__ import annotations

from itertools import groupby

from milepost.coordinator.transactions.transaction import TransactionMetadata
from milepost.record.internal_topics import transaction_state
from milepost.record.internal_topics.transaction_state import (
    PartitionsOfTopic,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from milepost.record.internal_topics.unknown import Unknown
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition

READ_AS = {int(state): state for state in TransactionState} | {
    int(TransactionState.PREPARE_EPOCH_FENCE): TransactionState.PREPARE_ABORT
}


def encode_metadata(metadata: TransactionMetadata, transaction_version: int) -> Record:
    # A new producer id that waits has no field in version 0: it must not get lost.
    is_flexible = transaction_version >= 1 or metadata.rotates
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id if is_flexible else -1,
        next_producer_id=metadata.next_producer_id if is_flexible else -1,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if metadata.state is TransactionState.EMPTY else by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp,
        transaction_start_timestamp_ms=metadata.start_timestamp,
        client_transaction_version=metadata.client_version if is_flexible else 0,
        schema_version=1 if is_flexible else 0,
    )
    return Record(
        timestamp=metadata.last_update_timestamp,
        key=encode_key(metadata.transactional_id),
        value=transaction_state.encode(value),
    )


def encode_tombstone(transactional_id: str, now_ms: int) -> Record:
    return Record(timestamp=now_ms, key=encode_key(transactional_id))


def encode_key(transactional_id: str) -> bytes:
    return transaction_state.encode(TransactionLogKey(transactional_id))


def decode_record(record: Record) -> tuple[str, TransactionMetadata | None] | None:
    """The transactional id and its metadata (None: it is gone), or None for a record that is not ours to understand."""
    key = transaction_state.decode_key(record.key or b"")
    value = transaction_state.decode_value(key, record.value)
    if isinstance(key, Unknown) or isinstance(value, Unknown):
        return None
    if value is None or value.transaction_status == TransactionState.DEAD:
        return key.transactional_id, None
    state = READ_AS.get(value.transaction_status)
    if state is None:
        return None
    return key.transactional_id, TransactionMetadata(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_timestamp=value.transaction_start_timestamp_ms,
        last_update_timestamp=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def by_topic(partitions: frozenset[TopicPartition]) -> tuple[PartitionsOfTopic, ...]:
    ordered = sorted((name.topic, name.partition) for name in partitions)
    return tuple(
        PartitionsOfTopic(topic=topic, partition_ids=tuple(partition for _, partition in group))
        for topic, group in groupby(ordered, key=lambda pair: pair[0])
    )

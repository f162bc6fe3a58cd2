"""Records of `__transaction_state`: one key per transactional id, its value is the state of that id's transaction.

    key, version 0          value, versions 0 and 1 (1 is flexible)
    string transactional_id i64    producer_id
                            i64    previous_producer_id                  tag 0 of version 1; -1 when absent
                            i64    next_producer_id                      tag 1; -1 when absent
                            i16    producer_epoch
                            i16    next_producer_epoch                   tag 3 (4.3); -1 when absent
                            i32    transaction_timeout_ms
                            i8     transaction_status                    `TransactionState`
                            array? transaction_partitions                (string topic, array of i32 partition_ids); null: none
                            i64    transaction_last_update_timestamp_ms
                            i64    transaction_start_timestamp_ms        -1: no transaction is open
                            i16    client_transaction_version            tag 2; 0 when absent

`transaction_partitions` is null in state EMPTY only; in any other state Kafka's readers fail on null, so we do not write it.
Kafka up to 3.9 writes version 0, 4.x with transaction.version 2 writes version 1. A null value removes the transactional id.
Keys and values of versions we do not know are `Unknown`: kept as they are and shown in hex.
"""

from __future__ import annotations

import enum

from milepost.errors import InvalidArgument
from milepost.record.internal_topics.field_types import INT8, INT16, INT32, INT64, STRING, Array, dump_json
from milepost.record.internal_topics.layout import Layout, StructType, Tags, carried, stored
from milepost.record.internal_topics.unknown import Unknown, unknown_unless


class TransactionState(enum.IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


@stored()
class TransactionLogKey:
    transactional_id: str = carried(STRING)
    type: int = 0


@stored(kw_only=True)
class PartitionsOfTopic:
    topic: str = carried(STRING)
    partition_ids: tuple[int, ...] = carried(Array(INT32))
    unknown_tags: Tags = ()


@stored(kw_only=True)
class TransactionLogValue:
    producer_id: int = carried(INT64)
    previous_producer_id: int = carried(INT64, default=-1, since=1, tag=0)
    next_producer_id: int = carried(INT64, default=-1, since=1, tag=1)
    producer_epoch: int = carried(INT16)
    next_producer_epoch: int = carried(INT16, default=-1, since=1, tag=3)
    transaction_timeout_ms: int = carried(INT32)
    transaction_status: int = carried(INT8)
    transaction_partitions: tuple[PartitionsOfTopic, ...] | None = carried(
        Array(StructType(PartitionsOfTopic), nullable=True), default=None
    )
    transaction_last_update_timestamp_ms: int = carried(INT64)
    transaction_start_timestamp_ms: int = carried(INT64, default=-1)
    client_transaction_version: int = carried(INT16, default=0, since=1, tag=2)
    schema_version: int = 0
    unknown_tags: Tags = ()


Key = TransactionLogKey | Unknown
Value = TransactionLogValue | Unknown

KEY = Layout(TransactionLogKey, (0,), version_name="type")
VALUE = Layout(TransactionLogValue, (0, 1), flexible_since=1)


def decode_key(data: bytes) -> Key:
    return unknown_unless(KEY, data)


def decode_value(key: Key, data: bytes | None) -> Value | None:
    """The value under `key`; None for a tombstone."""
    if data is None:
        return None
    if isinstance(key, Unknown):
        return Unknown(data)
    return unknown_unless(VALUE, data)


def encode(record: Key | Value) -> bytes:
    if isinstance(record, Unknown):
        return record.data
    if isinstance(record, TransactionLogKey):
        return KEY.encode(record)
    if record.transaction_partitions is None and record.transaction_status != TransactionState.EMPTY:
        raise InvalidArgument(
            f"transaction_partitions is None in state {state_name(record.transaction_status)}, which Kafka cannot read: give ()"
        )
    return VALUE.encode(record)


def describe_key(key: Key) -> str:
    """The key as Kafka 4's dump tool prints it."""
    if isinstance(key, Unknown):
        return key.describe("type")
    return dump_json({"type": str(key.type), "data": KEY.render(key)})


def describe_value(value: Value | None) -> str:
    """The value as Kafka 4's dump tool prints it."""
    if value is None:
        return "<DELETE>"
    if isinstance(value, Unknown):
        return value.describe("version")
    return dump_json({"version": str(value.schema_version), "data": VALUE.render(value)})


def describe_key_text(key: Key) -> str:
    """The key as Kafka 3's dump tool prints it."""
    return describe_key(key) if isinstance(key, Unknown) else f"transaction_metadata::transactionalId={key.transactional_id}"


def describe_value_text(value: Value | None) -> str:
    """The value as Kafka 3's dump tool prints it, but with partitions in the stored order: the tool's is that of a hash set."""
    if value is None or isinstance(value, Unknown):
        return describe_value(value)
    topics = value.transaction_partitions or ()
    partitions = ",".join(f"{entry.topic}-{partition}" for entry in topics for partition in entry.partition_ids)
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state_name(value.transaction_status)},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def state_name(status: int) -> str:
    try:
        return TransactionState(status).kafka_name
    except ValueError:
        return f"Unknown({status})"

"""Kafka 3.9.1's decoders read the internal-topic records that we encode, and print what our `describe` functions print."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from milepost.record.builder import build_batch
from milepost.record.internal_topics import consumer_offsets, transaction_state
from milepost.record.internal_topics.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from milepost.record.internal_topics.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from milepost.record.internal_topics.transaction_state import (
    PartitionsOfTopic,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
)
from milepost.record.records import Record
from tests.interop.kafka_harness import dump_log_segments

pytestmark = pytest.mark.kafka

LINE = re.compile(r"\| offset: (\d+) .* headerKeys: \[\] key: (.*) payload: (.*)")


def described_by_kafka(directory: Path, pairs: list[tuple[bytes, bytes | None]], decoder: str) -> list[tuple[str, str]]:
    records = [Record(offset, 1700000000000 + offset, key, value) for offset, (key, value) in enumerate(pairs)]
    path = directory / "00000000000000000000.log"
    path.write_bytes(build_batch(records))
    stdout, stderr = dump_log_segments([path], decoder)
    assert stderr == ""
    return [(match[2], match[3]) for match in map(LINE.match, stdout.splitlines()) if match]


def committed(version: int, **others: object) -> OffsetCommitValue:
    fields: dict[str, object] = {"offset": 7, "metadata": 'quote " slash \\ bell \x07 é', "commit_timestamp": 1700000000000}
    return OffsetCommitValue(**fields, **others, schema_version=version)  # type: ignore[arg-type]


def subscription(version: int) -> bytes:
    value = ConsumerProtocolSubscription(
        topics=("t", "ü"),
        user_data=b"\x00\xff",
        owned_partitions=(TopicPartitions("t", (0, 3)),),
        generation_id=4,
        rack_id="r",
        schema_version=version,
    )
    return SUBSCRIPTION.encode(value)


def group(protocol_type: str, subscribed: bytes, version: int = 3) -> GroupMetadataValue:
    assigned = ConsumerProtocolAssignment(assigned_partitions=(TopicPartitions("t", (0, 3)),), user_data=b"", schema_version=0)
    member = MemberMetadata(
        member_id="m-1",
        group_instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=300000 if version >= 1 else 0,
        session_timeout=45000,
        subscription=subscribed,
        assignment=ASSIGNMENT.encode(assigned),
    )
    return GroupMetadataValue(
        protocol_type=protocol_type, generation=3, protocol="range", leader="m-1", members=(member,), schema_version=version
    )


def test_committed_offsets_and_groups(tmp_path: Path) -> None:
    commit, members = OffsetCommitKey("g", "page_visits", 2), GroupMetadataKey("g")
    pairs: list[tuple[consumer_offsets.Key, consumer_offsets.Value | None]] = [
        (OffsetCommitKey("g", "page_visits", 2, type=0), committed(0)),
        (commit, committed(1, expire_timestamp=1700000000500)),
        (commit, committed(2)),
        (commit, committed(3, leader_epoch=5)),
        (commit, committed(4, leader_epoch=5)),
        (commit, None),
        *((members, group("consumer", subscription(3), version)) for version in range(5)),
        *((members, group("consumer", subscription(version))) for version in range(4)),
        (members, group("connect", b"\x00\x01opaque")),
        (members, GroupMetadataValue(protocol_type="consumer", generation=9)),
        (members, None),
    ]
    encoded = [(consumer_offsets.encode(key), None if value is None else consumer_offsets.encode(value)) for key, value in pairs]
    ours = [(consumer_offsets.describe_key(key), consumer_offsets.describe_value(value)) for key, value in pairs]
    assert described_by_kafka(tmp_path, encoded, "--offsets-decoder") == ours


def test_transaction_states(tmp_path: Path) -> None:
    key = TransactionLogKey("tid")
    partitions = {TransactionState.EMPTY: None, TransactionState.ONGOING: (PartitionsOfTopic(topic="t", partition_ids=(3,)),)}
    values = [
        TransactionLogValue(
            producer_id=4000,
            producer_epoch=2,
            transaction_timeout_ms=60000,
            transaction_status=state,
            transaction_partitions=partitions.get(state, ()),
            transaction_last_update_timestamp_ms=1700000000000,
            schema_version=version,
        )
        for state in TransactionState
        for version in (0, 1)
    ]
    encoded_key = transaction_state.encode(key)
    encoded = [(encoded_key, transaction_state.encode(value)) for value in values]
    ours = [(transaction_state.describe_key_text(key), transaction_state.describe_value_text(value)) for value in values]
    tombstone = (transaction_state.describe_key_text(key), transaction_state.describe_value_text(None))
    assert described_by_kafka(tmp_path, [*encoded, (encoded_key, None)], "--transaction-log-decoder") == [*ours, tombstone]


def test_a_topic_id_that_3_9_1_does_not_know_does_not_disturb_it(tmp_path: Path) -> None:
    value = committed(4, topic_id=uuid.UUID(int=1), leader_epoch=5)
    key = OffsetCommitKey("g", "page_visits", 2)
    pair = (consumer_offsets.encode(key), consumer_offsets.encode(value))
    [(_, payload)] = described_by_kafka(tmp_path, [pair], "--offsets-decoder")
    assert payload == consumer_offsets.describe_value(committed(4, leader_epoch=5))

"""`__consumer_offsets` and `__transaction_state`: every record that real Kafka left there decodes, encodes to the same bytes, and
is described in the words of Kafka's dump tool; what is damaged or newer than we know is refused or kept."""

from __future__ import annotations

import re
from dataclasses import replace
from types import ModuleType

import pytest

from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.batches import iter_batches
from milepost.record.internal_topics import consumer_offsets, transaction_state
from milepost.record.internal_topics.classic_records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from milepost.record.internal_topics.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from milepost.record.internal_topics.transaction_state import TransactionLogKey, TransactionLogValue
from milepost.record.internal_topics.unknown import Unknown
from milepost.record.records import Record
from tests.golden_fixture import Golden, all_partitions, kafka_version

INTERNAL = [(case, partition) for case, partition in all_partitions() if partition.startswith("__")]

COMMIT_KEY = OffsetCommitKey("g", "t", 1)
GROUP_KEY = GroupMetadataKey("g")


def module_of(partition: str) -> ModuleType:
    return consumer_offsets if partition.startswith("__consumer_offsets-") else transaction_state


def data_records(golden: Golden, case: str, partition: str) -> list[Record]:
    return [
        record
        for path in sorted(golden.partition(case, partition).glob("*.log"))
        for batch in iter_batches(path.read_bytes())
        if not batch.is_control
        for record in batch.records()
    ]


@pytest.mark.parametrize(("case", "partition"), INTERNAL)
def test_every_golden_record_encodes_to_the_bytes_it_was_decoded_from(golden: Golden, case: str, partition: str) -> None:
    topic = module_of(partition)
    for record in data_records(golden, case, partition):
        key = topic.decode_key(record.key)
        value = topic.decode_value(key, record.value)
        assert topic.encode(key) == record.key
        if value is not None:
            assert not isinstance(value, Unknown)
            assert topic.encode(value) == record.value


LINE = re.compile(r"\| offset: (\d+) .* headerKeys: \[\] key: (.*) payload: (.*)")


@pytest.mark.parametrize(("case", "partition"), [case for case in INTERNAL if kafka_version(case[0]) != "2.4.1"])
def test_every_golden_record_is_described_as_the_dump_tool_described_it(golden: Golden, case: str, partition: str) -> None:
    topic = module_of(partition)
    lines = [LINE.match(line) for line in golden.decoded_text(case, partition).splitlines()]
    expected = [(match[1], match[2], partitions_sorted(match[3])) for match in lines if match]
    described = []
    for record in data_records(golden, case, partition):
        key = topic.decode_key(record.key)
        value = topic.decode_value(key, record.value)
        if topic is transaction_state and kafka_version(case) == "3.9.1":
            text = topic.describe_key_text(key), partitions_sorted(topic.describe_value_text(value))
        else:
            text = topic.describe_key(key), topic.describe_value(value)
        described.append((str(record.offset), *text))
    assert described == expected


def partitions_sorted(text: str) -> str:
    """3.9.1 prints the partitions of a transaction in the order of a hash set."""
    return re.sub(r"partitions=\[(.*?)\]", lambda match: f"partitions=[{','.join(sorted(match[1].split(',')))}]", text)


def test_golden_groups_hold_every_kind_of_key_that_kafka_4_3_writes(golden: Golden) -> None:
    records = [
        record
        for partition in ("__consumer_offsets-0", "__consumer_offsets-1")
        for record in data_records(golden, "groups/kafka-4.3.0", partition)
    ]
    assert {consumer_offsets.decode_key(record.key or b"").type for record in records} == {1, 2, 3, 5, 6, 7, 8}


# Tag 3 is not one of OffsetCommitValue 4's; the metadata holds characters that JSON must escape.
WITH_UNKNOWN_TAG = "0004000000000000002a0000000509011f225c2fc3a97f00000000000000010103020908"


def test_a_tag_of_a_newer_kafka_is_kept_but_not_described() -> None:
    value = consumer_offsets.decode_value(COMMIT_KEY, bytes.fromhex(WITH_UNKNOWN_TAG))
    assert isinstance(value, OffsetCommitValue)
    assert value.unknown_tags == ((3, b"\x09\x08"),)
    assert consumer_offsets.encode(value).hex() == WITH_UNKNOWN_TAG
    escaped = r"\u0001\u001F\"\\/é" + "\x7f"
    assert consumer_offsets.describe_value(value) == (
        '{"version":"4","data":{"offset":42,"leaderEpoch":5,"metadata":"' + escaped + '","commitTimestamp":1}}'
    )


def test_an_unknown_tag_is_written_between_known_ones_in_the_order_of_tags() -> None:
    value = replace(ConsumerGroupMetadataValue(epoch=1, metadata_hash=2), unknown_tags=((7, b"x"),))
    assert consumer_offsets.encode(value).hex() == "0000" + "00000001" + "02" + "0008" + "0000000000000002" + "0701" + "78"


def test_a_member_of_the_new_protocol_has_its_null_classic_metadata_written_out() -> None:
    value = ConsumerGroupMemberMetadataValue(client_id="c", client_host="h")
    assert consumer_offsets.encode(value).hex().endswith("01" + "00" + "01" + "00")
    assert consumer_offsets.decode_value(ConsumerGroupMemberMetadataKey("g", "m"), consumer_offsets.encode(value)) == value


def test_a_member_value_without_the_tag_means_empty_classic_metadata() -> None:
    without_tag = consumer_offsets.encode(ConsumerGroupMemberMetadataValue(client_id="c", client_host="h"))[:-4] + b"\x00"
    value = consumer_offsets.decode_value(ConsumerGroupMemberMetadataKey("g", "m"), without_tag)
    assert isinstance(value, ConsumerGroupMemberMetadataValue)
    assert value.classic_member_metadata == ClassicMemberMetadata()
    assert consumer_offsets.encode(value) == without_tag


def test_a_tombstone_is_none_and_described_as_delete() -> None:
    assert consumer_offsets.decode_value(GROUP_KEY, None) is None
    assert consumer_offsets.describe_value(None) == "<DELETE>"
    assert transaction_state.describe_value(transaction_state.decode_value(TransactionLogKey("tid"), None)) == "<DELETE>"


def test_a_share_group_record_is_unknown_and_keeps_its_bytes() -> None:
    data = bytes.fromhex("000b000167")
    key = consumer_offsets.decode_key(data)
    assert key == Unknown(data)
    assert consumer_offsets.encode(key) == data
    assert consumer_offsets.describe_key(key) == '{"type":"11","data":{"hex":"000167"}}'
    assert consumer_offsets.decode_value(key, b"\x00\x00\x01") == Unknown(b"\x00\x00\x01")


def test_a_value_of_a_later_version_is_unknown_and_keeps_its_bytes() -> None:
    value = consumer_offsets.decode_value(COMMIT_KEY, bytes.fromhex("0005ff"))
    assert value == Unknown(bytes.fromhex("0005ff"))
    assert consumer_offsets.describe_value(value) == '{"version":"5","data":{"hex":"ff"}}'


@pytest.mark.parametrize(
    ("encoded", "sentence"),
    [
        ("00", "1 byte is too few"),
        ("0001", "OffsetCommitKey: 2 bytes are announced at byte 2, but 0 of 2 are left"),
        ("0001000561", "5 bytes are announced at byte 4, but 1 of 5 are left"),
        ("0001fffe", "length -2 before byte 4 is below -1"),
        ("0001ffff", "null before byte 4, where a string must stand"),
        ("0002000167ff", "GroupMetadataKey version 2: 1 of 6 bytes are left over"),
    ],
)
def test_a_damaged_key_is_refused_with_the_place(encoded: str, sentence: str) -> None:
    with pytest.raises(InvalidRecord, match=re.escape(sentence)):
        consumer_offsets.decode_key(bytes.fromhex(encoded))


@pytest.mark.parametrize(
    ("key", "encoded", "sentence"),
    [
        (
            GROUP_KEY,
            "0000000000000002ffffffff" + "7fffffff",
            "2147483647 elements are announced before byte 16, but 0 bytes are left",
        ),
        (
            COMMIT_KEY,
            "0004000000000000002a00000005026d0000018bcfe5680001000f" + "00" * 15,
            "16 bytes are announced at byte 0, but 15 of 15 are left",
        ),
        (
            COMMIT_KEY,
            "0004000000000000002a00000005026d0000018bcfe56800010011" + "00" * 17,
            "tag 0 (topic_id): 1 of its 17 bytes are left over",
        ),
        (COMMIT_KEY, "0004000000000000002a00000005026d0000018bcfe56800ffffffffff", "varint"),
    ],
)
def test_a_damaged_value_is_refused_with_the_place(key: consumer_offsets.Key, encoded: str, sentence: str) -> None:
    with pytest.raises(InvalidRecord, match=re.escape(sentence)):
        consumer_offsets.decode_value(key, bytes.fromhex(encoded))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            OffsetCommitValue(offset=42, commit_timestamp=1, schema_version=9),
            "OffsetCommitValue has versions 0 to 4, not 9: set schema_version to one of them",
        ),
        (OffsetCommitKey("g", "t", 2**31), "2147483648 does not fit 4 bytes"),
        (GroupMetadataKey("g" * 40000), "40000 does not fit 2 bytes"),
        (replace(OffsetCommitValue(offset=42, commit_timestamp=1), metadata=None), "None where a string must stand"),
        (TransactionLogKey("tid"), "TransactionLogKey is no key or value of __consumer_offsets"),
    ],
)
def test_what_has_no_bytes_is_not_encoded(record: consumer_offsets.Key, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(sentence)):
        consumer_offsets.encode(record)


def test_bytes_that_are_not_utf_8_survive_in_a_group_name() -> None:
    data = bytes.fromhex("00020002ff67")
    key = consumer_offsets.decode_key(data)
    assert consumer_offsets.encode(key) == data
    assert consumer_offsets.describe_key(key) == '{"type":"2","data":{"group":"\ufffdg"}}'


def test_transaction_state_text_of_kafka_3_names_the_state() -> None:
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=60000,
        transaction_status=7,
        transaction_last_update_timestamp_ms=5,
    )
    assert transaction_state.describe_value_text(value) == (
        "producerId:1,producerEpoch:0,state=PrepareEpochFence,partitions=[],txnLastUpdateTimestamp=5,txnTimeoutMs=60000"
    )
    assert "state=Unknown(9)," in transaction_state.describe_value_text(replace(value, transaction_status=9))


def test_a_group_metadata_key_with_a_group_in_it_names_that_group() -> None:
    assert consumer_offsets.decode_key(bytes.fromhex("00030003672d63")) == ConsumerGroupMetadataKey("g-c")


def test_a_transaction_under_way_is_not_written_with_null_partitions() -> None:
    value = TransactionLogValue(
        producer_id=1, producer_epoch=0, transaction_timeout_ms=1, transaction_status=4, transaction_last_update_timestamp_ms=5
    )
    with pytest.raises(InvalidArgument, match="transaction_partitions is None in state CompleteCommit"):
        transaction_state.encode(value)

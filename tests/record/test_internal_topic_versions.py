"""Every version of every key and value: the bytes and the text that Kafka 4.3.0's own classes gave for the same fields."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pytest

from milepost.record.internal_topics import consumer_offsets, transaction_state
from milepost.record.internal_topics.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from milepost.record.internal_topics.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    OwnedPartitions,
    PartitionMetadata,
    TopicMetadata,
)
from milepost.record.internal_topics.transaction_state import PartitionsOfTopic, TransactionLogKey, TransactionLogValue

TOPIC_ID = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

GROUP_MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="gi",
    client_id="c",
    client_host="/h",
    rebalance_timeout=6,
    session_timeout=7,
    subscription=b"\x01\x02",
    assignment=b"\x03",
)


@dataclass(frozen=True)
class Sample:
    key: consumer_offsets.Key
    value: consumer_offsets.Value
    hex: str
    data: str


def committed(version: int, **others: object) -> OffsetCommitValue:
    commit = OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1700000000000, schema_version=version)
    return replace(commit, **others)


def group(version: int, member: MemberMetadata = GROUP_MEMBER, timestamp: int = 1700000000000) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="connect",
        generation=2,
        protocol="p",
        leader="l",
        current_state_timestamp=timestamp,
        members=(member,),
        schema_version=version,
    )


COMMIT_KEY = OffsetCommitKey("g", "t", 1)
GROUP_KEY = GroupMetadataKey("g")
MEMBER_JSON = (
    '"clientId":"c","clientHost":"/h","rebalanceTimeout":6,"sessionTimeout":7,"subscription":"AQI=","assignment":"Aw=="}]}'
)
GROUP_JSON = '{"protocolType":"connect","generation":2,"protocol":"p","leader":"l",'

SAMPLES = [
    Sample(
        replace(COMMIT_KEY, type=0),
        committed(0),
        "0000000000000000002a00016d0000018bcfe56800",
        '{"offset":42,"metadata":"m","commitTimestamp":1700000000000}',
    ),
    Sample(
        COMMIT_KEY,
        committed(1, expire_timestamp=1700000000500),
        "0001000000000000002a00016d0000018bcfe568000000018bcfe569f4",
        '{"offset":42,"metadata":"m","commitTimestamp":1700000000000,"expireTimestamp":1700000000500}',
    ),
    Sample(
        COMMIT_KEY,
        committed(2),
        "0002000000000000002a00016d0000018bcfe56800",
        '{"offset":42,"metadata":"m","commitTimestamp":1700000000000}',
    ),
    Sample(
        COMMIT_KEY,
        committed(3, leader_epoch=5),
        "0003000000000000002a0000000500016d0000018bcfe56800",
        '{"offset":42,"leaderEpoch":5,"metadata":"m","commitTimestamp":1700000000000}',
    ),
    Sample(
        COMMIT_KEY,
        committed(4, leader_epoch=5, topic_id=TOPIC_ID),
        "0004000000000000002a00000005026d0000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
        '{"offset":42,"leaderEpoch":5,"metadata":"m","commitTimestamp":1700000000000,"topicId":"AQIDBAUGBwgJCgsMDQ4PEA"}',
    ),
    Sample(
        GROUP_KEY,
        group(0, replace(GROUP_MEMBER, group_instance_id=None, rebalance_timeout=0), timestamp=-1),
        "00000007636f6e6e6563740000000200017000016c0000000100016d00016300022f68000000070000000201020000000103",
        GROUP_JSON + '"members":[{"memberId":"m",' + MEMBER_JSON.replace('"rebalanceTimeout":6,', ""),
    ),
    Sample(
        GROUP_KEY,
        group(1, replace(GROUP_MEMBER, group_instance_id=None), timestamp=-1),
        "00010007636f6e6e6563740000000200017000016c0000000100016d00016300022f6800000006000000070000000201020000000103",
        GROUP_JSON + '"members":[{"memberId":"m",' + MEMBER_JSON,
    ),
    Sample(
        GROUP_KEY,
        group(2, replace(GROUP_MEMBER, group_instance_id=None)),
        "00020007636f6e6e6563740000000200017000016c0000018bcfe568000000000100016d00016300022f6800000006000000070000000201020000000103",
        GROUP_JSON + '"currentStateTimestamp":1700000000000,"members":[{"memberId":"m",' + MEMBER_JSON,
    ),
    Sample(
        GROUP_KEY,
        group(3),
        "00030007636f6e6e6563740000000200017000016c0000018bcfe568000000000100016d0002676900016300022f6800000006000000070000000201020000000103",
        GROUP_JSON + '"currentStateTimestamp":1700000000000,"members":[{"memberId":"m","groupInstanceId":"gi",' + MEMBER_JSON,
    ),
    Sample(
        GROUP_KEY,
        group(4),
        "000408636f6e6e656374000000020270026c0000018bcfe5680002026d0367690263032f68000000060000000703010202030000",
        GROUP_JSON + '"currentStateTimestamp":1700000000000,"members":[{"memberId":"m","groupInstanceId":"gi",' + MEMBER_JSON,
    ),
    Sample(
        ConsumerGroupPartitionMetadataKey("g"),
        ConsumerGroupPartitionMetadataValue(
            topics=(
                TopicMetadata(
                    topic_id=TOPIC_ID,
                    topic_name="x",
                    num_partitions=3,
                    partition_metadata=(PartitionMetadata(partition=1, racks=("r1", "r2")),),
                ),
            )
        ),
        "0000020102030405060708090a0b0c0d0e0f10027800000003020000000103037231037232000000",
        '{"topics":[{"topicId":"AQIDBAUGBwgJCgsMDQ4PEA","topicName":"x","numPartitions":3,'
        '"partitionMetadata":[{"partition":1,"racks":["r1","r2"]}]}]}',
    ),
    Sample(
        ConsumerGroupMemberMetadataKey("g", "m"),
        ConsumerGroupMemberMetadataValue(
            instance_id="i",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("x", "y"),
            subscribed_topic_regex="p.*",
            rebalance_timeout_ms=5,
            server_assignor="uniform",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=0, supported_protocols=(ClassicProtocol(name="range", metadata=b"\x01\x02"),)
            ),
        ),
        "00000269000263032f68030278027904702e2a0000000508756e69666f726d0100110100000000020672616e67650301020000",
        '{"instanceId":"i","rackId":null,"clientId":"c","clientHost":"/h","subscribedTopicNames":["x","y"],"subscribedTopicRegex":"p.*",'
        '"rebalanceTimeoutMs":5,"serverAssignor":"uniform","classicMemberMetadata":{"sessionTimeoutMs":0,'
        '"supportedProtocols":[{"name":"range","metadata":"AQI="}]}}',
    ),
    Sample(
        ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=3,
            previous_member_epoch=2,
            state=1,
            assigned_partitions=(OwnedPartitions(topic_id=TOPIC_ID, partitions=(0, 2), assignment_epochs=(1, 3)),),
            partitions_pending_revocation=(OwnedPartitions(topic_id=TOPIC_ID, partitions=(7,)),),
        ),
        "0000000000030000000201020102030405060708090a0b0c0d0e0f1003000000000000000201000903000000010000000302"
        "0102030405060708090a0b0c0d0e0f1002000000070000",
        '{"memberEpoch":3,"previousMemberEpoch":2,"state":1,"assignedPartitions":[{"topicId":"AQIDBAUGBwgJCgsMDQ4PEA",'
        '"partitions":[0,2],"assignmentEpochs":[1,3]}],"partitionsPendingRevocation":[{"topicId":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":[7]}]}',
    ),
    Sample(
        ConsumerGroupRegularExpressionKey("g", "p.*"),
        ConsumerGroupRegularExpressionValue(topics=("a", "b"), version=9, timestamp=10),
        "000003026102620000000000000009000000000000000a00",
        '{"topics":["a","b"],"version":9,"timestamp":10}',
    ),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{type(sample.value).__name__}-{sample.value.schema_version}")
def test_every_version_of_a_value_has_kafkas_bytes_and_text(sample: Sample) -> None:
    assert consumer_offsets.encode(sample.value).hex() == sample.hex
    assert consumer_offsets.decode_value(sample.key, bytes.fromhex(sample.hex)) == sample.value
    assert consumer_offsets.describe_value(sample.value) == f'{{"version":"{sample.value.schema_version}","data":{sample.data}}}'


@pytest.mark.parametrize(
    ("key", "encoded", "described"),
    [
        (
            OffsetCommitKey("g", "t", 1, type=0),
            "0000000167000174" + "00000001",
            '{"type":"0","data":{"group":"g","topic":"t","partition":1}}',
        ),
        (
            OffsetCommitKey("g", "t", 1),
            "0001000167000174" + "00000001",
            '{"type":"1","data":{"group":"g","topic":"t","partition":1}}',
        ),
        (GroupMetadataKey("g"), "0002000167", '{"type":"2","data":{"group":"g"}}'),
        (ConsumerGroupPartitionMetadataKey("g"), "0004000167", '{"type":"4","data":{"groupId":"g"}}'),
        (ConsumerGroupMemberMetadataKey("g", "m"), "000500016700016d", '{"type":"5","data":{"groupId":"g","memberId":"m"}}'),
        (
            ConsumerGroupRegularExpressionKey("g", "p.*"),
            "001000016700" + "03702e2a",
            '{"type":"16","data":{"groupId":"g","regularExpression":"p.*"}}',
        ),
    ],
)
def test_a_key_starts_with_its_type(key: consumer_offsets.Key, encoded: str, described: str) -> None:
    assert consumer_offsets.encode(key).hex() == encoded
    assert consumer_offsets.decode_key(bytes.fromhex(encoded)) == key
    assert consumer_offsets.describe_key(key) == described


@pytest.mark.parametrize(
    ("value", "encoded", "described"),
    [
        (
            TransactionLogValue(
                producer_id=4000,
                producer_epoch=2,
                transaction_timeout_ms=60000,
                transaction_status=1,
                transaction_partitions=(PartitionsOfTopic(topic="x", partition_ids=(0, 2)),),
                transaction_last_update_timestamp_ms=1700000000000,
                transaction_start_timestamp_ms=1699999999999,
            ),
            "00000000000000000fa000020000ea6001000000010001780000000200000000000000020000018bcfe568000000018bcfe567ff",
            '{"version":"0","data":{"producerId":4000,"producerEpoch":2,"transactionTimeoutMs":60000,"transactionStatus":1,'
            '"transactionPartitions":[{"topic":"x","partitionIds":[0,2]}],"transactionLastUpdateTimestampMs":1700000000000,'
            '"transactionStartTimestampMs":1699999999999}}',
        ),
        (
            TransactionLogValue(
                producer_id=4000,
                previous_producer_id=3999,
                next_producer_id=4001,
                producer_epoch=2,
                transaction_timeout_ms=60000,
                transaction_status=1,
                transaction_partitions=(PartitionsOfTopic(topic="x", partition_ids=(0, 2)),),
                transaction_last_update_timestamp_ms=1700000000000,
                transaction_start_timestamp_ms=1699999999999,
                client_transaction_version=2,
                schema_version=1,
            ),
            "00010000000000000fa000020000ea6001020278030000000000000002000000018bcfe568000000018bcfe567ff"
            "0300080000000000000f9f01080000000000000fa102020002",
            '{"version":"1","data":{"producerId":4000,"previousProducerId":3999,"nextProducerId":4001,"producerEpoch":2,'
            '"transactionTimeoutMs":60000,"transactionStatus":1,"transactionPartitions":[{"topic":"x","partitionIds":[0,2]}],'
            '"transactionLastUpdateTimestampMs":1700000000000,"transactionStartTimestampMs":1699999999999,"clientTransactionVersion":2}}',
        ),
        (
            TransactionLogValue(
                producer_id=0,
                producer_epoch=0,
                next_producer_epoch=7,
                transaction_timeout_ms=0,
                transaction_status=0,
                transaction_partitions=(),
                transaction_last_update_timestamp_ms=0,
                transaction_start_timestamp_ms=0,
                schema_version=1,
            ),
            "000100000000000000000000000000000001000000000000000000000000000000000103020007",
            '{"version":"1","data":{"producerId":0,"producerEpoch":0,"nextProducerEpoch":7,"transactionTimeoutMs":0,"transactionStatus":0,'
            '"transactionPartitions":[],"transactionLastUpdateTimestampMs":0,"transactionStartTimestampMs":0}}',
        ),
    ],
)
def test_transaction_values_of_both_versions_have_kafkas_bytes_and_text(
    value: TransactionLogValue, encoded: str, described: str
) -> None:
    assert transaction_state.encode(value).hex() == encoded
    assert transaction_state.decode_value(TransactionLogKey("tid"), bytes.fromhex(encoded)) == value
    assert transaction_state.describe_value(value) == described


def member_of(protocol_type: str, subscription: str, assignment: str) -> str:
    member = replace(GROUP_MEMBER, subscription=bytes.fromhex(subscription), assignment=bytes.fromhex(assignment))
    text = consumer_offsets.describe_value(replace(group(3, member), protocol_type=protocol_type))
    return text[text.index('"subscription"') : text.rindex("}]}}")]


def test_a_consumers_subscription_is_described_with_the_fields_of_its_version() -> None:
    topics, none = "00000001" + "000174", "ffffffff"
    owned = "00000001" + "000174" + "00000002" + "00000000" + "00000001"
    assigned = '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[0,1]}],"userData":null}'
    assignment = "0000" + owned + none
    assert (
        member_of("consumer", "0000" + topics + none, assignment) == '"subscription":{"topics":["t"],"userData":null},' + assigned
    )
    assert member_of("consumer", "0001" + topics + none + owned, assignment) == (
        '"subscription":{"topics":["t"],"userData":null,"ownedPartitions":[{"topic":"t","partitions":[0,1]}]},' + assigned
    )
    assert member_of("consumer", "0003" + topics + "0000000101" + "00000000" + "00000005" + "000172", assignment) == (
        '"subscription":{"topics":["t"],"userData":"AQ==","ownedPartitions":[],"generationId":5,"rackId":"r"},' + assigned
    )


def test_a_subscription_newer_than_we_know_is_read_as_the_newest_known() -> None:
    subscription = "0009" + "00000000" + "ffffffff" + "00000000" + "ffffffff" + "ffff" + "beef"
    assert member_of("consumer", subscription, "00000000" + "0000ffffffff").startswith(
        '"subscription":{"topics":[],"userData":null,"ownedPartitions":[],"generationId":-1,"rackId":null}'
    )


def test_a_subscription_that_does_not_parse_is_described_as_bytes() -> None:
    assert member_of("consumer", "00", "01") == '"subscription":"AA==","assignment":"AQ=="'

"""Records of `__consumer_offsets` that groups of the consumer protocol (KIP-848, Kafka 3.7 and newer) leave there.

    key type  key fields                    value (ConsumerGroup…)
    3         group_id                      MetadataValue: i32 epoch; tag 0: i64 metadata_hash (4.1+)
    4         group_id                      PartitionMetadataValue: array topics (only 3.7 to 4.0 write it)
    5         group_id, member_id           MemberMetadataValue: who the member is and what it subscribes to
    6         group_id                      TargetAssignmentMetadataValue: i32 assignment_epoch; tag 0 (4.3+): i64 its time
    7         group_id, member_id           TargetAssignmentMemberValue: array of (uuid topic_id, array of i32 partitions)
    8         group_id, member_id           CurrentMemberAssignmentValue: epochs, i8 state, assigned and pending partitions
    16        group_id, regular_expression  RegularExpressionValue: array topics, i64 version, i64 timestamp

The fields of each, in the order of their bytes, stand in `VALUES`. All values have the one version 0, which is flexible; keys
never are.

`classic_member_metadata` is null for a member of the new protocol, and null is written out (tag 0, one byte 0): a missing tag
means an empty struct. In the same way `assignment_epochs` is left out when empty, not when null.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from milepost.record.internal_topics.field_types import (
    BYTES,
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    Array,
    NullableStruct,
)
from milepost.record.internal_topics.layout import Field, Layout, StructType, Tags


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey:
    group_id: str
    type: int = 3


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey:
    group_id: str
    type: int = 4


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey:
    group_id: str
    member_id: str
    type: int = 5


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str
    type: int = 6


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str
    type: int = 7


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str
    type: int = 8


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey:
    group_id: str
    regular_expression: str
    type: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0
    schema_version: int = 0
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    partition: int
    racks: tuple[str, ...]
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    topic_id: uuid.UUID
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionMetadata, ...] = ()
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    topics: tuple[TopicMetadata, ...]
    schema_version: int = 0
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: str
    metadata: bytes
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    session_timeout_ms: int = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None
    schema_version: int = 0
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp: int = 0
    schema_version: int = 0
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPartitions:
    topic_id: uuid.UUID
    partitions: tuple[int, ...]
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TargetPartitions, ...] = ()
    schema_version: int = 0
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartitions:
    topic_id: uuid.UUID
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = ()
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int = 0
    assigned_partitions: tuple[OwnedPartitions, ...] = ()
    partitions_pending_revocation: tuple[OwnedPartitions, ...] = ()
    schema_version: int = 0
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    topics: tuple[str, ...]
    version: int
    timestamp: int
    schema_version: int = 0
    unknown_tags: Tags = ()


GROUP_ID, MEMBER_ID = Field("group_id", STRING), Field("member_id", STRING)

KEYS: tuple[Layout[Any], ...] = (
    Layout(ConsumerGroupMetadataKey, (3,), GROUP_ID, version_name="type"),
    Layout(ConsumerGroupPartitionMetadataKey, (4,), GROUP_ID, version_name="type"),
    Layout(ConsumerGroupMemberMetadataKey, (5,), GROUP_ID, MEMBER_ID, version_name="type"),
    Layout(ConsumerGroupTargetAssignmentMetadataKey, (6,), GROUP_ID, version_name="type"),
    Layout(ConsumerGroupTargetAssignmentMemberKey, (7,), GROUP_ID, MEMBER_ID, version_name="type"),
    Layout(ConsumerGroupCurrentMemberAssignmentKey, (8,), GROUP_ID, MEMBER_ID, version_name="type"),
    Layout(ConsumerGroupRegularExpressionKey, (16,), GROUP_ID, Field("regular_expression", STRING), version_name="type"),
)

PARTITION_METADATA = StructType(PartitionMetadata, Field("partition", INT32), Field("racks", Array(STRING)))

TOPIC_METADATA = StructType(
    TopicMetadata,
    Field("topic_id", UUID),
    Field("topic_name", STRING),
    Field("num_partitions", INT32),
    Field("partition_metadata", Array(PARTITION_METADATA)),
)

CLASSIC_PROTOCOL = StructType(ClassicProtocol, Field("name", STRING), Field("metadata", BYTES))

CLASSIC_MEMBER_METADATA = StructType(
    ClassicMemberMetadata, Field("session_timeout_ms", INT32), Field("supported_protocols", Array(CLASSIC_PROTOCOL))
)

TARGET_PARTITIONS = StructType(TargetPartitions, Field("topic_id", UUID), Field("partitions", Array(INT32)))

OWNED_PARTITIONS = StructType(
    OwnedPartitions,
    Field("topic_id", UUID),
    Field("partitions", Array(INT32)),
    Field("assignment_epochs", Array(INT32, nullable=True), tag=0, absent=()),
)

VALUES: tuple[Layout[Any], ...] = (
    Layout(
        ConsumerGroupMetadataValue, (0,), Field("epoch", INT32), Field("metadata_hash", INT64, tag=0, absent=0), flexible_since=0
    ),
    Layout(ConsumerGroupPartitionMetadataValue, (0,), Field("topics", Array(TOPIC_METADATA)), flexible_since=0),
    Layout(
        ConsumerGroupMemberMetadataValue,
        (0,),
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("subscribed_topic_names", Array(STRING)),
        Field("subscribed_topic_regex", NULLABLE_STRING),
        Field("rebalance_timeout_ms", INT32),
        Field("server_assignor", NULLABLE_STRING),
        Field("classic_member_metadata", NullableStruct(CLASSIC_MEMBER_METADATA), tag=0, absent=ClassicMemberMetadata()),
        flexible_since=0,
    ),
    Layout(
        ConsumerGroupTargetAssignmentMetadataValue,
        (0,),
        Field("assignment_epoch", INT32),
        Field("assignment_timestamp", INT64, tag=0, absent=0),
        flexible_since=0,
    ),
    Layout(ConsumerGroupTargetAssignmentMemberValue, (0,), Field("topic_partitions", Array(TARGET_PARTITIONS)), flexible_since=0),
    Layout(
        ConsumerGroupCurrentMemberAssignmentValue,
        (0,),
        Field("member_epoch", INT32),
        Field("previous_member_epoch", INT32),
        Field("state", INT8),
        Field("assigned_partitions", Array(OWNED_PARTITIONS)),
        Field("partitions_pending_revocation", Array(OWNED_PARTITIONS)),
        flexible_since=0,
    ),
    Layout(
        ConsumerGroupRegularExpressionValue,
        (0,),
        Field("topics", Array(STRING)),
        Field("version", INT64),
        Field("timestamp", INT64),
        flexible_since=0,
    ),
)

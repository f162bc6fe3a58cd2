"""Records of `__consumer_offsets` that groups of the consumer protocol (KIP-848, Kafka 3.7 and newer) leave there.

    key type  key fields                    value (ConsumerGroup…)
    3         group_id                      MetadataValue: i32 epoch; tag 0: i64 metadata_hash (4.1+)
    4         group_id                      PartitionMetadataValue: array topics (only 3.7 to 4.0 write it)
    5         group_id, member_id           MemberMetadataValue: who the member is and what it subscribes to
    6         group_id                      TargetAssignmentMetadataValue: i32 assignment_epoch; tag 0 (4.3+): i64 its time
    7         group_id, member_id           TargetAssignmentMemberValue: array of (uuid topic_id, array of i32 partitions)
    8         group_id, member_id           CurrentMemberAssignmentValue: epochs, i8 state, assigned and pending partitions
    16        group_id, regular_expression  RegularExpressionValue: array topics, i64 version, i64 timestamp

All values have the one version 0, which is flexible; keys never are.

`classic_member_metadata` is null for a member of the new protocol, and null is written out (tag 0, one byte 0): a missing tag
means an empty struct. In the same way `assignment_epochs` is left out when empty, not when null.
"""

from __future__ import annotations

import uuid
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
from milepost.record.internal_topics.layout import Layout, StructType, Tags, carried, stored


@stored()
class ConsumerGroupMetadataKey:
    group_id: str = carried(STRING)
    type: int = 3


@stored()
class ConsumerGroupPartitionMetadataKey:
    group_id: str = carried(STRING)
    type: int = 4


@stored()
class ConsumerGroupMemberMetadataKey:
    group_id: str = carried(STRING)
    member_id: str = carried(STRING)
    type: int = 5


@stored()
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = carried(STRING)
    type: int = 6


@stored()
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = carried(STRING)
    member_id: str = carried(STRING)
    type: int = 7


@stored()
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = carried(STRING)
    member_id: str = carried(STRING)
    type: int = 8


@stored()
class ConsumerGroupRegularExpressionKey:
    group_id: str = carried(STRING)
    regular_expression: str = carried(STRING)
    type: int = 16


@stored(kw_only=True)
class ConsumerGroupMetadataValue:
    epoch: int = carried(INT32)
    metadata_hash: int = carried(INT64, default=0, tag=0)
    schema_version: int = 0
    unknown_tags: Tags = ()


@stored(kw_only=True)
class PartitionMetadata:
    partition: int = carried(INT32)
    racks: tuple[str, ...] = carried(Array(STRING))
    unknown_tags: Tags = ()


@stored(kw_only=True)
class TopicMetadata:
    topic_id: uuid.UUID = carried(UUID)
    topic_name: str = carried(STRING)
    num_partitions: int = carried(INT32)
    partition_metadata: tuple[PartitionMetadata, ...] = carried(Array(StructType(PartitionMetadata)), default=())
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    topics: tuple[TopicMetadata, ...] = carried(Array(StructType(TopicMetadata)))
    schema_version: int = 0
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ClassicProtocol:
    name: str = carried(STRING)
    metadata: bytes = carried(BYTES)
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ClassicMemberMetadata:
    session_timeout_ms: int = carried(INT32, default=0)
    supported_protocols: tuple[ClassicProtocol, ...] = carried(Array(StructType(ClassicProtocol)), default=())
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = carried(NULLABLE_STRING, default=None)
    rack_id: str | None = carried(NULLABLE_STRING, default=None)
    client_id: str = carried(STRING)
    client_host: str = carried(STRING)
    subscribed_topic_names: tuple[str, ...] = carried(Array(STRING), default=())
    subscribed_topic_regex: str | None = carried(NULLABLE_STRING, default=None)
    rebalance_timeout_ms: int = carried(INT32, default=-1)
    server_assignor: str | None = carried(NULLABLE_STRING, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = carried(
        NullableStruct(StructType(ClassicMemberMetadata)), default=None, tag=0, absent=ClassicMemberMetadata()
    )
    schema_version: int = 0
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = carried(INT32)
    assignment_timestamp: int = carried(INT64, default=0, tag=0)
    schema_version: int = 0
    unknown_tags: Tags = ()


@stored(kw_only=True)
class TargetPartitions:
    topic_id: uuid.UUID = carried(UUID)
    partitions: tuple[int, ...] = carried(Array(INT32))
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TargetPartitions, ...] = carried(Array(StructType(TargetPartitions)), default=())
    schema_version: int = 0
    unknown_tags: Tags = ()


@stored(kw_only=True)
class OwnedPartitions:
    topic_id: uuid.UUID = carried(UUID)
    partitions: tuple[int, ...] = carried(Array(INT32))
    assignment_epochs: tuple[int, ...] | None = carried(Array(INT32, nullable=True), default=(), tag=0)
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = carried(INT32)
    previous_member_epoch: int = carried(INT32)
    state: int = carried(INT8, default=0)
    assigned_partitions: tuple[OwnedPartitions, ...] = carried(Array(StructType(OwnedPartitions)), default=())
    partitions_pending_revocation: tuple[OwnedPartitions, ...] = carried(Array(StructType(OwnedPartitions)), default=())
    schema_version: int = 0
    unknown_tags: Tags = ()


@stored(kw_only=True)
class ConsumerGroupRegularExpressionValue:
    topics: tuple[str, ...] = carried(Array(STRING))
    version: int = carried(INT64)
    timestamp: int = carried(INT64)
    schema_version: int = 0
    unknown_tags: Tags = ()


KEYS: tuple[Layout[Any], ...] = (
    Layout(ConsumerGroupMetadataKey, (3,), version_name="type"),
    Layout(ConsumerGroupPartitionMetadataKey, (4,), version_name="type"),
    Layout(ConsumerGroupMemberMetadataKey, (5,), version_name="type"),
    Layout(ConsumerGroupTargetAssignmentMetadataKey, (6,), version_name="type"),
    Layout(ConsumerGroupTargetAssignmentMemberKey, (7,), version_name="type"),
    Layout(ConsumerGroupCurrentMemberAssignmentKey, (8,), version_name="type"),
    Layout(ConsumerGroupRegularExpressionKey, (16,), version_name="type"),
)

VALUES: tuple[Layout[Any], ...] = (
    Layout(ConsumerGroupMetadataValue, (0,), flexible_since=0),
    Layout(ConsumerGroupPartitionMetadataValue, (0,), flexible_since=0),
    Layout(ConsumerGroupMemberMetadataValue, (0,), flexible_since=0),
    Layout(ConsumerGroupTargetAssignmentMetadataValue, (0,), flexible_since=0),
    Layout(ConsumerGroupTargetAssignmentMemberValue, (0,), flexible_since=0),
    Layout(ConsumerGroupCurrentMemberAssignmentValue, (0,), flexible_since=0),
    Layout(ConsumerGroupRegularExpressionValue, (0,), flexible_since=0),
)

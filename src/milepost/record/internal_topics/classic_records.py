"""Records of `__consumer_offsets` that every Kafka writes: committed offsets and classic groups.

    key type  key fields                   value                 value versions
    0, 1      group, topic, partition      OffsetCommitValue     0 to 4 (4 flexible)
    2         group                        GroupMetadataValue    0 to 4 (4 flexible)

OffsetCommitValue                                GroupMetadataValue
    i64     offset                                   string   protocol_type            "consumer", "connect", …
    i32     leader_epoch           3+; -1 unknown    i32      generation
    string  metadata                                 string?  protocol                 the chosen assignor
    i64     commit_timestamp                         string?  leader                   a member id
    i64     expire_timestamp       1 only            i64      current_state_timestamp  2+
    uuid    topic_id               4+, tag 0         array    members: member_id, group_instance_id? (3+), client_id, client_host,
                                                              rebalance_timeout (1+), session_timeout, subscription, assignment

Kafka up to 3.x writes OffsetCommitValue 3, or 1 when the client asked for an expiry; 4.3 writes 4. All of them write
GroupMetadataValue 3.
`subscription` and `assignment` are the clients' own bytes (`consumer_protocol` when protocol_type is "consumer").
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from milepost.record.internal_topics.field_types import BYTES, INT32, INT64, NULLABLE_STRING, STRING, UUID, Array
from milepost.record.internal_topics.layout import ZERO_UUID, Field, Layout, StructType, Tags


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    group: str
    topic: str
    partition: int
    type: int = 1


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    group: str
    type: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: uuid.UUID = ZERO_UUID
    schema_version: int = 3
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: int = 0
    session_timeout: int
    subscription: bytes = b""
    assignment: bytes = b""
    unknown_tags: Tags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: tuple[MemberMetadata, ...] = ()
    schema_version: int = 3
    unknown_tags: Tags = ()


OFFSET_COMMIT_KEY = Layout(
    OffsetCommitKey, (0, 1), Field("group", STRING), Field("topic", STRING), Field("partition", INT32), version_name="type"
)

GROUP_METADATA_KEY = Layout(GroupMetadataKey, (2,), Field("group", STRING), version_name="type")

OFFSET_COMMIT_VALUE = Layout(
    OffsetCommitValue,
    range(5),
    Field("offset", INT64),
    Field("leader_epoch", INT32, since=3),
    Field("metadata", STRING),
    Field("commit_timestamp", INT64),
    Field("expire_timestamp", INT64, since=1, until=1),
    Field("topic_id", UUID, since=4, tag=0, absent=ZERO_UUID),
    flexible_since=4,
)

MEMBER_METADATA = StructType(
    MemberMetadata,
    Field("member_id", STRING),
    Field("group_instance_id", NULLABLE_STRING, since=3),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("rebalance_timeout", INT32, since=1),
    Field("session_timeout", INT32),
    Field("subscription", BYTES),
    Field("assignment", BYTES),
)

GROUP_METADATA_VALUE = Layout(
    GroupMetadataValue,
    range(5),
    Field("protocol_type", STRING),
    Field("generation", INT32),
    Field("protocol", NULLABLE_STRING),
    Field("leader", NULLABLE_STRING),
    Field("current_state_timestamp", INT64, since=2),
    Field("members", Array(MEMBER_METADATA)),
    flexible_since=4,
)

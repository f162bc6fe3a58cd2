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

from milepost.record.internal_topics.field_types import BYTES, INT32, INT64, NULLABLE_STRING, STRING, UUID, Array
from milepost.record.internal_topics.layout import ZERO_UUID, Layout, StructType, Tags, carried, stored


@stored()
class OffsetCommitKey:
    group: str = carried(STRING)
    topic: str = carried(STRING)
    partition: int = carried(INT32)
    type: int = 1


@stored()
class GroupMetadataKey:
    group: str = carried(STRING)
    type: int = 2


@stored(kw_only=True)
class OffsetCommitValue:
    offset: int = carried(INT64)
    leader_epoch: int = carried(INT32, default=-1, since=3)
    metadata: str = carried(STRING, default="")
    commit_timestamp: int = carried(INT64)
    expire_timestamp: int = carried(INT64, default=-1, since=1, until=1)
    topic_id: uuid.UUID = carried(UUID, default=ZERO_UUID, since=4, tag=0)
    schema_version: int = 3
    unknown_tags: Tags = ()


@stored(kw_only=True)
class MemberMetadata:
    member_id: str = carried(STRING)
    group_instance_id: str | None = carried(NULLABLE_STRING, default=None, since=3)
    client_id: str = carried(STRING)
    client_host: str = carried(STRING)
    rebalance_timeout: int = carried(INT32, default=0, since=1)
    session_timeout: int = carried(INT32)
    subscription: bytes = carried(BYTES, default=b"")
    assignment: bytes = carried(BYTES, default=b"")
    unknown_tags: Tags = ()


@stored(kw_only=True)
class GroupMetadataValue:
    protocol_type: str = carried(STRING)
    generation: int = carried(INT32)
    protocol: str | None = carried(NULLABLE_STRING, default=None)
    leader: str | None = carried(NULLABLE_STRING, default=None)
    current_state_timestamp: int = carried(INT64, default=-1, since=2)
    members: tuple[MemberMetadata, ...] = carried(Array(StructType(MemberMetadata)), default=())
    schema_version: int = 3
    unknown_tags: Tags = ()


OFFSET_COMMIT_KEY = Layout(OffsetCommitKey, (0, 1), version_name="type")
OFFSET_COMMIT_VALUE = Layout(OffsetCommitValue, range(5), flexible_since=4)
GROUP_METADATA_KEY = Layout(GroupMetadataKey, (2,), version_name="type")
GROUP_METADATA_VALUE = Layout(GroupMetadataValue, range(5), flexible_since=4)

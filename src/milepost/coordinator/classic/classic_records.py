"""The records of `__consumer_offsets` that the classic protocol writes: a group, an offset, and the tombstones that remove them.

Formats are those of Kafka 3.9 (group metadata 3; offset 3, or 1 when the client asked for an expiry of its own), see
`record/internal_topics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from milepost.protocol.error_codes import ErrorCode
from milepost.record.internal_topics import consumer_offsets
from milepost.record.internal_topics.classic_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from milepost.record.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.coordinator.classic.classic_member import ClassicMember


class StoredGroup(Protocol):
    """What the record of a group holds."""

    group_id: str
    protocol_type: str
    protocol_name: str | None
    generation: int
    leader_id: str | None
    state_timestamp: int
    members: dict[str, ClassicMember]


def offset_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue, offset: int = -1) -> Record:
    """`offset`: the record's own, in a batch that is being made."""
    key = consumer_offsets.encode(OffsetCommitKey(group_id, topic, partition))
    return Record(offset=offset, timestamp=value.commit_timestamp, key=key, value=consumer_offsets.encode(value))


def offset_tombstone(group_id: str, topic: str, partition: int, timestamp: int) -> Record:
    return Record(timestamp=timestamp, key=consumer_offsets.encode(OffsetCommitKey(group_id, topic, partition)))


def group_record(group: StoredGroup, assignments: Mapping[str, bytes], timestamp: int) -> Record:
    """The group as it stands, with these assignments by member id."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ),
    )
    key = consumer_offsets.encode(GroupMetadataKey(group.group_id))
    return Record(timestamp=timestamp, key=key, value=consumer_offsets.encode(value))


def group_tombstone(group_id: str, timestamp: int) -> Record:
    return Record(timestamp=timestamp, key=consumer_offsets.encode(GroupMetadataKey(group_id)))


COMMIT_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""What a client is told when its offsets could not be written: in terms of its coordinator, not of a topic it never asked for."""

GROUP_ERRORS = COMMIT_ERRORS | {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The same for a group's own record."""


def commit_error(code: int) -> int:
    return COMMIT_ERRORS.get(ErrorCode(code), code) if code else code


def group_error(code: int) -> int:
    return GROUP_ERRORS.get(ErrorCode(code), code) if code else code

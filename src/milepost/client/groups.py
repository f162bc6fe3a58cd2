"""Groups as an administrator sees them: which there are, who is in one, how far each partition is behind.

Every broker is asked for the groups it coordinates. A group is described in the words of its protocol: consumer groups (KIP-848) by
ConsumerGroupDescribe, classic ones by DescribeGroups. For a group that is not there newer brokers answer GROUP_ID_NOT_FOUND and older
ones the state Dead. A group that never had members, only commits, is there and Empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.offsets import LATEST, Committed, committed, ends
from milepost.client.retrying import failed
from milepost.errors import InvalidRecord, RequestFailed
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from milepost.record.internal_topics.consumer_protocol import ASSIGNMENT, PROTOCOL_TYPE
from milepost.topic_partition import TopicPartition

DEAD, EMPTY = "Dead", "Empty"


@dataclass(frozen=True, slots=True, order=True)
class GroupListing:
    """State and type are empty from brokers that do not tell (before Kafka 2.6 and 3.8)."""

    group_id: str
    state: str
    group_type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    group_type: str
    assignor: str
    members: tuple[MemberDescription, ...]

    @property
    def is_inactive(self) -> bool:
        """Whether nobody is in it, so that its offsets may be changed from outside."""
        return self.state in (EMPTY, DEAD)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    partition: TopicPartition
    committed: int | None
    end_offset: int
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        return None if self.committed is None else max(0, self.end_offset - self.committed)


def list_groups(cluster: Cluster) -> list[GroupListing]:
    found: set[GroupListing] = set()

    def work(connection: Connection) -> None:
        response: ListGroupsResponse = connection.ask(ListGroupsRequest())
        if response.error_code:
            raise failed(f"groups of {connection.address}", response.error_code)
        found.update(GroupListing(row.group_id, row.group_state, row.group_type, row.protocol_type) for row in response.groups)

    for node_id in cluster.refresh(()).nodes:
        cluster.on_node(node_id, work)
    return sorted(found)


def describe_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Who is in a group; RequestFailed with GROUP_ID_NOT_FOUND when there is none."""
    return cluster.on_coordinator(group_id, lambda connection: _describe(connection, group_id))


def delete_group(cluster: Cluster, group_id: str) -> None:
    """Delete a group with its offsets. It must have no members."""

    def work(connection: Connection) -> None:
        response: DeleteGroupsResponse = connection.ask(DeleteGroupsRequest(groups_names=[group_id]))
        for row in response.results:
            if row.error_code:
                raise failed(f"group {group_id}", row.error_code)

    cluster.on_coordinator(group_id, work)


def group_lag(cluster: Cluster, group: GroupDescription) -> list[PartitionLag]:
    """Every partition the group has committed in or is assigned: where it is, where the log ends, and whose it is."""
    owners = {partition: member for member in group.members for partition in member.partitions}
    offsets: dict[TopicPartition, Committed] = committed(cluster, group.group_id)
    there = cluster.refresh({partition.topic for partition in owners.keys() | offsets.keys()}).topics
    # A topic that was deleted may live on in commits; it has no end to be behind of.
    known = {name for name, topic in there.items() if not topic.error_code}
    partitions = sorted(partition for partition in owners.keys() | offsets.keys() if partition.topic in known)
    end_offsets = ends(cluster, partitions, LATEST)
    return [
        PartitionLag(each, offsets[each].offset if each in offsets else None, end_offsets[each], owners.get(each))
        for each in partitions
    ]


def _describe(connection: Connection, group_id: str) -> GroupDescription:
    if connection.serves("ConsumerGroupDescribe"):
        response: ConsumerGroupDescribeResponse = connection.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]))
        for row in response.groups:
            # Not found: there is none, or it is a classic one.
            if row.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                raise failed(f"group {group_id}", row.error_code, row.error_message)
            if not row.error_code:
                members = tuple(_consumer_member(member) for member in row.members)
                return GroupDescription(group_id, row.group_state, "consumer", row.assignor_name, members)
    return _describe_classic(connection, group_id)


def _consumer_member(member: ConsumerGroupDescribeResponse.Group.Member) -> MemberDescription:
    partitions = [
        TopicPartition(topic.topic_name, number) for topic in member.assignment.topic_partitions for number in topic.partitions
    ]
    return MemberDescription(
        member.member_id, member.instance_id, member.client_id, member.client_host, tuple(sorted(partitions))
    )


def _describe_classic(connection: Connection, group_id: str) -> GroupDescription:
    response: DescribeGroupsResponse = connection.ask(DescribeGroupsRequest(groups=[group_id]))
    row = next((row for row in response.groups if row.group_id == group_id), None)
    if row is None or (not row.error_code and row.group_state == DEAD):
        raise RequestFailed(f"there is no group {group_id}", ErrorCode.GROUP_ID_NOT_FOUND)
    if row.error_code:
        raise failed(f"group {group_id}", row.error_code, row.error_message)
    is_consumer = row.protocol_type == PROTOCOL_TYPE
    members = tuple(
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _assigned(member.member_assignment) if is_consumer else (),
        )
        for member in row.members
    )
    return GroupDescription(group_id, row.group_state, "classic", row.protocol_data, members)


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in a member's assignment, which clients encode among themselves; none when it cannot be read."""
    try:
        decoded = ASSIGNMENT.decode_lenient(bytes(assignment)) if assignment else None
    except InvalidRecord:
        return ()
    rows = decoded.assigned_partitions if decoded is not None else ()
    return tuple(sorted(TopicPartition(row.topic, number) for row in rows for number in row.partitions))

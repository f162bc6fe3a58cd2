"""ConsumerGroupDescribe: a consumer group as it stands, with what its members have and should have.

A group that is not there, or is of the classic protocol, is 69. Topics that are gone meanwhile are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_member import NOTHING, ConsumerMember, Partitions, by_topic
from milepost.coordinator.consumer.consumer_targets import ClusterTopics
from milepost.coordinator.group.group_admin import GROUP_OPERATIONS
from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.interfaces import Work
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

Described = ConsumerGroupDescribeResponse.Group
Member = ConsumerGroupDescribeResponse.Group.Member
Named = TypeVar("Named")
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describing_groups(
    request: ConsumerGroupDescribeRequest, registry: Registry, cluster: ClusterTopics, assignors: Sequence[str]
) -> Work[ConsumerGroupDescribeResponse]:
    described = []
    for group_id in request.group_ids:
        error = registry.refusal(group_id)
        group = registry.get(group_id)
        if error:
            found = Described(group_id=group_id, error_code=error, members=[])
        elif isinstance(group, ConsumerGroup):
            found = yield from describing(group, cluster, assignors)
        else:
            message = f"there is no group {group_id}" if group is None else f"group {group_id} is a classic group"
            found = Described(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, members=[])
        if request.include_authorized_operations and not found.error_code:
            found.authorized_operations = GROUP_OPERATIONS
        described.append(found)
        yield
    return ConsumerGroupDescribeResponse(groups=described)


def describing(group: ConsumerGroup, cluster: ClusterTopics, assignors: Sequence[str]) -> Work[Described]:
    """As it is now; only the writing down is in pieces. Members and targets are values, which do not change."""
    described = Described(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=[],
    )
    targets = dict(group.targets)
    for member_id, member in sorted(group.members.items()):
        described.members.append((yield from describing_member(member, targets.get(member_id, NOTHING), cluster)))
        yield
    return described


def describing_member(member: ConsumerMember, target: Partitions, cluster: ClusterTopics) -> Work[Member]:
    assigned = yield from named(member.assigned, cluster, Member.Assignment.TopicPartition)
    wanted = yield from named(target, cluster, Member.TargetAssignment.TopicPartition)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex or None,
        assignment=Member.Assignment(topic_partitions=assigned),
        target_assignment=Member.TargetAssignment(topic_partitions=wanted),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def named(partitions: Partitions, cluster: ClusterTopics, made: Callable[..., Named]) -> Work[list[Named]]:
    topics = []
    for topic_id, numbers in (yield from by_topic(partitions)).items():
        topic = cluster.topic_by_id(topic_id)
        if topic is not None:
            topics.append(made(topic_id=topic_id, topic_name=topic.name, partitions=numbers))
        yield
    return topics

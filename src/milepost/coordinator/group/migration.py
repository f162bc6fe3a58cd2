"""Groups that change their protocol while their members work.

    upgrade     A member with the consumer protocol joins a classic group of consumers: the group becomes a consumer group, its
                members stay members of it and keep what they have. They speak the classic protocol until they are restarted
                (see `classic_requests`). The epoch goes on from the generation.
    downgrade   The last member with the consumer protocol leaves, and others are there: the group becomes a classic group again. The
                generation goes on from the epoch.

Offsets are kept under the group's id and are the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable

from milepost.coordinator.classic.classic_group import STABLE, ClassicGroup
from milepost.coordinator.classic.classic_member import ClassicMember, Protocols
from milepost.coordinator.consumer.consumer_change import Change
from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_member import NOTHING, ConsumerMember, Partitions, by_topic
from milepost.coordinator.consumer.consumer_targets import ClusterTopics
from milepost.coordinator.interfaces import Work
from milepost.errors import InvalidRecord
from milepost.record.internal_topics.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from milepost.record.internal_topics.consumer_protocol import (
    ASSIGNMENT,
    PROTOCOL_TYPE,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from milepost.work import at_once


def subscription_in(protocols: Protocols) -> ConsumerProtocolSubscription | None:
    """What a classic member subscribes to: its first protocol says it, and the others say the same. None when it is not readable."""
    try:
        return SUBSCRIPTION.decode_lenient(protocols[0][1]) if protocols else None
    except InvalidRecord:
        return None


def protocols_of(member: ConsumerMember) -> Protocols:
    assert member.classic is not None
    return tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols)


def classic_metadata(session_timeout_ms: int, protocols: Protocols) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=tuple(ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols),
    )


def with_ids(topics: Iterable[TopicPartitions], cluster: ClusterTopics) -> Partitions:
    """Partitions of topics that exist, by id."""
    known = cluster.topics
    return frozenset(
        (known[topic.topic].topic_id, partition)
        for topic in topics
        if topic.topic in known
        for partition in topic.partitions
        if 0 <= partition < known[topic.topic].partitions
    )


def assignment_bytes(member: ConsumerMember, cluster: ClusterTopics) -> bytes:
    """What a classic member has, as it wants to read it."""
    subscription = subscription_in(protocols_of(member))
    by_id = at_once(by_topic(member.assigned))
    named = ((cluster.topic_by_id(topic_id), partitions) for topic_id, partitions in by_id.items())
    return ASSIGNMENT.encode(
        ConsumerProtocolAssignment(
            assigned_partitions=tuple(
                TopicPartitions(topic.name, tuple(numbers)) for topic, numbers in named if topic is not None
            ),
            schema_version=subscription.schema_version if subscription is not None else 0,
        )
    )


# Upgrades.


def upgrade_fault(group: ClassicGroup, max_size: int) -> str | None:
    """Why a classic group cannot become a consumer group."""
    if not group.uses_consumer_protocol:
        return f"its protocol type is {group.protocol_type!r}"
    if len(group.members) > max_size:
        return f"it has {len(group.members)} members, a consumer group at most {max_size}"
    if any(subscription_in(member.protocols) is None for member in group.members.values()):
        return "the subscription of a member cannot be read"
    return None


def filling_from_classic(change: Change, classic: ClassicGroup, cluster: ClusterTopics) -> Work[None]:
    """Write the members of a classic group into an empty consumer group, with all they have."""
    epoch = max(classic.generation, change.draft.epoch)
    members = []
    for classic_member in list(classic.members.values()):
        members.append(consumer_member(classic_member, epoch, cluster))
        yield
    # A faulty assignor may have given a partition to two: here it can have one holder only.
    taken: set[tuple[bytes, int]] = set()
    for member in members:
        yield from change.member(member)
    yield from change.put(ConsumerGroupMetadataKey(change.group.group_id), ConsumerGroupMetadataValue(epoch=epoch))
    assigned = {}
    for member in members:
        assigned[member.member_id] = member.assigned - taken
        taken |= member.assigned
        yield from change.target(member.member_id, assigned[member.member_id])
    yield from change.target_epoch(0)  # as in Kafka: we did not compute them, so the first assignment here waits for nothing
    for member in members:
        yield from change.assignment(member.having(assigned[member.member_id]))


def content_of(classic: ClassicGroup) -> list[object]:
    """What an upgrade takes over: the same as long as nobody joins, leaves or is given anything."""
    members = [(member.member_id, member.protocols, member.assignment) for member in classic.members.values()]
    return [classic.state, classic.generation, members]


def consumer_member(member: ClassicMember, epoch: int, cluster: ClusterTopics) -> ConsumerMember:
    subscription = subscription_in(member.protocols)
    assert subscription is not None
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=assigned_in(member.assignment, cluster),
    )


def assigned_in(assignment: bytes, cluster: ClusterTopics) -> Partitions:
    """Empty when the leader gave nothing, or nothing that can be read: then the member has it to lose."""
    try:
        return with_ids(ASSIGNMENT.decode_lenient(assignment).assigned_partitions, cluster) if assignment else NOTHING
    except InvalidRecord:
        return NOTHING


def revived(old: ClassicGroup, now_ms: int) -> ClassicGroup:
    """A classic group that was closed for an upgrade which could not be written."""
    group = ClassicGroup(old.group_id, now_ms)
    for member in old.members.values():
        group.add(member, old.protocol_type)
    return as_stable(group, old.generation)


# Downgrades.


def classic_group_from(
    group: ConsumerGroup, members: Iterable[ConsumerMember], cluster: ClusterTopics, now_ms: int
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, now_ms)
    for member in members:
        assert member.classic is not None
        classic.add(
            ClassicMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=protocols_of(member),
                assignment=assignment_bytes(member, cluster),
            ),
            PROTOCOL_TYPE,
        )
    return as_stable(classic, group.epoch)


def as_stable(group: ClassicGroup, generation: int) -> ClassicGroup:
    group.generation = generation
    group.state = STABLE
    group.protocol_name = group.select_protocol()
    group.subscribed_topics = group.find_subscribed_topics()
    return group

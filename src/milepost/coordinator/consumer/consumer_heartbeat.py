"""What a ConsumerGroupHeartbeat says, and why it may be refused.

member epoch   the request                         says
0              has everything                      the member joins, or joins again; it owns nothing
above 0        only what has changed, null: not    it is alive; the partitions it owns when they changed
-1             -                                   it leaves for good
-2             has an instance id                  a static member leaves for a while

refused with                      when
42 INVALID_REQUEST                a field is missing or makes no sense
112 UNSUPPORTED_ASSIGNOR          it asks for an assignor that is not configured here
128 INVALID_REGULAR_EXPRESSION    its pattern is none, or takes too long
81 GROUP_MAX_SIZE_REACHED         the group is full
25 UNKNOWN_MEMBER_ID              it is not a member, or there is no such group: some clients take 69 for fatal
110 FENCED_MEMBER_EPOCH           its epoch is not the one we know; the one before is accepted from a member that owns nothing it should
                                  not, since it may not have got our last answer
82 FENCED_INSTANCE_ID             another member has this instance id now
111 UNRELEASED_INSTANCE_ID        another member has this instance id, and has not left; classic members do not say when they leave
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    Partitions,
    TopicIdPartition,
    as_newcomer,
)
from milepost.coordinator.interfaces import Client, Work
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ConsumerGroupHeartbeatRequest
from milepost.work import pieces

CLIENT_MAKES_MEMBER_ID = 1
"""The first version in which the client makes its member id."""
MOST_NAMES = 10_000
"""Every change of the group looks at all of them."""


class Refused(Exception):
    def __init__(self, error_code: int, message: str):
        super().__init__(message)
        self.error_code = error_code


def validate(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    epoch = request.member_epoch
    fault = None
    if not request.group_id:
        fault = "the group id is empty"
    elif request.instance_id == "":
        fault = "the instance id is empty; a member without one sends null"
    elif request.rack_id == "":
        fault = "the rack id is empty; a member without one sends null"
    elif not request.member_id and (version >= CLIENT_MAKES_MEMBER_ID or epoch != 0):
        fault = "the member id is empty, and the client has to make one"
    elif epoch < STATIC_LEAVE_EPOCH:
        fault = f"member epoch {epoch} means nothing; the lowest is -2"
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        fault = "member epoch -2 is for static members, and there is no instance id"
    elif len(request.subscribed_topic_names or ()) > MOST_NAMES:
        fault = f"{len(request.subscribed_topic_names or ())} topic names, at most {MOST_NAMES} are taken; a pattern may stand for more"
    elif epoch == 0:
        fault = validate_join(request)
    if fault is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, fault)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r} here, only {', '.join(assignors)}",
        )


def validate_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "a member that joins has to say its rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a member that joins owns no partitions, and has to say so with an empty list"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a member that joins has to say what it subscribes to: names, a pattern, or none of them as an empty list"
    return None


def is_leave(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """The member says everything, and wants to hear everything: it joins, or is not sure that we understood each other."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_complete = request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None
    return request.member_epoch == 0 or is_complete


def owned_in(request: ConsumerGroupHeartbeatRequest) -> Work[Partitions | None]:
    if request.topic_partitions is None:
        return None
    owned: set[TopicIdPartition] = set()
    for piece in pieces(
        (bytes(topic.topic_id), partition) for topic in request.topic_partitions for partition in topic.partitions
    ):
        owned.update(piece)
        yield
    return frozenset(owned)


def find_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: Partitions | None
) -> ConsumerMember | None:
    """The member as we know it, or the one whose place it takes; None when it is new."""
    is_join = request.member_epoch == 0
    if request.instance_id is not None:
        member = group.static_member(request.instance_id)
        if member is None and not is_join:
            raise unknown(f"group {group.group_id} has no instance {request.instance_id}")
        if member is not None and member.member_id != member_id:
            if not is_join:
                raise fenced_instance(member_id, request.instance_id, member)
            if not member.is_away and member.classic is None:
                raise Refused(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"instance {request.instance_id} is member {member.member_id}, which has not left; {member_id} has to wait",
                )
            return member
        if member is not None and is_join and member.is_away:
            return member
    else:
        member = group.members.get(member_id)
        if member is None and not is_join:
            raise unknown(f"group {group.group_id} has no member {member_id}")
    if member is not None:
        validate_epoch(member, request.member_epoch, owned)
    return member


def validate_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member epoch {epoch} is ahead of {member.epoch}, the one we know; join again with epoch 0, without any partitions",
        )
    if epoch != member.previous_epoch or owned is None or not owned <= member.assigned:
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member epoch {epoch} is behind {member.epoch}, the one we know; join again with epoch 0, without any partitions",
        )


def find_leaver(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown(f"group {group.group_id} has no member {request.member_id}")
        return member
    member = group.static_member(request.instance_id)
    if member is None:
        raise unknown(f"group {group.group_id} has no instance {request.instance_id}")
    if member.member_id != request.member_id:
        raise fenced_instance(request.member_id, request.instance_id, member)
    return member


def unknown(message: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)


def fenced_instance(member_id: str, instance_id: str, member: ConsumerMember) -> Refused:
    return Refused(
        ErrorCode.FENCED_INSTANCE_ID,
        f"instance {instance_id} is member {member.member_id} now, not {member_id}",
    )


def described(
    known: ConsumerMember | None, request: ConsumerGroupHeartbeatRequest, member_id: str, client: Client
) -> ConsumerMember:
    """The member with what the request says; a static one that comes back keeps its partitions under the new id."""
    member = known or ConsumerMember(member_id=member_id)
    if known is not None and (known.is_away or known.member_id != member_id):
        member = replace(as_newcomer(known, known.assigned), member_id=member_id)
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )

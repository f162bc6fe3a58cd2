"""When a consumer group needs a new epoch, and what its members should have in it.

The epoch rises when a member comes or goes, when a member's subscription changes, and when the topics that the group subscribes to
do: one is made, deleted, made again with another id, or gets partitions. What is compared is a hash of their names, ids and numbers
of partitions, which is stored with the epoch.

Targets follow the epoch at the first heartbeat (or join of a classic member) that finds the group's assignment interval over since
they were last computed, so that many changes at once, as when a program is restarted everywhere, make one computation (KIP-1263). There
is no timer. Until then the members work on with the targets there are, less what they do not subscribe to any more; a newcomer has
none yet, and is in the epoch of the others.

Topics that do not exist are no error: they are waited for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from milepost.coordinator.consumer.assignors import ASSIGNORS, Subscriber
from milepost.coordinator.consumer.consumer_change import Change
from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_member import ConsumerMember, Partitions, TopicIdPartition
from milepost.coordinator.group.runtime import logger
from milepost.coordinator.interfaces import Work
from milepost.coordinator.regex.re2_syntax import RegularExpressionError
from milepost.work import pieces


class Topic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> int: ...


class ClusterTopics(Protocol):
    """The topics of the cluster."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None: ...


class PatternTopics(Protocol):
    """The topics of patterns."""

    def resolving(self, pattern: str) -> Work[frozenset[str]]: ...


def subscribed(group: ConsumerGroup, cluster: ClusterTopics) -> Work[list[Topic]]:
    """In the order of their names."""
    names: set[str] = set()
    for subscription in group.subscriptions:
        names |= subscription
        yield
    found: list[Topic] = []
    for piece in pieces(sorted(names)):
        topics = cluster.topics
        found += [topics[name] for name in piece if name in topics]
        yield
    return found


def metadata_hash(topics: Sequence[Topic]) -> Work[int]:
    """Of topics in the order of their names: 64 bits, signed; 0 for no topics."""
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for piece in pieces(topics):
        for topic in piece:
            digest.update(topic.name.encode() + b"\0" + topic.topic_id + topic.partitions.to_bytes(4, "big"))
        yield
    return int.from_bytes(digest.digest(), "big", signed=True)


def resolving_patterns(group: ConsumerGroup, topics: PatternTopics) -> Work[None]:
    """Look again what the patterns of the members stand for; the group believes it in its next change (`refresh_regexes`).

    Others are served meanwhile, members of this group too, with the topics it knows. They do not begin the same work again.
    """
    if not group.needs_resolving or group.is_resolving:
        return
    group.is_resolving, group.needs_resolving = True, False
    try:
        for pattern in sorted(group.patterns):
            try:
                group.resolved[pattern] = yield from topics.resolving(pattern)
            except RegularExpressionError as error:
                logger.warning("group %s keeps the topics it has for a pattern: %s", group.group_id, error)
    except GeneratorExit:
        group.needs_resolving = True
        raise
    finally:
        group.is_resolving = False


def refresh_regexes(change: Change) -> Work[None]:
    """Believe what was found for the patterns of the members, and forget those nobody uses."""
    group = change.draft
    group.believed = found = group.resolved
    group.resolved = {}
    used = group.patterns
    for pattern in sorted(used & found.keys()):
        if group.regexes.get(pattern) != found[pattern]:
            yield from change.regex(pattern, found[pattern])
    for pattern in sorted(group.regexes.keys() - used):
        yield from change.regex(pattern, None)


def decide_epoch(change: Change, cluster: ClusterTopics, *, has_changed: bool) -> Work[None]:
    """A new epoch if the group `has_changed`, or if its topics have."""
    group = change.draft
    if not has_changed and not group.needs_refresh and not group.resolved:
        return
    yield from refresh_regexes(change)
    topics = yield from subscribed(group, cluster)
    found = yield from metadata_hash(topics)
    group.refreshed = group.topic_changes
    if has_changed or found != group.metadata_hash:
        yield from change.next_epoch(found)


def may_assign(group: ConsumerGroup, interval_ms: int, now_ms: int) -> bool:
    """Whether the interval is over; also for a group without targets, and when the clock was put back since."""
    return not group.target_timestamp or not 0 <= now_ms - group.target_timestamp < interval_ms


def is_behind(group: ConsumerGroup, member: ConsumerMember, interval_ms: int, now_ms: int) -> bool:
    """Whether a sign of life of the member would bring it to a newer epoch: targets are there, or it would have them computed."""
    return member.epoch < group.target_epoch or (member.epoch < group.epoch and may_assign(group, interval_ms, now_ms))


def target_in_force(group: ConsumerGroup, member: ConsumerMember, cluster: ClusterTopics) -> Work[Partitions]:
    """The member's target, less what it has unsubscribed from since targets were computed."""
    target = group.target_of(member.member_id)
    if group.target_epoch >= group.epoch:
        return target
    names = group.topics_of(member)
    wanted: set[TopicIdPartition] = set()
    for piece in pieces(target):
        found = {topic_id: cluster.topic_by_id(topic_id) for topic_id, _ in piece}
        ids = {topic_id for topic_id, topic in found.items() if topic is not None and topic.name in names}
        wanted.update(partition for partition in piece if partition[0] in ids)
        yield
    return frozenset(wanted)


def assign(change: Change, cluster: ClusterTopics, assignors: Sequence[str], interval_ms: int) -> Work[None]:
    """A target assignment for the group's epoch, if it is time."""
    group = change.draft
    if group.target_epoch >= group.epoch or not may_assign(group, interval_ms, change.now_ms):
        return
    topics = yield from subscribed(group, cluster)
    ids = {topic.name: topic.topic_id for topic in topics}
    by_subscription: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
    subscribers = []
    for member in list(group.members.values()):
        subscription = (member.topic_names, member.topic_regex)
        if subscription not in by_subscription:
            by_subscription[subscription] = frozenset(ids[name] for name in group.topics_of(member) if name in ids)
        subscribers.append(
            Subscriber(member.member_id, member.instance_id, by_subscription[subscription], group.target_of(member.member_id))
        )
        yield
    assignor = ASSIGNORS[group.preferred_assignor(assignors)]
    targets = yield from assignor(subscribers, {topic.topic_id: topic.partitions for topic in topics})
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            yield from change.target(member_id, target)
        yield
    yield from change.target_epoch(change.now_ms)

"""When a consumer group needs a new epoch, and what its members should have in it.

The epoch rises when a member comes or goes, when a member's subscription changes, and when the topics that the group subscribes to
do: one is made, deleted, made again with another id, or gets partitions. What is compared is a hash of their names, ids and numbers
of partitions, which is stored with the epoch.

Topics that do not exist are no error: they are waited for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

from milepost.coordinator.assignors import ASSIGNORS, Subscriber
from milepost.coordinator.consumer_change import Change
from milepost.coordinator.consumer_group import ConsumerGroup
from milepost.coordinator.re2_syntax import RegularExpressionError
from milepost.coordinator.runtime import logger
from milepost.coordinator.subscriptions import resolve


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


def subscribed(group: ConsumerGroup, cluster: ClusterTopics) -> list[Topic]:
    topics = cluster.topics
    return [topics[name] for name in sorted(group.subscribed_topics) if name in topics]


def metadata_hash(topics: Iterable[Topic]) -> int:
    """64 bits, signed; 0 for no topics."""
    known = sorted((topic.name, topic.topic_id, topic.partitions) for topic in topics)
    if not known:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, topic_id, partitions in known:
        digest.update(name.encode() + b"\0" + topic_id + partitions.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def refresh_regexes(change: Change, cluster: ClusterTopics) -> None:
    """Look again what the patterns of the members stand for, and forget those nobody uses."""
    group = change.group
    used = {member.topic_regex for member in group.members.values() if member.topic_regex}
    for pattern in sorted(used):
        try:
            topics = resolve(pattern, cluster.topics)
        except RegularExpressionError as error:
            logger.warning("group %s keeps the topics it has for a pattern: %s", group.group_id, error)
            continue
        if group.regexes.get(pattern) != topics:
            change.regex(pattern, topics)
    for pattern in sorted(group.regexes.keys() - used):
        change.regex(pattern, None)


def decide_epoch(change: Change, cluster: ClusterTopics, *, has_changed: bool) -> None:
    """A new epoch if the group `has_changed`, or if its topics have."""
    group = change.group
    if not has_changed and not group.needs_refresh:
        return
    refresh_regexes(change, cluster)
    found = metadata_hash(subscribed(group, cluster))
    group.needs_refresh = False
    if has_changed or found != group.metadata_hash:
        change.next_epoch(found)


def assign(change: Change, cluster: ClusterTopics, default_assignor: str) -> None:
    """A target assignment for the group's epoch."""
    group = change.group
    if group.target_epoch >= group.epoch:
        return
    topics = subscribed(group, cluster)
    ids = {topic.name: topic.topic_id for topic in topics}
    by_subscription: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
    subscribers = []
    for member in group.members.values():
        subscription = (member.topic_names, member.topic_regex)
        if subscription not in by_subscription:
            by_subscription[subscription] = frozenset(ids[name] for name in group.topics_of(member) if name in ids)
        subscribers.append(
            Subscriber(member.member_id, member.instance_id, by_subscription[subscription], group.target_of(member.member_id))
        )
    assignor = ASSIGNORS[group.preferred_assignor(default_assignor)]
    targets = assignor(subscribers, {topic.topic_id: topic.partitions for topic in topics})
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            change.target(member_id, target)
    change.target_epoch()

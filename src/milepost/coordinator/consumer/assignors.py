"""The assignors of the consumer protocol, which run here and not in the clients: who should have which partitions.

    uniform   Everybody gets as many as everybody else, give or take one, and keeps what he has as far as that allows.
    range     Topic by topic: the members in order (static ones by instance id, then the others by member id) get neighbouring
              partitions, the first ones one more when it does not come out even. Topics with as many partitions and the same
              subscribers are split alike, so that keys that go together stay together. Nobody keeps anything on purpose.

When members subscribe to different topics, `uniform` evens out as far as moving single partitions from one member to another
helps: nobody could take a partition from somebody who has two more.

They work in pieces, whatever their cost grows with: a group may have a hundred thousand partitions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from milepost.coordinator.consumer.consumer_member import NOTHING, Partitions, TopicIdPartition
from milepost.coordinator.interfaces import Work
from milepost.work import pieces

Assignment = dict[str, Partitions]


@dataclass(frozen=True, slots=True)
class Subscriber:
    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    target: Partitions = NOTHING
    """What the last assignment gave to it."""


PartitionCounts = Mapping[bytes, int]
Assignor = Callable[[Sequence[Subscriber], PartitionCounts], Work[Assignment]]
Given = dict[str, set[TopicIdPartition]]


def in_order(subscriber: Subscriber) -> tuple[bool, str]:
    return (subscriber.instance_id is None, subscriber.instance_id or subscriber.member_id)


def range_assignor(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Work[Assignment]:
    members = sorted(subscribers, key=in_order)
    given: Given = {member.member_id: set() for member in members}
    for topic_id, count in counts.items():
        takers = [member.member_id for member in members if topic_id in member.topics]
        first = 0
        for index, member_id in enumerate(takers):
            size = count // len(takers) + (index < count % len(takers))
            given[member_id].update((topic_id, partition) for partition in range(first, first + size))
            first += size
            yield
        yield
    return (yield from frozen(given))


def uniform_assignor(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Work[Assignment]:
    if not subscribers:
        return {}
    members = sorted(subscribers, key=in_order)
    same = all(member.topics == members[0].topics for member in members)
    given = yield from split_evenly(members, counts) if same else spread(members, counts)
    return (yield from frozen(given))


def frozen(given: Given) -> Work[Assignment]:
    assignment = {}
    for member_id, partitions in given.items():
        assignment[member_id] = frozenset(partitions)
        yield
    return assignment


def in_places(topics: Iterable[bytes], counts: PartitionCounts) -> Iterator[TopicIdPartition]:
    """Their partitions: topics and partitions rise."""
    return ((topic_id, partition) for topic_id in sorted(topics) for partition in range(counts.get(topic_id, 0)))


def keep(members: Sequence[Subscriber], counts: PartitionCounts) -> Work[dict[TopicIdPartition, str]]:
    """Who has what, of what they may still have; a partition that two claim stays with the first."""
    owner: dict[TopicIdPartition, str] = {}
    for member in members:
        for piece in pieces(member.target):
            for place in piece:
                topic_id, partition = place
                if topic_id in member.topics and partition < counts.get(topic_id, 0):
                    owner.setdefault(place, member.member_id)
            yield
    return owner


def split_evenly(members: Sequence[Subscriber], counts: PartitionCounts) -> Work[Given]:
    """Everybody subscribes to the same topics."""
    topics = members[0].topics
    owner = yield from keep(members, counts)
    kept = Counter(owner.values())
    share, extra = divmod(sum(counts.get(topic_id, 0) for topic_id in topics), len(members))
    quota: dict[str, int] = {}
    for member in members:
        quota[member.member_id] = share
        if kept[member.member_id] > share and extra:
            quota[member.member_id] += 1
            extra -= 1
    room = {member_id: max(0, size - kept[member_id]) for member_id, size in quota.items()}
    for member_id, size in quota.items():
        if extra and size == share and kept[member_id] <= share:
            room[member_id] += 1
            extra -= 1
    given: Given = {member.member_id: set() for member in members}
    left: list[TopicIdPartition] = []
    for piece in pieces(in_places(topics, counts)):
        for place in piece:
            keeper = owner.get(place)
            if keeper is not None and len(given[keeper]) < quota[keeper]:
                given[keeper].add(place)
            else:
                left.append(place)
        yield
    waiting = deque(member_id for member_id in given if room[member_id])
    for piece in pieces(left):
        for place in piece:
            member_id = waiting.popleft()
            given[member_id].add(place)
            room[member_id] -= 1
            if room[member_id]:
                waiting.append(member_id)
        yield
    return given


def spread(members: Sequence[Subscriber], counts: PartitionCounts) -> Work[Given]:
    """Members subscribe to different topics."""
    owner = yield from keep(members, counts)
    given: Given = {member.member_id: set() for member in members}
    for piece in pieces(owner.items()):
        for place, member_id in piece:
            given[member_id].add(place)
        yield
    takers: dict[bytes, list[str]] = {}
    for topic_id in sorted(counts):
        found = [member.member_id for member in members if topic_id in member.topics]
        if found:
            takers[topic_id] = found
        yield
    # Topics that few may take come first: their partitions have the least choice.
    for topic_id in sorted(takers, key=lambda topic_id: (len(takers[topic_id]), topic_id)):
        heap = [(len(given[member_id]), index) for index, member_id in enumerate(takers[topic_id])]
        heapify(heap)
        for partition in range(counts[topic_id]):
            if (topic_id, partition) not in owner:
                load, index = heap[0]
                member_id = takers[topic_id][index]
                given[member_id].add((topic_id, partition))
                owner[topic_id, partition] = member_id
                heapreplace(heap, (load + 1, index))
            yield
    has_moved = True
    while has_moved:  # each move makes the loads more alike, so this ends
        has_moved = False
        for topic_id in takers:
            has_moved |= yield from even_out(topic_id, counts[topic_id], takers[topic_id], given, owner)
    return given


def even_out(
    topic_id: bytes,
    count: int,
    takers: Sequence[str],
    given: Given,
    owner: dict[TopicIdPartition, str],
) -> Work[bool]:
    """Move partitions of one topic to members that have at least two less; whether any moved."""
    has_moved = False
    for partition in range(count):
        place = (topic_id, partition)
        poorest = min(takers, key=lambda member_id: len(given[member_id]))
        if len(given[owner[place]]) > len(given[poorest]) + 1:
            given[owner[place]].remove(place)
            given[poorest].add(place)
            owner[place] = poorest
            has_moved = True
        yield
    return has_moved


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assignor, "range": range_assignor}

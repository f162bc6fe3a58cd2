"""The assignors of the consumer protocol, which run here and not in the clients: who should have which partitions.

    uniform   Everybody gets as many as everybody else, give or take one, and keeps what he has as far as that allows.
    range     Topic by topic: the members in order (static ones by instance id, then the others by member id) get neighbouring
              partitions, the first ones one more when it does not come out even. Topics with as many partitions and the same
              subscribers are split alike, so that keys that go together stay together. Nobody keeps anything on purpose.

When members subscribe to different topics, `uniform` evens out as far as moving single partitions from one member to another
helps: nobody could take a partition from somebody who has two more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from milepost.coordinator.consumer.consumer_member import NOTHING, Partitions, TopicIdPartition

Assignment = dict[str, Partitions]


@dataclass(frozen=True, slots=True)
class Subscriber:
    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    target: Partitions = NOTHING
    """What the last assignment gave to it."""


PartitionCounts = Mapping[bytes, int]
Assignor = Callable[[Sequence[Subscriber], PartitionCounts], Assignment]


def in_order(subscriber: Subscriber) -> tuple[bool, str]:
    return (subscriber.instance_id is None, subscriber.instance_id or subscriber.member_id)


def range_assignor(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    members = sorted(subscribers, key=in_order)
    given: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in members}
    for topic_id, count in counts.items():
        takers = [member.member_id for member in members if topic_id in member.topics]
        first = 0
        for index, member_id in enumerate(takers):
            size = count // len(takers) + (index < count % len(takers))
            given[member_id] += [(topic_id, partition) for partition in range(first, first + size)]
            first += size
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def uniform_assignor(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    if not subscribers:
        return {}
    members = sorted(subscribers, key=in_order)
    same = all(member.topics == members[0].topics for member in members)
    given = split_evenly(members, counts) if same else spread(members, counts)
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def partitions_of(topics: frozenset[bytes], counts: PartitionCounts) -> set[TopicIdPartition]:
    return {(topic_id, partition) for topic_id in topics for partition in range(counts.get(topic_id, 0))}


def keep(members: Sequence[Subscriber], counts: PartitionCounts) -> dict[str, set[TopicIdPartition]]:
    """What the members have that they may still have; a partition that two claim stays with the first."""
    taken: set[TopicIdPartition] = set()
    kept = {}
    for member in members:
        valid = {
            (topic_id, partition)
            for topic_id, partition in member.target
            if topic_id in member.topics and partition < counts.get(topic_id, 0)
        } - taken
        kept[member.member_id] = valid
        taken |= valid
    return kept


def split_evenly(members: Sequence[Subscriber], counts: PartitionCounts) -> dict[str, set[TopicIdPartition]]:
    """Everybody subscribes to the same topics."""
    everything = partitions_of(members[0].topics, counts)
    share, extra = divmod(len(everything), len(members))
    given = keep(members, counts)
    room: dict[str, int] = {}
    for member_id, kept in given.items():
        quota = share
        if len(kept) > share and extra:
            quota += 1
            extra -= 1
        if len(kept) > quota:
            given[member_id] = set(sorted(kept)[:quota])
        room[member_id] = quota - len(given[member_id])
    for member_id, kept in given.items():
        if extra and len(kept) + room[member_id] == share:
            room[member_id] += 1
            extra -= 1
    left = sorted(everything.difference(*given.values()))
    waiting = deque(member_id for member_id in given if room[member_id])
    for partition in left:
        member_id = waiting.popleft()
        given[member_id].add(partition)
        room[member_id] -= 1
        if room[member_id]:
            waiting.append(member_id)
    return given


def spread(members: Sequence[Subscriber], counts: PartitionCounts) -> dict[str, set[TopicIdPartition]]:
    """Members subscribe to different topics."""
    given = keep(members, counts)
    owner = {partition: member_id for member_id, kept in given.items() for partition in kept}
    takers = {
        topic_id: found
        for topic_id in sorted(counts)
        if (found := [member.member_id for member in members if topic_id in member.topics])
    }
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
    has_moved = True
    while has_moved:  # each move makes the loads more alike, so this ends
        has_moved = False
        for topic_id in takers:
            has_moved |= even_out(topic_id, counts[topic_id], takers[topic_id], given, owner)
    return given


def even_out(
    topic_id: bytes,
    count: int,
    takers: Sequence[str],
    given: dict[str, set[TopicIdPartition]],
    owner: dict[TopicIdPartition, str],
) -> bool:
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
    return has_moved


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assignor, "range": range_assignor}

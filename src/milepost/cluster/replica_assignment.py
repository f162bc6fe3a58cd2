"""Where the replicas of new partitions go: evenly over the brokers, leaders too, and over racks where brokers have them.

As Kafka does it: the first replica of partition p goes to broker (start + p), the others follow it at a distance that grows by one each
time round, so that two brokers share few partitions. With racks the brokers are ordered rack by rack in turn first, and a rack gets a
second replica only when each has one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from milepost.errors import InvalidArgument


def assign_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    factor: int,
    rng: random.Random,
    *,
    first_partition: int = 0,
    start: int | None = None,
) -> dict[int, tuple[int, ...]]:
    """Replicas for `partitions` new partitions, numbered from `first_partition`. `start` where an existing topic goes on."""
    if not 0 < factor <= len(brokers):
        raise InvalidArgument(f"replication factor {factor}: there are {len(brokers)} brokers")
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    is_racked = len(racks) == len(brokers) and len(set(racks.values())) > 1
    ordered = _rack_by_rack(racks) if is_racked else sorted(brokers)
    first = rng.randrange(len(ordered)) if start is None else start % len(ordered)
    shift = rng.randrange(len(ordered)) if start is None else start % len(ordered)
    assigned = {}
    for number in range(first_partition, first_partition + partitions):
        if number and number % len(ordered) == 0:
            shift += 1
        leader = (number + first) % len(ordered)
        chosen = [ordered[leader]]
        if is_racked:
            _spread(chosen, ordered, leader, shift, racks, factor)
        else:
            chosen += [ordered[_place(leader, shift, each, len(ordered))] for each in range(factor - 1)]
        assigned[number] = tuple(chosen)
    return assigned


def _place(leader: int, shift: int, replica: int, count: int) -> int:
    return (leader + 1 + (shift + replica) % (count - 1)) % count


def _spread(chosen: list[int], ordered: Sequence[int], leader: int, shift: int, racks: Mapping[int, str], factor: int) -> None:
    count, rack_count = len(ordered), len(set(racks.values()))
    for step in range(count * rack_count):
        if len(chosen) == factor:
            return
        broker = ordered[_place(leader, shift * rack_count, step, count)]
        used = {racks[each] for each in chosen}
        if broker not in chosen and (racks[broker] not in used or len(used) == rack_count):
            chosen.append(broker)


def _rack_by_rack(racks: Mapping[int, str]) -> list[int]:
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    return [queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue)]

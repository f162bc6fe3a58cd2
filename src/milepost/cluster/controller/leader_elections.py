"""Who should lead a partition: pure choices between replicas, in Kafka's order.

    offline              the first assigned replica that is alive and in sync; failing that, if the topic allows it, the first that is alive
    preferred            the first assigned replica, if it is alive and in sync
    reassignment         the first of the target replicas that is alive and in sync
    controlled shutdown  the first that is alive, in sync and not itself leaving

None means: no replica can lead, the partition stays as it is (offline: without a leader).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False


def offline(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean_allowed: bool, leaving: Collection[int] = ()
) -> Choice | None:
    for replica in replicas:
        if replica in live and replica in isr and replica not in leaving:
            return Choice(replica, tuple(each for each in isr if each in live))
    if unclean_allowed:
        for replica in replicas:
            if replica in live:
                return Choice(replica, (replica,), is_unclean=True)
    return None


def preferred(replicas: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Choice | None:
    first = replicas[0] if replicas else None
    return Choice(first, tuple(isr)) if first is not None and first in live and first in isr else None


def reassigned(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Choice | None:
    for replica in target:
        if replica in live and replica in isr:
            return Choice(replica, tuple(isr))
    return None


def controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], leaving: Collection[int]
) -> Choice | None:
    """`live` counts those that are leaving, too: they still answer."""
    for replica in replicas:
        if replica in live and replica in isr and replica not in leaving:
            return Choice(replica, tuple(each for each in isr if each not in leaving))
    return None

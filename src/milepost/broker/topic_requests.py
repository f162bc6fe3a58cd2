"""What the requests that create and change topics share: which names are free, which come twice, and how much one may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

from milepost.broker.topic_errors import InvalidTopic, TopicExists, colliding
from milepost.cluster.view import ClusterView
from milepost.topic_partition import topic_name_fault

H = TypeVar("H", bound=Hashable)

MAX_PARTITIONS_AT_ONCE = 10_000
"""Of one request, as in Kafka."""


def ensure_new_topic(cluster: ClusterView, name: str) -> None:
    """That a topic of this name could be made."""
    fault = topic_name_fault(name)
    if fault is not None:
        raise InvalidTopic(f"topic name {name[:60]!r}: {fault}")
    if name in cluster.topics:
        raise TopicExists(f"topic {name} already exists")
    if name in cluster.being_deleted:
        raise TopicExists(f"topic {name} is being deleted; its directories still exist")
    collision = cluster.collision_of(name)
    if collision is not None:
        raise colliding(name, collision)


def repeated(names: Iterable[H]) -> set[H]:
    """What is there more than once."""
    return {name for name, times in Counter(names).items() if times > 1}

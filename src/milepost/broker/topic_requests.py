"""What the requests that create and change topics share: which names are free, which come twice, and how much one may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from milepost.broker.slices import Work
from milepost.broker.topic_errors import InvalidTopic, TopicExists, colliding
from milepost.cluster.view import ClusterView
from milepost.errors import InvalidRequest, PolicyViolation
from milepost.topic_partition import topic_name_fault


class Named(Protocol):
    name: str


H = TypeVar("H", bound=Hashable)
N = TypeVar("N", bound=Named)

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


class TopicPlan(Generic[N]):
    """What a request wants in all: each name once, and not more partitions than at once are allowed."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._total = 0
        self.topics: dict[str, N] = {}

    def reading(self, topics: Iterable[N], count: Callable[[N], int]) -> Work[None]:
        """`count`: how many partitions a topic is to get."""
        for topic in topics:
            self._times[topic.name] += 1
            self.topics[topic.name] = topic
            yield
        for topic in self.topics.values():
            self._total += count(topic)
            yield

    def ensure_alone(self, topic: N) -> None:
        """That nothing else in the request speaks against this topic."""
        if self._times[topic.name] > 1:
            raise InvalidRequest(f"topic {topic.name[:60]!r} is in the request {self._times[topic.name]} times")
        if self._total > MAX_PARTITIONS_AT_ONCE:
            raise PolicyViolation(
                f"the request asks for {self._total} partitions, {MAX_PARTITIONS_AT_ONCE} at once are allowed; send several"
            )


def repeated(names: Iterable[H]) -> set[H]:
    """What is there more than once."""
    return {name for name, times in Counter(names).items() if times > 1}

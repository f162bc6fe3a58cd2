"""What the requests that create and change topics share: names that come twice, and replicas assigned by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from milepost.broker.topic_errors import InvalidReplicaAssignment

H = TypeVar("H", bound=Hashable)

MAX_PARTITIONS_AT_ONCE = 10_000
"""Of one request, as in Kafka."""


def repeated(names: Iterable[H]) -> set[H]:
    """What is there more than once."""
    return {name for name, times in Counter(names).items() if times > 1}


def ensure_assignable(partition: int, broker_ids: Sequence[int], node_id: int) -> None:
    """A partition that is assigned by hand can go to this broker and to no other."""
    if not broker_ids:
        raise InvalidReplicaAssignment(f"partition {partition} is assigned to no broker")
    if repeated(broker_ids):
        raise InvalidReplicaAssignment(
            f"partition {partition} is assigned to {list(broker_ids)}: a broker has at most one replica of it"
        )
    strangers = [broker_id for broker_id in broker_ids if broker_id != node_id]
    if strangers:
        raise InvalidReplicaAssignment(
            f"partition {partition} is assigned to broker {strangers[0]}, which does not exist: there is only {node_id}"
        )

"""What a request handler asks of the cluster that its broker belongs to, whatever kind of cluster that is.

    view           who is alive, who is controller, who leads what
    producer_ids   ids that no other producer has
    coordinators   where the coordinator of a group or of a transaction is
    features       levels of features, moved
    quotas         quotas of clients
    topics         topics and their partitions: moved

`alone`, `zookeeper` and `attached` implement them. What may take time is a `Work` (`slices`): alone it goes through at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from milepost.broker.slices import Work
    from milepost.cluster.view import TopicState
    from milepost.topic_partition import TopicPartition

NO_LEADER = -1


class Node(NamedTuple):
    """A broker that is alive, and where clients of a listener reach it."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class PartitionState(NamedTuple):
    """What clients are told of a partition."""

    error_code: int = ErrorCode.NONE
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


class Coordinator(NamedTuple):
    """Where the coordinator of a group or of a transaction is, or why nobody is."""

    error_code: int
    message: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1


class Reassignment(NamedTuple):
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class View(Protocol):
    @property
    def controller_id(self) -> int:
        """As clients are told: of a broker that is alive, or -1."""

    def brokers(self, listener: str) -> list[Node]: ...
    def partition(self, topic: TopicState, number: int, listener: str) -> PartitionState | None:
        """None where nothing is known of it."""


class ProducerIds(Protocol):
    def when_available(self, ready: Callable[[], object]) -> None:
        """Go on when there are producer ids to give away."""


class Coordinators(Protocol):
    def find(self, key_type: int, key: str, listener: str) -> Coordinator:
        """Of a group (0) or of a transaction (1)."""


class Features(Protocol):
    def ensure_movable(self) -> None:
        """That levels of features can be moved here at all."""

    def move(self, levels: Mapping[str, int]) -> None:
        """To levels that `features.fault_of` has nothing against; from now on, and after a restart."""


class Quotas(Protocol):
    def refreshing(self) -> Work[None]:
        """Read what is stored: another broker may have changed it a moment ago."""


class Topics(Protocol):
    @property
    def refusal(self) -> int:
        """NOT_CONTROLLER where another broker administers the topics of the cluster."""

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Of partitions that are being moved."""


class Topology(NamedTuple):
    view: View
    producer_ids: ProducerIds
    coordinators: Coordinators
    features: Features
    quotas: Quotas
    topics: Topics

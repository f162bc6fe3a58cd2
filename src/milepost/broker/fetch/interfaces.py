"""What a fetch uses of its broker and of its request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from milepost.cluster.view import ClusterView
from milepost.config.broker import BrokerConfig
from milepost.loop import Loop
from milepost.replica.manager import ReplicaManager
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.slices import Work
    from milepost.net.request import Request
    from milepost.security.principal import KafkaPrincipal


class FetchBroker(Protocol):
    """Where partitions are found, and which replica a client reads from."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def cluster(self) -> ClusterView: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def loop(self) -> Loop: ...

    def missing_partition(self, name: TopicPartition) -> int: ...

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int: ...


class FetchContext(Protocol):
    """One fetch request: how it was asked, and how it is answered, at once or later."""

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def request(self) -> Request: ...

    @property
    def connection(self) -> dict[str, Any]: ...

    @property
    def is_connected(self) -> bool: ...

    def of(self, request: Request, correlation_id: int) -> FetchContext: ...

    def answer(self, response: Any) -> None: ...

    def run(self, work: Work[None]) -> None: ...

    def guarded(self, task: Callable[..., bool | None]) -> Callable[..., bool]: ...

    def failed(self) -> None: ...


class RepeatedFetch(Protocol):
    """What the connection of a client keeps that fetches the same again and again, as `state["fetch"]`."""

    def handle(self, request: Request) -> bool:
        """Whether the request was one of these, and is answered, or will be. What goes wrong then ends the request."""

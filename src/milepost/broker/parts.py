"""What request handlers, and the parts of a broker that need many of the others, may use of it: what `Context.broker` is.

A protocol, so that only the composition (`kinds`) knows the classes that it is made of. A part that needs few
others says in its own module which they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from milepost.broker.acl_authorizer import AclAuthorizer
    from milepost.broker.authorizer import Authorizer
    from milepost.broker.fetch.session_cache import FetchSessions
    from milepost.broker.internal_topics.coordinator_log import InternalTopic
    from milepost.broker.internal_topics.coordinators import Coordinators
    from milepost.broker.produce.record_examiner import RecordExaminer
    from milepost.broker.slices import Slices
    from milepost.broker.topology.protocols import Topology
    from milepost.clock import Clock
    from milepost.cluster.view import ClusterView
    from milepost.config.broker import BrokerConfig
    from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
    from milepost.coordinator.group.group_coordinator import GroupCoordinator
    from milepost.coordinator.transactions.transaction_admission import Admission
    from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from milepost.log.manager import LogManager
    from milepost.loop import Loop
    from milepost.net.request_metrics import RequestMetricsTable
    from milepost.net.socket_server import SocketServer
    from milepost.protocol.apis import Api
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.partition import Partition
    from milepost.topic_partition import TopicPartition


class Dispatching(Protocol):
    """What handles requests, for a handler that goes on after it has returned."""

    @property
    def served(self) -> Mapping[int, Api]:
        """The APIs that have a handler here, by their keys."""

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def slices(self) -> Slices[Any]: ...

    def failed(self, context: Any) -> None:
        """Inside of the `except`: the request of this context ends with its connection."""


class Parts(Protocol):
    # What it was started with, and what it runs on.

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def static_config(self) -> BrokerConfig:
        """Without what is stored in the cluster."""

    @property
    def node_id(self) -> int: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def loop(self) -> Loop: ...
    @property
    def server(self) -> SocketServer: ...
    @property
    def request_metrics(self) -> RequestMetricsTable: ...
    @property
    def dispatcher(self) -> Dispatching: ...
    def advertised(self, listener: str) -> tuple[str, int]:
        """The advertised address of a listener."""

    def use_config(self, config: BrokerConfig) -> None: ...

    @property
    def acl_authorizer(self) -> AclAuthorizer | None:
        """The one that is configured, which is asked by way of the dispatcher."""

    @property
    def topology(self) -> Topology: ...

    # Records.

    @property
    def cluster(self) -> ClusterView: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...
    @property
    def record_examiner(self) -> RecordExaminer: ...
    def missing_partition(self, name: TopicPartition) -> int:
        """What to answer about a partition that is not on this broker."""

    def missing_topic(self, name: str) -> int: ...
    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """A replica that a client in a rack should read from instead; -1: here is best."""

    # Coordinators.

    @property
    def coordinators(self) -> Coordinators: ...
    @property
    def groups(self) -> GroupCoordinator: ...
    @property
    def consumer_groups(self) -> ConsumerGroups: ...
    @property
    def transactions(self) -> TransactionCoordinator: ...
    @property
    def offsets_topic(self) -> InternalTopic: ...
    @property
    def transactions_topic(self) -> InternalTopic: ...
    def asks_coordinator(self, admission: Admission) -> bool:
        """Whether the first batch of a transaction waits for its coordinator."""

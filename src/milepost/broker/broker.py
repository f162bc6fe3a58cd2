"""What every broker is made of, whatever its kind, and what they all do alike.

A kind (`kinds/alone`, `kinds/zookeeper`, `kinds/attached`) adds what depends on its cluster. It makes all its parts in its `__init__`:
then listeners are bound, directories locked and logs loaded. Nothing is read before the broker begins to live (`lifecycle`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypedDict

from milepost.broker.authorizer import Authorizer, together
from milepost.broker.dispatch import Dispatcher
from milepost.broker.fetch.session_cache import FetchSessions
from milepost.broker.runtime import MakeRuntime, sockets
from milepost.broker.secured_listeners import secured_channels
from milepost.broker.telemetry.metered_disk import MeteredDisk
from milepost.cluster.view import ClusterView
from milepost.config.broker import BrokerConfig
from milepost.config.listeners import parse_listener
from milepost.log.directory import partition_metadata
from milepost.log.manager import LogManager
from milepost.net.request_metrics import RequestMetricsTable
from milepost.protocol.apis import Api
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.manager import ReplicaManager
from milepost.topic_partition import TopicPartition, topic_name_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from milepost.broker.acl_authorizer import AclAuthorizer
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.internal_topics.coordinator_log import InternalTopic
    from milepost.broker.internal_topics.coordinators import Coordinators
    from milepost.broker.telemetry.metrics_endpoint import MetricsEndpoint
    from milepost.broker.topology.protocols import Topology
    from milepost.clock import Clock
    from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
    from milepost.coordinator.group.group_coordinator import GroupCoordinator
    from milepost.coordinator.transactions.pending_markers import WriteMarkers
    from milepost.coordinator.transactions.transaction_admission import Admission
    from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from milepost.files import Disk
    from milepost.log.log_source import LogSource
    from milepost.replica.partition import Partition
    from milepost.security.scram import ScramCredential


class Membership(Protocol):
    """What a broker has to do with others in the course of its life."""

    def join(self) -> None:
        """Become known to them, before anything is served."""

    def settle(self) -> None:
        """Learn from them what clients will ask for first."""

    def leave(self, stop: Callable[[], object]) -> None:
        """Have them take what they can, then stop. Called on whatever thread."""

    def withdraw(self) -> None:
        """Say no more to them: all that this broker does is about to end."""

    def keep(self) -> None:
        """After the last change: write down what must be known of the cluster at the next start."""

    def end(self) -> None:
        """The logs are closed."""


class Surroundings(TypedDict, total=False):
    """What any kind may be given in the place of the machine's own: by a simulation, a test, or who embeds it."""

    clock: Clock | None
    rng: random.Random | None
    disk: Disk | None
    authorizer: Authorizer


class Broker:
    # What its kind makes.
    node_id: int
    cluster: ClusterView
    topology: Topology
    replicas: ReplicaManager
    offsets_topic: InternalTopic
    transactions_topic: InternalTopic
    write_markers: WriteMarkers
    coordinators: Coordinators
    membership: Membership
    adopted: list[str]
    """Topics that were found on disk, and that nobody had written down."""

    def __init__(
        self,
        config: BrokerConfig,
        served: Mapping[int, Api],
        *,
        cluster_parts: ClusterParts | None = None,
        make_runtime: MakeRuntime = sockets,
        source: LogSource | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        disk: Disk | None = None,
        authorizer: Authorizer | None = None,
    ):
        self.static_config = config
        # What is stored in the cluster may change it: at start, and while the broker runs.
        self.config = config
        self.logs = logs = LogManager(config, disk=disk or MeteredDisk(), clock=clock, rng=rng, source=source)
        self.clock = logs.clock
        self.rng: random.Random = logs.rng
        self.acl_authorizer = acl_authorizer(config)
        both = together(authorizer, self.acl_authorizer)
        self.dispatcher = Dispatcher(self, both, served, cluster_parts)
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            self.clock,
            self.rng,
            config.milepost_fetch_session_cache_partitions,
        )
        self.request_metrics = RequestMetricsTable()
        self.channels = secured_channels(config, self)
        made = make_runtime(config, self.dispatcher.handle, logs, self.channels)
        self.server, self.loop, self.maintenance, self.record_examiner = made
        self.metrics_endpoint: MetricsEndpoint | None = None
        if config.milepost_metrics_port is not None:
            with self.abandoned_if_it_fails():
                # Here and not at the top: most brokers have none, and start sooner.
                from milepost.broker.telemetry.metrics_endpoint import MetricsEndpoint

                self.metrics_endpoint = MetricsEndpoint(self)

    @contextmanager
    def abandoned_if_it_fails(self) -> Iterator[None]:
        """A start that fails leaves nothing open, and the directories as after a crash."""
        try:
            yield
        except BaseException:
            self.maintenance.stop()
            self.server.shutdown()
            if self.metrics_endpoint is not None:
                self.metrics_endpoint.close()
            self.logs.abandon()
            raise

    def use_config(self, config: BrokerConfig) -> None:
        """Go on with other settings; `configs/dynamic_config` has the parts follow them."""
        self.config = self.logs.config = config
        self.logs.verifies_transactions = config.transaction_partition_verification_enable

    # Coordinators.

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def consumer_groups(self) -> ConsumerGroups:
        return self.coordinators.consumer_groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

    def asks_coordinator(self, admission: Admission) -> bool:
        """Whether the first batch of a transaction waits for its coordinator; always where that adds the partition."""
        from milepost.coordinator.transactions.transaction_admission import Admission  # which is where `admission` comes from

        return admission is Admission.ADD or self.config.transaction_partition_verification_enable

    def allocate_producer_id(self) -> int:
        return self.topology.producer_ids.take()

    def scram_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        return self.cluster.scram_users.get(user, {}).get(mechanism)

    # Partitions.

    def missing_topic(self, name: str) -> int:
        return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_fault(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def missing_partition(self, name: TopicPartition) -> int:
        return self.topology.view.missing_partition(name)

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        return self.topology.view.nearer_replica(partition, rack, offset)

    # Addresses.

    def advertised(self, listener: str) -> tuple[str, int]:
        """The advertised address of a listener."""
        for entry in self.config.advertised_listeners or ():
            told = parse_listener(entry)
            if told.name == listener:
                return told.host, told.port
        acceptor = next(acceptor for acceptor in self.server.all_acceptors if acceptor.listener == listener)
        host, port = acceptor.address
        return ("localhost" if host in ("0.0.0.0", "::") else host), port

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.advertised(self.server.acceptors[0].listener)
        return f"{host}:{port}"


def acl_authorizer(config: BrokerConfig) -> AclAuthorizer | None:
    """The one that is configured."""
    if not config.authorizer_class_name:
        return None
    from milepost.broker.acl_authorizer import configured_authorizer  # of brokers that have one

    return configured_authorizer(config)


def configured(config: BrokerConfig | Mapping[str, object]) -> BrokerConfig:
    return config if isinstance(config, BrokerConfig) else BrokerConfig.parse(config)


def configured_id(config: BrokerConfig) -> int:
    return config.broker_id if config.node_id is None else config.node_id


def topic_id_on_disk(logs: LogManager, directory: str) -> str | None:
    found = partition_metadata.read_partition_metadata(logs.disk, f"{directory}/{partition_metadata.FILE_NAME}")
    return found.topic_id if found else None

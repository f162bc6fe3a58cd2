"""One broker: logs, partitions, coordinators and sockets wired together, and how they start and stop.

    start   directories are locked and logs loaded, the coordinators read their topics, the listeners are bound; only then is anything read
    run     one thread: sockets, requests, timers
    stop    no more connections, coordinators end their timers, logs are closed, the marker of a clean stop is written last

`with Broker(config) as broker: broker.bootstrap_servers` runs it on a thread of its own; what ends that thread is raised when the
block ends. For other people's programs there is `broker/embedded`.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from milepost.broker.authorizer import EVERYBODY, Authorizer
from milepost.broker.configs.dynamic_config import apply, in_force
from milepost.broker.dispatch import Dispatcher
from milepost.broker.fetch.session_cache import FetchSessions
from milepost.broker.identity import identify
from milepost.broker.internal_topics.coordinator_log import InternalTopic, configs_of_offsets, configs_of_transactions
from milepost.broker.internal_topics.coordinators import Coordinators
from milepost.broker.internal_topics.transaction_markers import MarkerWriter
from milepost.broker.maintenance import Housekeeping
from milepost.broker.produce.record_examiner import RecordExaminer
from milepost.broker.server_settings import server_settings
from milepost.broker.taking_over import take_over
from milepost.broker.telemetry.metered_disk import MeteredDisk
from milepost.broker.topic_errors import InvalidTopic, TopicExists, colliding
from milepost.broker.topology import alone
from milepost.broker.topology.alone_topics import AloneTopics
from milepost.broker.turnstile import Turnstile, TurnstileLoop
from milepost.clock import Clock, SystemClock
from milepost.cluster.solo import SoloCluster
from milepost.cluster.view import ClusterView, TopicState
from milepost.config.broker import BrokerConfig
from milepost.config.listeners import Listener, parse_listener
from milepost.config.topic import LogConfig
from milepost.files import Disk
from milepost.log.directory import partition_metadata
from milepost.log.maintenance.side_thread import SideThread
from milepost.log.manager import LogManager
from milepost.loop import Loop
from milepost.net.request_metrics import RequestMetricsTable
from milepost.net.socket_server import SocketServer
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.manager import ReplicaManager
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition, topic_name_fault

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.telemetry.metrics_endpoint import MetricsEndpoint
    from milepost.broker.telemetry.replication_facts import Alone, AmongOthers
    from milepost.broker.topology.protocols import Topology
    from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
    from milepost.coordinator.group.group_coordinator import GroupCoordinator
    from milepost.coordinator.transactions.pending_markers import WriteMarkers
    from milepost.coordinator.transactions.transaction import Producer
    from milepost.coordinator.transactions.transaction_admission import Admission
    from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from milepost.protocol.messages import FetchRequest, FetchResponse

logger = logging.getLogger("milepost.broker")


class Broker:
    cluster: ClusterView
    topology: Topology
    solo: SoloCluster
    """The same, where this broker is the whole cluster: what it may change without asking anybody."""

    def __init__(
        self,
        config: BrokerConfig | Mapping[str, object],
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        disk: Disk | None = None,
        authorizer: Authorizer = EVERYBODY,
    ):
        self.static_config = config if isinstance(config, BrokerConfig) else BrokerConfig.parse(config)
        # What is stored in the cluster may change it: at start, and while the broker runs.
        self.config = self.static_config
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.node_id = self.config.broker_id if self.config.node_id is None else self.config.node_id
        self.logs = LogManager(self.config, disk=disk or MeteredDisk(), clock=self.clock, rng=self.rng)
        self.dispatcher = Dispatcher(self, authorizer)
        self.fetch_sessions = FetchSessions(
            self.config.max_incremental_fetch_session_cache_slots,
            self.clock,
            self.rng,
            self.config.milepost_fetch_session_cache_partitions,
        )
        self.write_markers: WriteMarkers = MarkerWriter(self)
        self.request_metrics = RequestMetricsTable()
        self.metrics_endpoint: MetricsEndpoint | None = None
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    # Starting.

    def start(self) -> None:
        """Load everything and listen. `run` serves."""
        # Bound first: a port in use should cost nothing.
        settings = server_settings(self.config)
        turnstile = Turnstile(self.config.control_plane_listener_name) if settings.pooled else None
        handler = self.dispatcher.handle if turnstile is None else turnstile.handler(self.dispatcher.handle)
        self.server = SocketServer(self._listeners(), handler, settings, control_listener=self._control_listener())
        self.loop: Loop = self.server.loop if turnstile is None else TurnstileLoop(self.server.loop, turnstile)
        self.timers: Loop = self.loop
        self.housekeeping = Housekeeping(self.logs, self.loop)
        self.record_examiner = RecordExaminer(
            SideThread("record-examiner", self.housekeeping.inbox), self.config.milepost_produce_max_decompressed_bytes
        )
        try:
            self.metrics_endpoint = self._metrics_endpoint()
            self._load()
            self._join()
        except BaseException:
            self.housekeeping.stop()
            self.server.shutdown()
            if self.metrics_endpoint is not None:
                self.metrics_endpoint.close()
            self.logs.abandon()
            raise
        self.server.start()
        self._settle()
        self.housekeeping.start()
        if self.metrics_endpoint is not None:
            self.metrics_endpoint.start()

    def _join(self) -> None:
        """Become known to others before anything is served: there are none."""

    def _settle(self) -> None:
        """Learn from others what clients will ask for first: there is nothing to learn."""

    def _load(self) -> None:
        # The topics' settings are known before their logs are opened.
        first = self.config.directories[0]
        self.logs.open_directories()
        cluster_id, self.node_id = identify(self.logs.directories, self.node_id, self.rng)
        self.cluster = self.solo = SoloCluster(first, self.logs.disk, self.rng, cluster_id, self.node_id, self.logs.scheduler)
        topics = AloneTopics(self, self.solo)
        self.topology = alone.topology(self, self.solo, topics)
        self.config = self.logs.config = in_force(self.static_config, self.cluster.broker_configs, self.node_id)
        self.logs.topics = self.settings_of_topics(self.config)
        self.logs.load_directories()
        self.logs.verifies_transactions = self.config.transaction_partition_verification_enable
        self.replicas = ReplicaManager(self.logs, self.loop, self.node_id)
        self.offsets_topic = InternalTopic(
            self,
            "__consumer_offsets",
            self.config.offsets_topic_num_partitions,
            configs_of_offsets(self.config),
        )
        self.transactions_topic = InternalTopic(
            self,
            "__transaction_state",
            self.config.transaction_state_log_num_partitions,
            configs_of_transactions(self.config, min_isr=1),
        )
        topics.finish_deletions()
        known = {*self.cluster.topics, *self.cluster.leaving}
        self.taken_over = self.solo.adopt(
            ((name, self._topic_id_on_disk(log.directory)) for name, log in self.logs.logs.items() if name.topic not in known),
            {topic.name: topic.configs for topic in (self.offsets_topic, self.transactions_topic)},
        )
        for topic in self.cluster.topics.values():
            self._host(topic)
        self._start_coordinators()
        take_over(self, self.solo, self.taken_over)
        apply(self)

    def settings_of_topics(self, config: BrokerConfig) -> dict[str, LogConfig]:
        """Parsed once for all topics that say the same: most say nothing."""
        parsed: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        settings = {}
        for name, topic in self.cluster.topics.items():
            given = tuple(sorted(topic.configs.items()))
            if given not in parsed:
                parsed[given] = LogConfig.parse(topic.configs, config)
            settings[name] = parsed[given]
        return settings

    def _metrics_endpoint(self) -> MetricsEndpoint | None:
        if self.config.milepost_metrics_port is None:
            return None
        # Here and not at the top: most brokers have none, and start sooner.
        from milepost.broker.telemetry.metrics_endpoint import MetricsEndpoint

        return MetricsEndpoint(self)

    def _listeners(self) -> list[Listener]:
        control = self.config.control_plane_listener_name
        return [listener for listener in map(parse_listener, self.config.listeners) if listener.name != control]

    def _control_listener(self) -> Listener | None:
        control = self.config.control_plane_listener_name
        return next((listener for listener in map(parse_listener, self.config.listeners) if listener.name == control), None)

    def _topic_id_on_disk(self, directory: str) -> str | None:
        found = partition_metadata.read_partition_metadata(self.logs.disk, f"{directory}/{partition_metadata.FILE_NAME}")
        return found.topic_id if found else None

    def _start_coordinators(self) -> None:
        """The coordinators read their topics before the first client is read."""
        self.coordinators = Coordinators(self)
        self.coordinators.start()

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def consumer_groups(self) -> ConsumerGroups:
        return self.coordinators.consumer_groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

    # Topics.

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None, *, internal: bool = False
    ) -> TopicState:
        """A new topic at once, for who cannot wait as clients do (`topology/alone_topics`). Raises what CreateTopics answers."""
        self.solo.settle()
        self.ensure_new_topic(name)
        settings = LogConfig.parse(configs or {}, self.config)
        count = self.config.num_partitions if partitions is None else partitions
        self.solo.save([self.solo.new_topic(name, count, configs or {})])
        self.logs.topics[name] = settings
        topic = self.cluster.topics[name]
        self._host(topic)
        self.coordinators.topics_changed()
        return topic

    def ensure_new_topic(self, name: str) -> None:
        """That a topic of this name could be made."""
        fault = topic_name_fault(name)
        if fault is not None:
            raise InvalidTopic(f"topic name {name[:60]!r}: {fault}")
        if name in self.cluster.topics:
            raise TopicExists(f"topic {name} already exists")
        if name in self.cluster.leaving:
            raise TopicExists(f"topic {name} is being deleted; its directories are not gone yet")
        collision = self.cluster.collision_of(name)
        if collision is not None:
            raise colliding(name, collision)

    def _host(self, topic: TopicState) -> None:
        for number in range(topic.partitions):
            self.replicas.host(TopicPartition(topic.name, number), topic.topic_id, topic.topic_id_text)

    def use_config(self, config: BrokerConfig) -> None:
        """Go on with other settings; topics that set nothing themselves inherit them."""
        settings = self.settings_of_topics(config)
        self.config = self.logs.config = config
        self.logs.verifies_transactions = config.transaction_partition_verification_enable
        self.logs.topics = settings
        for topic in self.cluster.topics.values():
            for partition in self.partitions_of(topic):
                partition.log.update_config(settings[topic.name])

    def answer_follower(self, request: FetchRequest, context: Context) -> FetchResponse | None:
        """A fetch that says it is another broker's: there is none."""
        from milepost.broker.fetch.replica_id import refuse_follower  # which is where this comes from

        return refuse_follower(request, context.version)

    def replication_facts(self) -> Alone | AmongOthers:
        from milepost.broker.telemetry.replication_facts import Alone  # when somebody asks for metrics

        return Alone(self.replicas, self.cluster)

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """A replica that a client in a rack should read from instead; -1: here is best."""
        return -1

    def missing_partition(self, name: TopicPartition) -> int:
        """What to answer about a partition that is not on this broker."""
        if self.logs.offline and self.cluster.has_partition(name.topic, name.partition):
            return ErrorCode.KAFKA_STORAGE_ERROR  # no directory that is online could take it
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def admit(
        self,
        admission: Admission,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Ask the coordinator of a transaction whether partitions are part of it, or make them so."""
        from milepost.coordinator.transactions.transaction_admission import admit  # which is where `admission` comes from

        admit(self.transactions, admission, transactional_id, producer, partitions, answer)

    def asks_coordinator(self, admission: Admission) -> bool:
        """Whether the first batch of a transaction waits for its coordinator; always where that adds the partition."""
        from milepost.coordinator.transactions.transaction_admission import Admission  # which is where `admission` comes from

        return admission is Admission.ADD or self.config.transaction_partition_verification_enable

    def allocate_producer_id(self) -> int:
        return self.topology.producer_ids.take()

    def missing_topic(self, name: str) -> int:
        return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_fault(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def partitions_of(self, topic: TopicState) -> list[Partition]:
        names = (TopicPartition(topic.name, number) for number in range(topic.partitions))
        return [partition for partition in map(self.replicas.partition, names) if partition is not None]

    # Addresses.

    def advertised(self, listener: str) -> tuple[str, int]:
        """What clients of a listener are told to connect to."""
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

    # Running and stopping.

    def run(self) -> None:
        self.server.run()

    def stop(self) -> None:
        """Ask a broker that runs on another thread to stop."""
        self.server.stop()

    def close(self) -> None:
        """Let go of everything. The logs are left as after a clean stop, unless it was an error that ended the server."""
        self.record_examiner.stop()
        self.housekeeping.stop()
        if self.metrics_endpoint is not None:
            self.metrics_endpoint.close()
        self.server.shutdown()
        self.dispatcher.slices.close()
        self.coordinators.close()
        if self.server.fatal_error is None:
            if isinstance(self.cluster, SoloCluster):
                self.cluster.close()
            self.logs.shutdown()
        else:
            self.logs.abandon()  # nobody knows what state they are in: the next start finds out

    def __enter__(self) -> Broker:
        self.start()
        self._thread = threading.Thread(target=self._run_apart, name="milepost-broker", daemon=True)
        self._thread.start()
        return self

    def _run_apart(self) -> None:
        try:
            self.run()
        except BaseException as error:
            logger.error("the broker stopped: %s", error)
            self.failure = error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()
        self.close()
        if self.failure is not None:
            raise self.failure

"""One broker: logs, partitions, coordinators and sockets wired together, and how they start and stop.

    start   directories are locked and logs loaded, the coordinators read their topics, the listeners are bound; only then is anything read
    run     one thread: sockets, requests, timers
    stop    no more connections, coordinators end their timers, logs are closed, the marker of a clean stop is written last

`with Broker() as broker: broker.bootstrap_servers` runs it on a thread of its own, on a free port, over a directory
that goes away with it.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from types import TracebackType

from milepost.broker.coordinator_log import InternalTopic
from milepost.broker.dispatch import Dispatcher
from milepost.broker.dynamic_config import in_force
from milepost.broker.fetch_sessions import FetchSessions
from milepost.broker.topic_errors import InvalidTopic, TopicExists
from milepost.broker.transaction_markers import MarkerWriter
from milepost.clock import Clock, SystemClock
from milepost.cluster.solo import SoloCluster, TopicState
from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.coordinator.consumer_groups import ConsumerGroups
from milepost.coordinator.consumer_settings import ConsumerGroupSettings
from milepost.coordinator.groups import GroupCoordinator
from milepost.coordinator.settings import GroupSettings
from milepost.coordinator.transaction_settings import TransactionSettings
from milepost.coordinator.transactions import TransactionCoordinator
from milepost.errors import InvalidConfiguration
from milepost.files.temporary import TemporaryDirectory
from milepost.log import partition_metadata
from milepost.log.manager import LogManager
from milepost.log.meta_properties import MetaProperties
from milepost.log.partition_name import TopicPartition, topic_name_fault
from milepost.net.connection_limits import ConnectionLimits
from milepost.net.socket_server import Listener, ServerSettings, SocketServer
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.manager import ReplicaManager
from milepost.replica.partition import Partition

logger = logging.getLogger("milepost.broker")

TICK_SECONDS = 0.5


class Broker:
    def __init__(
        self,
        config: BrokerConfig | Mapping[str, object] | None = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ):
        self._temporary: TemporaryDirectory | None = None
        if config is None:
            self._temporary = TemporaryDirectory("milepost-")
            config = {"log.dirs": self._temporary.path, "listeners": "PLAINTEXT://127.0.0.1:0"}
        self.static_config = config if isinstance(config, BrokerConfig) else BrokerConfig.parse(config)
        # What is stored in the cluster may change it: at start, and while the broker runs.
        self.config = self.static_config
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.node_id = self.config.broker_id if self.config.node_id is None else self.config.node_id
        self.logs = LogManager(self.config, clock=self.clock, rng=self.rng)
        self.dispatcher = Dispatcher(self)
        self.fetch_sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock, self.rng)
        self._thread: threading.Thread | None = None

    # Starting.

    def start(self) -> None:
        """Load everything and listen. `run` serves."""
        # Bound first: a port in use should cost nothing.
        self.server = SocketServer(
            self._listeners(), self.dispatcher.handle, self._server_settings(), control_listener=self._control_listener()
        )
        try:
            self._load()
        except BaseException:
            self.server.shutdown()
            raise
        self.server.start()
        self.loop.later(TICK_SECONDS, self._tick)

    def _load(self) -> None:
        self.loop = self.timers = self.server.loop
        # The topics' settings are known before their logs are opened.
        first = self.config.directories[0]
        self.logs.open_directories()
        self.cluster = SoloCluster(first, self.logs.disk, self.rng, self._cluster_id(), self.node_id)
        self.config = self.logs.config = in_force(self.static_config, self.cluster.broker_configs, self.node_id)
        self.logs.topics = {name: LogConfig.parse(topic.configs, self.config) for name, topic in self.cluster.topics.items()}
        self.logs.load_directories()
        self.replicas = ReplicaManager(self.logs, self.loop, self.node_id)
        self.cluster.adopt((name, self._topic_id_on_disk(log.directory)) for name, log in self.logs.logs.items())
        for topic in self.cluster.topics.values():
            self._host(topic)
        self.offsets_topic = InternalTopic(
            self, "__consumer_offsets", self.config.offsets_topic_num_partitions, self.config.offsets_topic_segment_bytes
        )
        self.transactions_topic = InternalTopic(
            self,
            "__transaction_state",
            self.config.transaction_state_log_num_partitions,
            self.config.transaction_state_log_segment_bytes,
        )
        self._start_coordinators()

    def _listeners(self) -> list[Listener]:
        control = self.config.control_plane_listener_name
        return [listener for listener in map(parse_listener, self.config.listeners) if listener.name != control]

    def _control_listener(self) -> Listener | None:
        control = self.config.control_plane_listener_name
        return next((listener for listener in map(parse_listener, self.config.listeners) if listener.name == control), None)

    def _server_settings(self) -> ServerSettings:
        config = self.config
        limits = ConnectionLimits(per_address=config.max_connections_per_ip)
        limits.total = min(limits.total, config.max_connections)
        return ServerSettings(
            num_network_threads=config.num_network_threads,
            num_io_threads=config.num_io_threads,
            queued_max_requests=config.queued_max_requests,
            socket_request_max_bytes=config.socket_request_max_bytes,
            socket_send_buffer_bytes=config.socket_send_buffer_bytes,
            socket_receive_buffer_bytes=config.socket_receive_buffer_bytes,
            socket_listen_backlog_size=config.socket_listen_backlog_size,
            connections_max_idle_ms=config.connections_max_idle_ms,
            limits=limits,
            pooled=config.request_channel_mode == "pooled",
        )

    def _cluster_id(self) -> str:
        """From `meta.properties`, which is written on the first start."""
        directory = self.logs.directories[0]
        meta = directory.read_meta()
        if meta is None or meta.cluster_id is None:
            meta = MetaProperties(version=0, cluster_id=partition_metadata.random_topic_id(self.rng), node_id=self.node_id)
            directory.write_meta(meta)
        for each in self.logs.directories:
            if each.read_meta() is None:
                each.write_meta(meta)
        assert meta.cluster_id is not None
        return meta.cluster_id

    def _topic_id_on_disk(self, directory: str) -> str | None:
        found = partition_metadata.read_partition_metadata(self.logs.disk, f"{directory}/{partition_metadata.FILE_NAME}")
        return found.topic_id if found else None

    def _start_coordinators(self) -> None:
        """The coordinators read their topics before the first client is read."""
        config = self.config
        self.groups = GroupCoordinator(
            self.offsets_topic,
            self.loop,
            self.clock,
            self.cluster,
            GroupSettings(
                min_session_timeout_ms=config.group_min_session_timeout_ms,
                max_session_timeout_ms=config.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                max_size=config.group_max_size,
                offset_metadata_max_bytes=config.offset_metadata_max_bytes,
                offsets_retention_ms=config.offsets_retention_minutes * 60_000,
                offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            ),
        )
        self.groups.consumer_groups = self.consumer_groups = ConsumerGroups(
            self.groups,
            self.cluster,
            ConsumerGroupSettings(
                session_timeout_ms=config.group_consumer_session_timeout_ms,
                heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
                max_size=config.group_consumer_max_size,
                assignors=config.group_consumer_assignors,
                migration_policy=config.group_consumer_migration_policy,
            ),
        )
        self.transactions = TransactionCoordinator(
            self.transactions_topic,
            self.loop,
            self.clock,
            MarkerWriter(self),
            self.cluster.allocate_producer_id,
            TransactionSettings(
                max_timeout_ms=config.transaction_max_timeout_ms,
                id_expiration_ms=config.transactional_id_expiration_ms,
                abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
        )
        for partition in range(self.offsets_topic.partition_count):
            self.groups.load(partition)
        for partition in range(self.transactions_topic.partition_count):
            self.transactions.load(partition)
        self.transactions.start()

    # Topics.

    def create_topic(
        self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None, *, internal: bool = False
    ) -> TopicState:
        """A new topic, with a log for each partition. Raises what CreateTopics answers."""
        self.ensure_new_topic(name)
        settings = dict(configs or {})
        self.logs.topics[name] = LogConfig.parse(settings, self.config)
        topic = self.cluster.create_topic(name, self.config.num_partitions if partitions is None else partitions, settings)
        self._host(topic)
        self.consumer_groups.on_topics_changed()
        return topic

    def ensure_new_topic(self, name: str) -> None:
        """That a topic of this name could be made."""
        fault = topic_name_fault(name)
        if fault is not None:
            raise InvalidTopic(f"topic name {name[:60]!r}: {fault}")
        if name in self.cluster.topics:
            raise TopicExists(f"topic {name} already exists")
        collision = next((known for known in self.cluster.topics if known.replace(".", "_") == name.replace(".", "_")), None)
        if collision is not None:
            raise InvalidTopic(
                f"topic {name} and topic {collision} differ only in dots and underscores, which metrics cannot tell apart"
            )

    def _host(self, topic: TopicState) -> None:
        for number in range(topic.partitions):
            self.replicas.host(TopicPartition(topic.name, number), topic.topic_id, topic.topic_id_text)

    def delete_topic(self, name: str) -> None:
        topic = self.cluster.delete_topic(name)
        self.groups.topics_deleted([name])
        for number in range(topic.partitions):
            self.replicas.drop(TopicPartition(name, number))
        self.logs.topics.pop(name, None)
        self.consumer_groups.on_topics_changed()

    def add_partitions(self, name: str, total: int) -> None:
        self.cluster.add_partitions(name, total)
        self._host(self.cluster.topics[name])
        self.consumer_groups.on_topics_changed()

    def alter_topic_config(self, name: str, configs: Mapping[str, str]) -> None:
        """New settings of a topic, from now on and after a restart."""
        settings = LogConfig.parse(configs, self.config)
        self.cluster.alter_topic_config(name, configs)
        self.logs.topics[name] = settings
        for partition in self.partitions_of(self.cluster.topics[name]):
            partition.log.update_config(settings)

    def use_config(self, config: BrokerConfig) -> None:
        """Go on with other settings; topics that set nothing themselves inherit them."""
        settings = {name: LogConfig.parse(topic.configs, config) for name, topic in self.cluster.topics.items()}
        self.config = self.logs.config = config
        self.logs.topics = settings
        for topic in self.cluster.topics.values():
            for partition in self.partitions_of(topic):
                partition.log.update_config(settings[topic.name])

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
        acceptor = next(acceptor for acceptor in self.server.acceptors if acceptor.listener == listener)
        host, port = acceptor.address
        return ("localhost" if host in ("0.0.0.0", "::") else host), port

    @property
    def bootstrap_servers(self) -> str:
        host, port = self.advertised(self.server.acceptors[0].listener)
        return f"{host}:{port}"

    # Running and stopping.

    def run(self) -> None:
        self.server.run()

    def _tick(self) -> None:
        self.logs.tick()
        self.loop.later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """Ask a broker that runs on another thread to stop."""
        self.server.stop()

    def close(self) -> None:
        """Let go of everything. The logs are left as after a clean stop."""
        self.server.shutdown()
        self.groups.close()
        self.transactions.close()
        self.logs.shutdown()
        if self._temporary is not None:
            self._temporary.remove()

    def __enter__(self) -> Broker:
        self.start()
        self._thread = threading.Thread(target=self.run, name="milepost-broker", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout=30)
        self.close()


def parse_listener(text: str) -> Listener:
    """`PLAINTEXT://127.0.0.1:9092`; without a host all interfaces would be meant, which is refused: there is no authentication yet."""
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon or not port.isdigit() or int(port) > 65535:
        raise InvalidConfiguration(f"listeners: {text!r} is not of the form NAME://HOST:PORT")
    return Listener(name.upper(), host.strip("[]") or "127.0.0.1", int(port))

"""The broker properties that concern logs, and what they mean for a topic that sets nothing itself.

Most are the default of one topic property (`log.segment.bytes` → `segment.bytes`). Where several are, the finer
unit wins: `log.roll.ms` over `log.roll.hours`, `log.retention.ms` over `.minutes` over `.hours`,
`log.flush.interval.ms` over `log.flush.scheduler.interval.ms`. The finer ones have no value until one is given.

Not Kafka's: `log.dir` defaults to `milepost-data` under the working directory (Kafka: a directory in the system's
temporary one), and `log.index.profile` is the default of the topic property `index.profile`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from milepost.config.configuration import Configuration, properties
from milepost.config.definition import DOUBLE_MAX, LIST, LONG_MAX, B, D, Given, I, L, S, Value, declare
from milepost.config.listeners import PROTOCOLS, check_listeners
from milepost.config.security import AUTHORIZERS, check_authorizer, check_security, is_security_property
from milepost.config.topic import COMPRESSION_TYPES, DAY_MS, VERSION, LogConfig
from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
MIB = 1 << 20
QUEUED_BYTES = 256 * MIB


@frozen_dataclass
class BrokerConfig(Configuration):
    kind: ClassVar[str] = "broker property"
    has_promises: ClassVar[bool] = True
    is_secret: ClassVar[Callable[[str], bool]] = staticmethod(is_security_property)

    # Where the logs are.
    log_dirs: tuple[str, ...] | None = declare(LIST, None, "data directories; without them log.dir", nullable=True)
    log_dir: str = declare(S, "milepost-data", "the data directory when log.dirs is not given")

    # Defaults of topics.
    compression_type: str = declare(S, "producer", "default of compression.type", choices=COMPRESSION_TYPES)
    compression_gzip_level: int = declare(I, -1, "default of compression.gzip.level", low=1, high=9, also=(-1,))
    compression_lz4_level: int = declare(I, 9, "default of compression.lz4.level", low=1, high=17)
    compression_zstd_level: int = declare(I, 3, "default of compression.zstd.level", low=-131072, high=22)
    log_cleanup_policy: tuple[str, ...] = declare(LIST, ("delete",), "default of cleanup.policy", choices=("compact", "delete"))
    log_cleaner_delete_retention_ms: int = declare(L, DAY_MS, "default of delete.retention.ms", low=0)
    log_cleaner_max_compaction_lag_ms: int = declare(L, LONG_MAX, "default of max.compaction.lag.ms", low=1)
    log_cleaner_min_compaction_lag_ms: int = declare(L, 0, "default of min.compaction.lag.ms", low=0)
    log_cleaner_min_cleanable_ratio: float = declare(D, 0.5, "default of min.cleanable.dirty.ratio", low=0, high=1)
    log_flush_interval_messages: int = declare(L, LONG_MAX, "default of flush.messages", low=1)
    log_flush_interval_ms: int | None = declare(L, None, "default of flush.ms", low=0, nullable=True)
    log_index_interval_bytes: int = declare(I, 4096, "default of index.interval.bytes", low=0)
    log_index_profile: str = declare(S, "per-batch", "default of index.profile", choices=("per-batch", "per-append"))
    log_index_size_max_bytes: int = declare(I, 10_485_760, "default of segment.index.bytes", low=4)
    log_local_retention_bytes: int = declare(L, -2, "default of local.retention.bytes", low=-2)
    log_local_retention_ms: int = declare(L, -2, "default of local.retention.ms", low=-2)
    log_message_downconversion_enable: bool = declare(B, True, "default of message.downconversion.enable")
    log_message_format_version: str = declare(S, "3.0-IV1", "default of message.format.version", **VERSION)
    log_message_timestamp_after_max_ms: int = declare(L, LONG_MAX, "default of message.timestamp.after.max.ms", low=0)
    log_message_timestamp_before_max_ms: int = declare(L, LONG_MAX, "default of message.timestamp.before.max.ms", low=0)
    log_message_timestamp_difference_max_ms: int = declare(L, LONG_MAX, "default of message.timestamp.difference.max.ms", low=0)
    log_message_timestamp_type: str = declare(
        S, "CreateTime", "default of message.timestamp.type", choices=("CreateTime", "LogAppendTime")
    )
    log_preallocate: bool = declare(B, False, "default of preallocate")
    log_retention_bytes: int = declare(L, -1, "default of retention.bytes")
    log_retention_ms: int | None = declare(L, None, "default of retention.ms", nullable=True)
    log_retention_minutes: int | None = declare(I, None, "default of retention.ms, in minutes", nullable=True)
    log_retention_hours: int = declare(I, 168, "default of retention.ms, in hours")
    log_roll_ms: int | None = declare(L, None, "default of segment.ms", low=1, nullable=True)
    log_roll_hours: int = declare(I, 168, "default of segment.ms, in hours", low=1)
    log_roll_jitter_ms: int | None = declare(L, None, "default of segment.jitter.ms", low=0, nullable=True)
    log_roll_jitter_hours: int = declare(I, 0, "default of segment.jitter.ms, in hours", low=0)
    log_segment_bytes: int = declare(I, 1 << 30, "default of segment.bytes", low=14)
    log_segment_delete_delay_ms: int = declare(L, 60_000, "default of file.delete.delay.ms", low=0)
    message_max_bytes: int = declare(I, 1_048_588, "default of max.message.bytes", low=0)
    min_insync_replicas: int = declare(I, 1, "default of min.insync.replicas", low=1)
    unclean_leader_election_enable: bool = declare(B, False, "default of unclean.leader.election.enable")

    # The work around the logs.
    log_retention_check_interval_ms: int = declare(L, 300_000, "time between two retention passes", low=1)
    log_flush_scheduler_interval_ms: int = declare(L, LONG_MAX, "time between two checks for logs to fsync")
    log_flush_offset_checkpoint_interval_ms: int = declare(I, 60_000, "time between two recovery point checkpoints", low=0)
    log_flush_start_offset_checkpoint_interval_ms: int = declare(I, 60_000, "time between two log start checkpoints", low=0)
    log_initial_task_delay_ms: int = declare(L, 30_000, "time before the first background task", low=0)
    log_dir_failure_timeout_ms: int = declare(L, 30_000, "how long a failed directory may stay unreported", low=1)
    num_recovery_threads_per_data_dir: int = declare(I, 1, "threads that load the logs of one directory", low=1)
    num_partitions: int = declare(I, 1, "partitions of a topic that does not say", low=1)
    log_cleaner_enable: bool = declare(B, True, "run the cleaner")
    log_cleaner_threads: int = declare(I, 1, "cleaner threads", low=0)
    log_cleaner_dedupe_buffer_size: int = declare(L, 134_217_728, "memory of the offset maps of all cleaner threads")
    log_cleaner_io_buffer_size: int = declare(I, 524_288, "memory of the I/O buffers of all cleaner threads", low=0)
    log_cleaner_io_buffer_load_factor: float = declare(D, 0.9, "how full an offset map may get")
    log_cleaner_io_max_bytes_per_second: float = declare(D, DOUBLE_MAX, "speed limit of the cleaner")
    log_cleaner_backoff_ms: int = declare(L, 15_000, "pause of the cleaner when nothing is dirty", low=0)
    producer_id_expiration_ms: int = declare(I, DAY_MS, "a producer silent for longer is forgotten", low=1)
    producer_id_expiration_check_interval_ms: int = declare(I, 600_000, "time between two checks for such producers", low=1)
    transaction_max_timeout_ms: int = declare(I, 900_000, "longest transaction a producer may ask for", low=1)
    transaction_partition_verification_enable: bool = declare(B, True, "ask the coordinator before a transactional append")
    replica_high_watermark_checkpoint_interval_ms: int = declare(L, 5000, "time between two high watermark checkpoints")

    # Who this broker is and where it listens.
    broker_id: int = declare(I, 0, "id of this broker", low=0)
    node_id: int | None = declare(I, None, "another name of broker.id", low=0, nullable=True)
    listeners: tuple[str, ...] = declare(
        LIST, ("PLAINTEXT://127.0.0.1:9092",), "where to listen: NAME://HOST:PORT, port 0 for a free one"
    )
    advertised_listeners: tuple[str, ...] | None = declare(
        LIST, None, "what clients are told; without them the listeners", nullable=True
    )
    control_plane_listener_name: str | None = declare(S, None, "the listener for requests of the controller", nullable=True)
    inter_broker_listener_name: str | None = declare(
        S, None, "the listener for other brokers; without it the first one", nullable=True
    )
    listener_security_protocol_map: tuple[str, ...] = declare(
        LIST,
        tuple(f"{protocol}:{protocol}" for protocol in PROTOCOLS),
        "the protocol of each listener's name",
        pattern=rf"(?i:[A-Z0-9_.-]+:({'|'.join(PROTOCOLS)}))",
        pattern_doc=f"NAME:PROTOCOL pairs between commas, each protocol one of {', '.join(PROTOCOLS)}",
    )
    security_inter_broker_protocol: str | None = declare(
        S,
        None,
        "the protocol of the listener for other brokers; only without inter.broker.listener.name",
        choices=("PLAINTEXT",),
        nullable=True,
    )

    milepost_insecure_listener: bool = declare(
        B, False, "serve listeners that can be reached from elsewhere, and where nobody has to say who it is"
    )
    secrets: tuple[Given, ...] = ()
    """What was given of `config/security`, for all listeners or for one."""

    # Who may do what.
    authorizer_class_name: str = declare(
        S,
        "",
        "who decides what a client may do: Kafka's AclAuthorizer or StandardAuthorizer, the same here; empty: everything is allowed",
        pattern="|".join(("", *map(re.escape, AUTHORIZERS))),
        pattern_doc=f"{' or '.join(AUTHORIZERS)}: no other class is served",
    )
    super_users: str | None = declare(
        S,
        None,
        "principals that may do everything: User:admin;User:kafka",
        pattern=r"|[^:;]+:[^;]+(;[^:;]+:[^;]+)*;?",
        pattern_doc="principals with semicolons between them, such as User:admin;User:kafka",
        nullable=True,
    )
    allow_everyone_if_no_acl_found: bool | None = declare(
        B, None, "whether everybody may use what no ACL is about; not given: false", nullable=True
    )

    # The cluster.
    zookeeper_connect: str | None = declare(
        S,
        None,
        "HOST:PORT,HOST:PORT/chroot of the ZooKeeper that keeps the cluster; without it the broker is alone",
        nullable=True,
    )
    zookeeper_session_timeout_ms: int = declare(I, 18_000, "a broker silent for longer counts as failed", low=1)
    zookeeper_connection_timeout_ms: int | None = declare(
        I, None, "how long to wait for ZooKeeper at the start; without it the session timeout", low=1, nullable=True
    )
    broker_rack: str | None = declare(S, None, "where this broker stands: replicas are spread over racks", nullable=True)
    inter_broker_protocol_version: str = declare(S, "3.9", "how brokers talk to each other, 2.3 to 3.9")
    milepost_broker_proof_required: bool = declare(
        B, True, "ours: other brokers have to prove that they are; false in a cluster with brokers of Apache Kafka, which cannot"
    )
    auto_leader_rebalance_enable: bool = declare(B, True, "elect preferred leaders again")
    leader_imbalance_check_interval_seconds: int = declare(L, 300, "time between two checks of the balance of leaders", low=1)
    leader_imbalance_per_broker_percentage: int = declare(
        I, 10, "percentage of a broker's partitions that others may lead", low=0
    )
    controlled_shutdown_enable: bool = declare(B, True, "move leadership to other brokers before stopping")
    controlled_shutdown_max_retries: int = declare(I, 3, "how often that is tried before stopping anyway", low=0)
    controlled_shutdown_retry_backoff_ms: int = declare(L, 5000, "time between two tries", low=0)
    replica_lag_time_max_ms: int = declare(L, 30_000, "a follower behind for longer is not in sync", low=1)
    replica_fetch_wait_max_ms: int = declare(I, 500, "how long a follower's fetch waits for records", low=0)
    replica_fetch_min_bytes: int = declare(I, 1, "bytes that end that wait", low=0)
    replica_fetch_max_bytes: int = declare(I, 1_048_576, "most bytes of a partition in a follower's fetch", low=0)
    replica_fetch_response_max_bytes: int = declare(I, 10_485_760, "most bytes of such a fetch", low=0)
    replica_fetch_backoff_ms: int = declare(I, 1000, "pause after a fetch that failed", low=0)
    replica_selector_class: str | None = declare(
        S,
        None,
        "who chooses the replica that a consumer reads from; without it the leader",
        choices=("org.apache.kafka.common.replica.RackAwareReplicaSelector",),
        nullable=True,
    )
    num_replica_fetchers: int = declare(I, 1, "fetchers for each leader that is followed", low=1)
    leader_replication_throttled_rate: int = declare(
        L, LONG_MAX, "bytes a second for the replicas that leader.replication.throttled.replicas of topics name", low=0
    )
    follower_replication_throttled_rate: int = declare(
        L, LONG_MAX, "bytes a second for the replicas that follower.replication.throttled.replicas of topics name", low=0
    )
    replication_quota_window_num: int = declare(I, 11, "samples over which these rates are measured", low=1)
    replication_quota_window_size_seconds: int = declare(I, 1, "the time of each sample", low=1)

    # The network.
    num_network_threads: int = declare(I, 3, "processors per listener", low=1)
    num_io_threads: int = declare(I, 8, "request handlers, when there is a pool of them", low=1)
    queued_max_requests: int = declare(I, 500, "requests that may wait for a handler", low=1)
    queued_max_request_bytes: int = declare(
        L, QUEUED_BYTES, "received bytes of requests that may be held at a time, -1 for no limit"
    )
    socket_request_max_bytes: int = declare(I, 104_857_600, "largest request", low=1)
    socket_send_buffer_bytes: int = declare(I, 102_400, "SO_SNDBUF, -1 for the system's", low=-1)
    socket_receive_buffer_bytes: int = declare(I, 102_400, "SO_RCVBUF, -1 for the system's", low=-1)
    socket_listen_backlog_size: int = declare(I, 50, "connections that may wait to be accepted", low=1)
    connections_max_idle_ms: int = declare(L, 600_000, "a connection silent for longer is closed")
    max_connections: int = declare(I, 2**31 - 1, "connections in all", low=0)
    max_connections_per_ip: int = declare(I, 2**31 - 1, "connections from one address", low=0)
    max_connections_per_ip_overrides: tuple[str, ...] = declare(
        LIST,
        (),
        "other limits for some addresses",
        pattern=r".+:[0-9]+",
        pattern_doc="ADDRESS:COUNT pairs between commas",
    )
    max_connection_creation_rate: int = declare(I, 2**31 - 1, "connections that may be opened per second", low=1)
    request_channel_mode: str = declare(
        S,
        "inline",
        "ours: handle requests on the network thread; pooled: by Kafka's threads, for teaching",
        choices=("inline", "pooled"),
    )
    milepost_busy_poll: bool = declare(B, True, "ours: stay awake for a moment after an answer when requests come one by one")

    # Metrics.
    milepost_metrics_port: int | None = declare(
        I, None, "ours: the port where metrics are served over HTTP, 0 for a free one", low=0, high=65535, nullable=True
    )
    milepost_metrics_host: str = declare(S, "127.0.0.1", "ours: the address for that port")
    milepost_metrics_dialect: str = declare(
        S, "strimzi", "ours: whose dashboards the names of metrics are for", choices=("strimzi", "confluent")
    )

    # Topics and fetches.
    auto_create_topics_enable: bool = declare(B, True, "create a topic when a client asks for it")
    default_replication_factor: int = declare(I, 1, "replicas of a topic that does not say", low=1)
    delete_topic_enable: bool = declare(B, True, "whether topics may be deleted")
    fetch_max_bytes: int = declare(I, 57_671_680, "most bytes of one fetch answer", low=1024)
    max_incremental_fetch_session_cache_slots: int = declare(I, 1000, "fetch sessions that are kept", low=0)
    milepost_fetch_session_cache_partitions: int = declare(I, 100_000, "ours: partitions in all fetch sessions together", low=0)
    milepost_produce_max_decompressed_bytes: int = declare(
        L, 33_554_432, "ours: most bytes that each MB of a produce request may be decompressed to, and a smaller request", low=1
    )

    # Groups.
    group_initial_rebalance_delay_ms: int = declare(I, 3000, "how long an empty group waits for more members")
    group_min_session_timeout_ms: int = declare(I, 6000, "shortest session timeout a member may ask for")
    group_max_session_timeout_ms: int = declare(I, 1_800_000, "longest session timeout a member may ask for")
    group_max_size: int = declare(I, 2**31 - 1, "most members of a group", low=1)
    group_consumer_heartbeat_interval_ms: int = declare(I, 5000, "heartbeats of the consumer protocol", low=1)
    group_consumer_session_timeout_ms: int = declare(I, 45_000, "session timeout of the consumer protocol", low=1)
    group_consumer_min_session_timeout_ms: int = declare(I, 45_000, "least that may be set for a group", low=1)
    group_consumer_max_session_timeout_ms: int = declare(I, 60_000, "most that may be set for a group", low=1)
    group_consumer_min_heartbeat_interval_ms: int = declare(I, 5000, "least that may be set for a group", low=1)
    group_consumer_max_heartbeat_interval_ms: int = declare(I, 15_000, "most that may be set for a group", low=1)
    group_consumer_assignment_interval_ms: int = declare(
        I, 1000, "least time between two assignments of a consumer group; 0: at once", low=0
    )
    group_consumer_min_assignment_interval_ms: int = declare(I, 0, "least that may be set for a group", low=0)
    group_consumer_max_assignment_interval_ms: int = declare(I, 15_000, "most that may be set for a group", low=0)
    group_consumer_max_size: int = declare(I, 2**31 - 1, "most members of a consumer group", low=1)
    group_consumer_assignors: tuple[str, ...] = declare(
        LIST,
        ("uniform", "range"),
        "assignors of the consumer protocol, the first is the default",
        choices=("uniform", "range"),
    )
    group_consumer_migration_policy: str = declare(
        S,
        "bidirectional",
        "whether groups may change between the protocols",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    offset_metadata_max_bytes: int = declare(I, 4096, "longest metadata of an offset commit", low=0)
    offsets_commit_timeout_ms: int = declare(I, 5000, "how long a commit may wait for its replicas", low=1)
    offsets_retention_minutes: int = declare(I, 10_080, "how long offsets of an empty group stay", low=1)
    offsets_retention_check_interval_ms: int = declare(L, 600_000, "time between two checks for expired offsets", low=1)
    offsets_topic_num_partitions: int = declare(I, 50, "partitions of __consumer_offsets", low=1)
    offsets_topic_replication_factor: int = declare(I, 3, "replicas of __consumer_offsets; no more than there are brokers", low=1)
    offsets_topic_segment_bytes: int = declare(I, 104_857_600, "segment.bytes of __consumer_offsets", low=1)

    # Transactions.
    transaction_state_log_num_partitions: int = declare(I, 50, "partitions of __transaction_state", low=1)
    transaction_state_log_replication_factor: int = declare(
        I, 3, "replicas of __transaction_state; no more than there are brokers", low=1
    )
    transaction_state_log_segment_bytes: int = declare(I, 104_857_600, "segment.bytes of __transaction_state", low=1)
    transaction_state_log_min_isr: int = declare(I, 2, "min.insync.replicas of __transaction_state", low=1)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = declare(
        I, 10_000, "time between two checks for timed out transactions", low=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = declare(
        I, 3_600_000, "time between two checks for expired ids", low=1
    )
    transactional_id_expiration_ms: int = declare(I, 604_800_000, "a transactional id unused for longer is forgotten", low=1)

    def check(self) -> None:
        if not self.directories:
            raise InvalidConfiguration("log.dirs and log.dir are both empty: name at least one data directory.")
        check_security(self, check_listeners(self))
        check_authorizer(self)
        if self.retention_ms == 0:
            raise InvalidConfiguration(
                "log.retention (ms, minutes or hours) = 0 is not allowed: give at least 1 ms, or -1 to keep everything."
            )
        # What nobody chose does not speak against a larger request: the last one that gets something may get more than there is.
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes and self.queued_max_request_bytes != QUEUED_BYTES:
            raise InvalidConfiguration(
                f"queued.max.request.bytes = {self.queued_max_request_bytes} is below socket.request.max.bytes = "
                f"{self.socket_request_max_bytes}: raise the first, lower the second, or give -1 for no limit."
            )
        if not self.group_consumer_assignors:
            raise InvalidConfiguration(
                "group.consumer.assignors is empty: give uniform, range, or both; the first is the default."
            )
        interval = self.group_consumer_assignment_interval_ms
        low, high = self.group_consumer_min_assignment_interval_ms, self.group_consumer_max_assignment_interval_ms
        if not low <= interval <= high:
            raise InvalidConfiguration(
                f"group.consumer.assignment.interval.ms = {interval} is not within group.consumer.min.assignment.interval.ms = {low} "
                f"and group.consumer.max.assignment.interval.ms = {high}: change the first, or the limit it breaks."
            )
        low, high = self.log_cleaner_min_compaction_lag_ms, self.log_cleaner_max_compaction_lag_ms
        if low > high:
            raise InvalidConfiguration(
                f"log.cleaner.min.compaction.lag.ms = {low} is above log.cleaner.max.compaction.lag.ms = {high}: "
                "lower the first or raise the second."
            )
        threads = self.log_cleaner_threads
        if threads and self.log_cleaner_dedupe_buffer_size // threads <= MIB:
            raise InvalidConfiguration(
                f"log.cleaner.dedupe.buffer.size = {self.log_cleaner_dedupe_buffer_size} gives each of "
                f"{threads} log.cleaner.threads no more than 1 MiB: give more than {threads * MIB} bytes."
            )

    @property
    def directories(self) -> tuple[str, ...]:
        """The data directories, in order."""
        chosen = self.log_dirs if self.log_dirs is not None else (self.log_dir,)
        return tuple(directory for directory in chosen if directory)

    @property
    def retention_ms(self) -> int:
        given = first_given(
            self.log_retention_ms,
            None if self.log_retention_minutes is None else self.log_retention_minutes * MINUTE_MS,
            self.log_retention_hours * HOUR_MS,
        )
        return max(given, -1)

    @property
    def roll_ms(self) -> int:
        return first_given(self.log_roll_ms, self.log_roll_hours * HOUR_MS)

    @property
    def roll_jitter_ms(self) -> int:
        return first_given(self.log_roll_jitter_ms, self.log_roll_jitter_hours * HOUR_MS)

    @property
    def flush_ms(self) -> int:
        return first_given(self.log_flush_interval_ms, max(self.log_flush_scheduler_interval_ms, 0))

    def topic_defaults(self) -> dict[str, Value]:
        """The topic properties, by Kafka's names, that a topic has when it sets none itself."""
        resolved: dict[str, Value] = {
            "retention.ms": self.retention_ms,
            "segment.ms": self.roll_ms,
            "segment.jitter.ms": self.roll_jitter_ms,
            "flush.ms": self.flush_ms,
        }
        for prop in properties(LogConfig).values():
            if prop.broker and prop.name not in resolved:
                resolved[prop.name] = self.get(prop.broker[0])
        return resolved


def first_given(*values: int | None) -> int:
    return next(value for value in values if value is not None)

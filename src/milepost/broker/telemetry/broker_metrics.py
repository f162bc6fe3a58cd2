"""A broker's metrics, under Kafka's names (docs/metrics.md lists it).

Requests and connections are counted in `net`, what goes through topics where it is appended and fetched. The rest is not counted
at all: it is computed when it is read.

What only several brokers can have is given all the same where an alert watches it (`replication_metrics`): with one broker nothing is
under-replicated, and it is the controller. A partition's replicas are reported by its leader; elsewhere they are 0, as in Kafka.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from milepost.broker.telemetry.metered_disk import MeteredDisk
from milepost.coordinator.consumer.found_topics import kept_by
from milepost.files import Disk
from milepost.log.log import Log
from milepost.metrics.names import Kind, MetricName, own
from milepost.metrics.registry import Labels, Registry, Sample
from milepost.replica.partition import Partition
from milepost.replica.purgatory import COMMITTED, START
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.parts import Parts

RUNNING = 3
GROUP_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
CONSUMER_GROUP_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
STATM = "/proc/self/statm"
PAGE_BYTES = 4096
STARTED = time.time()

# name -> what it says, and what it is for a log or a partition
LOG_GAUGES: dict[str, tuple[str, Callable[[Log], int]]] = {
    "Size": ("Bytes of the log", lambda log: log.segments.size_in_bytes),
    "NumLogSegments": ("Segments of the log", lambda log: len(log.segments)),
    "LogStartOffset": ("First offset that can be read", lambda log: log.start_offset),
    "LogEndOffset": ("Offset of the next record", lambda log: log.end_offset),
}
PARTITION_GAUGES: dict[str, tuple[str, Callable[[Partition], int]]] = {
    "UnderReplicated": (
        "1 when a replica is not in sync",
        lambda part: part.is_leader and len(part.in_sync_replicas) < len(part.replicas),
    ),
    "UnderMinIsr": (
        "1 when fewer replicas than min.insync.replicas are in sync",
        lambda part: part.is_leader and spare_replicas(part) < 0,
    ),
    "AtMinIsr": (
        "1 when as many replicas as min.insync.replicas are in sync",
        lambda part: part.is_leader and spare_replicas(part) == 0,
    ),
    "InSyncReplicasCount": ("Replicas in sync", lambda part: len(part.in_sync_replicas) if part.is_leader else 0),
    "ReplicasCount": ("Replicas", lambda part: len(part.replicas) if part.is_leader else 0),
    "LastStableOffsetLag": (
        "Records behind the last stable offset",
        lambda part: part.log.high_watermark - part.log.last_stable_offset,
    ),
}


def spare_replicas(partition: Partition) -> int:
    return len(partition.in_sync_replicas) - partition.log.config.min_insync_replicas


class BrokerMetrics:
    def __init__(self, broker: Parts):
        self._broker = broker
        self._replication = broker.topology.view.replication_metrics()
        self.registry = Registry()
        broker.server.metrics.register(self.registry)
        broker.request_metrics.register(self.registry)
        broker.replicas.topic_metrics.register(self.registry)
        self._register_broker()
        self._register_replicas()
        self._register_controller()
        self._register_logs()
        self._register_groups()
        self._register_process()

    def _gauge(self, domain: str, type: str, name: str, help: str, value: Callable[[], float]) -> None:
        self.registry.gauge(MetricName(domain, type, name), help, value)

    def _counter(self, domain: str, type: str, name: str, help: str, value: Callable[[], float] = lambda: 0) -> None:
        self.registry.counter(MetricName(domain, type, name), help, value)

    def _register_broker(self) -> None:
        broker, registry = self._broker, self.registry
        self._gauge("kafka.server", "KafkaServer", "BrokerState", "What the broker is doing, 3 is running", lambda: RUNNING)
        for name, help in (("PurgatorySize", "Requests that wait for something"), ("NumDelayedOperations", "The same")):
            registry.add(MetricName("kafka.server", "DelayedOperationPurgatory", name), Kind.GAUGE, help, self._waiting)
        sessions = broker.fetch_sessions
        cache = "FetchSessionCache"
        self._gauge("kafka.server", cache, "NumIncrementalFetchSessions", "Fetch sessions", lambda: len(sessions))
        self._gauge(
            "kafka.server", cache, "NumIncrementalFetchPartitionsCached", "Their partitions", lambda: sessions.partition_count
        )
        self._counter(
            "kafka.server",
            cache,
            "IncrementalFetchSessionEvictionsPerSec",
            "Fetch sessions that made room for others",
            lambda: sessions.evictions,
        )
        registry.gauge(
            own("pending_members"),
            "Member ids that were given out and not used yet",
            lambda: len(broker.groups.rebalancer.pending),
        )
        registry.gauge(
            own("unused_transactional_ids"),
            "Transactional ids without a transaction since their producer began",
            lambda: broker.transactions.unused_ids,
        )
        registry.counter(
            own("fetch_sessions_refused_total"), "Fetch sessions without room for their partitions", lambda: sessions.refusals
        )
        authorizer = broker.acl_authorizer
        if authorizer is not None:
            registry.counter(own("authorizer_checks_total"), "Questions to the authorizer", lambda: authorizer.checks)
            registry.counter(
                own("authorizer_denials_total"), "Resources that were denied to who named them", lambda: authorizer.denials.count
            )
            registry.gauge(own("authorizer_acls"), "ACLs in force", lambda: len(authorizer.acls or ()))
        slices = broker.dispatcher.slices
        registry.gauge(own("requests_suspended"), "Long requests that wait for their next slice", lambda: slices.suspended)
        registry.gauge(
            own("request_longest_slice_seconds"), "Longest slice of a long request since the start", lambda: slices.longest
        )
        registry.counter(
            own("produce_batches_aside_total"),
            "Produced batches that were validated on another thread",
            lambda: broker.record_examiner.batches_in_background,
        )
        registry.counter(
            own("produce_batches_over_budget_total"),
            "Produced batches that would be decompressed to more than their request may",
            lambda: broker.record_examiner.batches_refused,
        )

    def _waiting(self) -> Iterator[Sample]:
        # Fetches wait for a partition; others for something about it, or about something else, which is in front.
        keys = [each.keys[0] for each in self._broker.replicas.purgatory.waiting()]
        reasons = Counter("Fetch" if isinstance(key, TopicPartition) else key[0] for key in keys if isinstance(key, tuple))
        for operation, reason in (("Produce", COMMITTED), ("Fetch", "Fetch"), ("DeleteRecords", START)):
            yield (("delayedOperation", operation),), reasons[reason]

    def _has_late_transaction(self, partition: Partition) -> bool:
        broker = self._broker
        longest_ms = broker.config.transaction_max_timeout_ms
        return partition.is_leader and partition.log.producers.is_transaction_late(broker.clock.now_ms(), longest_ms)

    def _register_replicas(self) -> None:
        replicas, manager = self._broker.replicas, "ReplicaManager"

        def count(name: str, help: str, holds: Callable[[Partition], bool]) -> None:
            self._gauge("kafka.server", manager, name, help, lambda: sum(map(holds, list(replicas.partitions.values()))))

        self._gauge("kafka.server", manager, "PartitionCount", "Partitions on this broker", lambda: len(replicas.partitions))
        count("LeaderCount", "Partitions that this broker leads", lambda part: part.is_leader)
        for name, gauge, help in (
            ("UnderReplicatedPartitions", "UnderReplicated", "Partitions with replicas that are not in sync"),
            ("UnderMinIsrPartitionCount", "UnderMinIsr", "Partitions below min.insync.replicas"),
            ("AtMinIsrPartitionCount", "AtMinIsr", "Partitions at min.insync.replicas"),
        ):
            count(name, help, lambda part, value=PARTITION_GAUGES[gauge][1]: bool(value(part)))  # type: ignore[misc]
        count("PartitionsWithLateTransactionsCount", "Led partitions with a hanging transaction", self._has_late_transaction)
        count("OfflineReplicaCount", "Partitions whose data directory is offline", lambda part: part.log.is_failed)
        replication = self._replication
        for name, help, counted in (
            ("IsrShrinksPerSec", "ISR shrinks: replicas that left the in-sync replicas", lambda: replication.isr_shrinks),
            ("IsrExpandsPerSec", "ISR expands: replicas that joined the in-sync replicas", lambda: replication.isr_expands),
            ("FailedIsrUpdatesPerSec", "Changes of in-sync replicas that failed", lambda: replication.failed_isr_updates),
        ):
            self._counter("kafka.server", manager, name, help, counted)
        self._counter(
            "kafka.server",
            "ZooKeeper",
            "UnreadableZnodes",
            "Znodes that could not be parsed",
            lambda: replication.unreadable_znodes,
        )
        self._gauge(
            "kafka.server",
            "LeaderReplication",
            "byte-rate",
            "Bytes a second to followers, of throttled partitions",
            lambda: replication.leader_byte_rate,
        )
        self._gauge(
            "kafka.server",
            "FollowerReplication",
            "byte-rate",
            "Bytes a second from leaders, of throttled partitions",
            lambda: replication.follower_byte_rate,
        )
        self.registry.add(
            MetricName("kafka.server", "ReplicaFetcherManager", "MaxLag"),
            Kind.GAUGE,
            "Records the slowest follower is behind",
            lambda: (((("clientId", "Replica"),), replication.max_lag),),
        )
        for name, (help, value) in PARTITION_GAUGES.items():
            self.registry.add(
                MetricName("kafka.cluster", "Partition", name),
                Kind.GAUGE,
                help,
                lambda value=value: self._partitions(value),  # type: ignore[misc]
            )

    def _partitions(self, value: Callable[[Partition], int]) -> Iterator[Sample]:
        for partition in list(self._broker.replicas.partitions.values()):
            yield labels(partition.log), value(partition)

    def _register_controller(self) -> None:
        broker, replication, controller = self._broker, self._replication, "KafkaController"

        def gauge(name: str, help: str, value: Callable[[], float]) -> None:
            self._gauge("kafka.controller", controller, name, help, value)

        gauge("ActiveControllerCount", "1 where the controller is", lambda: int(broker.topology.view.is_controller))
        gauge("OfflinePartitionsCount", "Partitions without a leader", lambda: replication.offline_partitions)
        gauge(
            "PreferredReplicaImbalanceCount",
            "Partitions that are not led by their preferred replica",
            lambda: replication.imbalanced_partitions,
        )
        gauge("GlobalTopicCount", "Topics of the cluster", lambda: replication.topics)
        gauge("GlobalPartitionCount", "Partitions of the cluster", lambda: replication.partitions)
        self._counter(
            "kafka.controller",
            "ControllerStats",
            "UncleanLeaderElectionsPerSec",
            "Unclean elections, which may have lost records",
            lambda: replication.unclean_elections,
        )
        self.registry.summary(
            MetricName("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs"),
            "Time of a change of brokers, with the elections that it needs",
            replication.election_times,
        )

    def _register_logs(self) -> None:
        logs, registry = self._broker.logs, self.registry
        for name, (help, value) in LOG_GAUGES.items():
            registry.add(MetricName("kafka.log", "Log", name), Kind.GAUGE, help, lambda value=value: self._logs(value))  # type: ignore[misc]
        self._gauge("kafka.log", "LogManager", "OfflineLogDirectoryCount", "Data directories offline", lambda: len(logs.offline))
        registry.add(
            MetricName("kafka.log", "LogManager", "LogDirectoryOffline"),
            Kind.GAUGE,
            "1 when the data directory is offline",
            lambda: [((("logDirectory", path),), path in logs.offline) for path in logs.config.directories],
        )
        if isinstance(logs.disk, MeteredDisk):
            registry.summary(
                MetricName("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs"), "Time of an fsync", logs.disk.flush_times
            )
        cleaner = logs.cleaner
        self._gauge(
            "kafka.log",
            "LogCleanerManager",
            "uncleanable-partitions-count",
            "Partitions that are not compacted any more because of damage",
            lambda: len(cleaner.uncleanable),
        )
        self._gauge(
            "kafka.log",
            "LogCleaner",
            "cleaner-recopy-percent",
            "What the last cleanings wrote, in percent of what they read",
            self._recopied,
        )

    def _recopied(self) -> float:
        stats = list(self._broker.logs.cleaner.last_stats.values())
        read = sum(each.bytes_read for each in stats)
        return 100 * sum(each.bytes_written for each in stats) / read if read else 0.0

    def _logs(self, value: Callable[[Log], int]) -> Iterator[Sample]:
        for log in list(self._broker.logs.logs.values()):
            yield labels(log), value(log)

    def _register_groups(self) -> None:
        groups, manager = self._broker.groups, "GroupMetadataManager"

        def gauge(name: str, help: str, value: Callable[[], float]) -> None:
            self._gauge("kafka.coordinator.group", manager, name, help, value)

        def in_state(state: str) -> float:
            return sum(group.state_name == state for group in list(groups.groups.values()))

        gauge("NumGroups", "Groups", lambda: len(groups.groups))
        gauge("NumOffsets", "Committed offsets", lambda: sum(len(groups.offsets.of(group)) for group in groups.offsets.groups()))
        gauge(
            "NumRegularExpressionTopics",
            "Names of topics kept for the patterns of consumer groups",
            lambda: sum(kept_by(list(groups.groups.values())).values()),
        )
        for state in GROUP_STATES:
            gauge(f"NumGroups{state}", f"Groups that are {state}", lambda state=state: in_state(state))  # type: ignore[misc]
        coordinator = "group-coordinator-metrics"
        self.registry.add(
            MetricName("kafka.server", coordinator, "group-count"), Kind.GAUGE, "Groups by protocol", self._groups_by_protocol
        )
        self.registry.add(
            MetricName("kafka.server", coordinator, "consumer-group-count"),
            Kind.GAUGE,
            "Groups of the consumer protocol by state",
            self._consumer_groups_by_state,
        )

    def _groups_by_protocol(self) -> Iterator[Sample]:
        counts = Counter(group.kind for group in list(self._broker.groups.groups.values()))
        for kind in ("classic", "consumer"):
            yield (("protocol", kind),), counts[kind]

    def _consumer_groups_by_state(self) -> Iterator[Sample]:
        groups = [group for group in list(self._broker.groups.groups.values()) if group.kind == "consumer"]
        counts = Counter(group.state_name for group in groups)
        for state in CONSUMER_GROUP_STATES:
            yield (("state", state.lower()),), counts[state]

    def _register_process(self) -> None:
        def process(name: str) -> MetricName:
            return MetricName("process", "", name)

        self.registry.counter(process("cpu_seconds_total"), "Processor time of this process", time.process_time)
        self.registry.gauge(process("start_time_seconds"), "When this process started", lambda: STARTED)
        self.registry.gauge(process("resident_memory_bytes"), "Memory of this process", lambda: resident_bytes(Disk()))


def labels(log: Log) -> Labels:
    return (("topic", log.partition.topic), ("partition", str(log.partition.partition)))


def resident_bytes(disk: Disk) -> float:
    fd = disk.open(STATM)
    try:
        return int(disk.pread(fd, 200, 0).split()[1]) * PAGE_BYTES
    finally:
        disk.close(fd)

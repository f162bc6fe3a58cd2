"""A broker over directories that stay as they are: copies, backups, or what a running Kafka has.

It serves what is in them to any client and writes nothing: logs are loaded in memory (`log/attached_directories`), and its authorizer
denies whatever would write (`authorizer.ReadOnly`). ACLs are not read from a copy: with `authorizer.class.name` only `super.users`, and
whoever `allow.everyone.if.no.acl.found` lets, may read. Consumers work as ever, in groups too: members and committed offsets live in
memory and go with the broker. They begin with what `__consumer_offsets` says, if it is attached, and transactions are shown as
`__transaction_state` has them: none is ended here, however old.

Every record that is in a directory is served, also what a replica had not known to be committed: a copy has no other replica to ask.

A person names partition directories, or data directories full of them. In a data directory only what a broker would serve counts: not
what is marked as deleted, stray or on its way in, and not Kafka's own log of its metadata. A directory that is named itself is taken
whatever mark it carries: that is how deleted records are looked at again.

The cluster has whatever topics are found. Where a data directory holds milepost's own `milepost.cluster.json`, they have the ids, the
settings and the number of partitions that stand there. Kafka keeps those elsewhere, so a topic of Kafka's has the id of its
`partition.metadata`, no settings, and as many partitions as its highest number says. A partition that was not attached has no leader;
clients are told so (see `broker/requests/metadata`).
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.broker.authorizer import ReadOnly
from milepost.broker.broker import Broker, configured, configured_id, topic_id_on_disk
from milepost.broker.configs.dynamic_config import use_config
from milepost.broker.dispatch import served_apis
from milepost.broker.internal_topics.coordinator_log import Done, InternalTopic
from milepost.broker.internal_topics.coordinators import Coordinators
from milepost.broker.kinds.alone import NobodyElse
from milepost.broker.topology import alone
from milepost.broker.topology.alone_topics import AloneTopics
from milepost.clock import Clock
from milepost.cluster.change_log import UnwrittenChanges
from milepost.cluster.solo import SoloCluster
from milepost.cluster.written_topics import topics_written_down
from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.errors import KafkaStorage
from milepost.files import Disk, Overlay
from milepost.inspect.paths import PathKind, look_at, partitions_in
from milepost.log.attached_directories import AttachedDirectories
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.log.manager import LogManager
from milepost.log.own_directories import NOT_PARTITIONS
from milepost.protocol.error_codes import ErrorCode
from milepost.record.records import Record
from milepost.replica.manager import ReplicaManager
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.coordinator.transactions.pending_markers import Markers
    from milepost.log.producer_state.verification import VerificationGuard

NEVER = str(2**31 - 1)
NOT_SERVED = ("AlterPartitionReassignments", "WriteTxnMarkers")
# Nothing expires, and nothing is created on request.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
    "offsets.retention.minutes": NEVER,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": NEVER,
    "transaction.remove.expired.transaction.cleanup.interval.ms": NEVER,
}


class AttachedBroker(Broker):
    cluster: SoloCluster

    def __init__(
        self,
        directories: Iterable[str],
        config: BrokerConfig | Mapping[str, object],
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ):
        partitions = find_partitions(directories, Disk())
        given = configured(config).override(SETTINGS)
        overlay = Overlay()
        source = AttachedDirectories(partitions, overlay)
        served = {key: api for key, api in served_apis().items() if api.name not in NOT_SERVED}
        super().__init__(given, served, source=source, disk=overlay, clock=clock, rng=rng, authorizer=ReadOnly())
        logs = self.logs
        with self.abandoned_if_it_fails():
            self.node_id = configured_id(given)
            self.adopted = []
            logs.open_directories()
            paths = [directory.path for directory in logs.directories]
            known = topics_written_down(paths, overlay)
            cluster_id = cluster_id_of(logs.directories, self.rng)
            self.cluster = SoloCluster(UnwrittenChanges(paths[0], overlay), self.rng, cluster_id, self.node_id)
            self.membership = NobodyElse(self.cluster)
            if self.acl_authorizer is not None:
                self.acl_authorizer.acls = self.cluster.index_acls()
            logs.topics = {name: LogConfig.parse(topic.configs, given) for name, topic in known.items()}
            logs.load_directories()
            self.replicas = ReplicaManager(logs, self.loop, self.node_id)
            self.topology = alone.topology(self, self.cluster, AloneTopics(self, self.cluster))
            self.cluster.adopt(((name, readable_topic_id(logs, log.directory)) for name, log in logs.logs.items()), known)
            for name in logs.logs:
                topic = self.cluster.topics[name.topic]
                self.replicas.host(name, topic.topic_id, topic.topic_id_text)
            use_config(self, given)
            self.offsets_topic = MemoryTopic(self, "__consumer_offsets", given.offsets_topic_num_partitions, {})
            self.transactions_topic = MemoryTopic(self, "__transaction_state", given.transaction_state_log_num_partitions, {})
            self.write_markers = leave_open
            self.coordinators = Coordinators(self, is_alone=True)
            self.coordinators.start()


def cluster_id_of(directories: Sequence[DataDirectory], rng: random.Random) -> str:
    """That of the first directory that says it; a damaged `meta.properties` says nothing."""
    for directory in directories:
        with suppress(KafkaStorage):
            meta = directory.read_meta()
            if meta is not None and meta.cluster_id:
                return meta.cluster_id
    return random_topic_id(rng)


def readable_topic_id(logs: LogManager, directory: str) -> str | None:
    with suppress(KafkaStorage):
        return topic_id_on_disk(logs, directory)
    return None


class MemoryTopic(InternalTopic):
    """An internal topic that can be read, if it was attached, and that forgets what is appended: the coordinator has it in memory."""

    def append(self, partition: int, records: Sequence[Record], done: Done) -> None:
        done(ErrorCode.NONE)

    def append_batch(self, partition: int, batch: bytes, done: Done, guard: VerificationGuard | None = None) -> None:
        done(ErrorCode.NONE)


def leave_open(markers: Markers, done: Callable[[dict[TopicPartition, int]], None]) -> None:
    """The markers of a transaction that was ending when the directory was copied are never written, so it goes on ending."""


def find_partitions(paths: Iterable[str], disk: Disk) -> dict[TopicPartition, str]:
    """The directory of each partition, by its absolute path."""
    found: dict[TopicPartition, str] = {}
    for path in dict.fromkeys(posixpath.abspath(path) for path in paths):
        for partition, directory in partitions_at(path, disk):
            if found.setdefault(partition, directory) != directory:
                raise KafkaStorage(
                    f"{partition} is in two places, {found[partition]} and {directory}; attach one of them, "
                    "or both with a broker and a port each"
                )
    return found


def partitions_at(path: str, disk: Disk) -> Iterator[tuple[TopicPartition, str]]:
    target = look_at(disk, path)
    if target.kind is PathKind.FILE:
        raise KafkaStorage(f"{path}: a file; name the partition directory it lies in, {posixpath.dirname(path)}")
    if target.kind is PathKind.PARTITION:
        yield parse_directory_name(posixpath.basename(path))[0], path
        return
    live = [name for name in partitions_in(disk, path) if name not in NOT_PARTITIONS and not parse_directory_name(name)[1]]
    if not live:
        raise KafkaStorage(f"{path}: no partition directory (such as page_visits-0) is in it, so there is nothing to serve")
    for name in live:
        yield parse_directory_name(name)[0], f"{path}/{name}"

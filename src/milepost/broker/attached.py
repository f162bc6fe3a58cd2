"""A broker over directories that stay as they are: copies, backups, or what a running Kafka has.

It serves what is in them to any client and writes nothing: logs are loaded in memory (`log/attached`), and its authorizer denies whatever
would write (`authorizer.ReadOnly`). Consumers work as ever, in groups too: members and committed offsets live in memory and go with the
broker. They begin with what `__consumer_offsets` says, if it is attached, and transactions are shown as `__transaction_state` has them:
none is ended here, however old.

Every record that is in a directory is served, also what a replica had not known to be committed: a copy has nobody to ask.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.broker.attached_partitions import find_partitions
from milepost.broker.authorizer import ReadOnly
from milepost.broker.broker import Broker
from milepost.broker.dispatch import Dispatcher, served_apis
from milepost.broker.internal_topics.coordinator_log import Done, InternalTopic
from milepost.broker.topology import alone
from milepost.broker.topology.alone_topics import AloneTopics
from milepost.clock import Clock
from milepost.cluster.attached import AttachedCluster
from milepost.config.broker import BrokerConfig
from milepost.config.topic import LogConfig
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log.attached import AttachedLogs
from milepost.log.directory import partition_metadata
from milepost.protocol.error_codes import ErrorCode
from milepost.record.records import Record
from milepost.replica.manager import ReplicaManager
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.log.producer_state.verification import VerificationGuard

NEVER = str(2**31 - 1)
NOT_SERVED = ("AlterPartitionReassignments", "WriteTxnMarkers")
# Nothing happens because time goes by, and nothing is made because somebody asks for it.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
    "offsets.retention.minutes": NEVER,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": NEVER,
    "transaction.remove.expired.transaction.cleanup.interval.ms": NEVER,
}


class AttachedBroker(Broker):
    logs: AttachedLogs
    cluster: AttachedCluster

    def __init__(
        self,
        directories: Iterable[str],
        config: BrokerConfig | Mapping[str, object],
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ):
        partitions = find_partitions(directories, Disk())
        given = config if isinstance(config, BrokerConfig) else BrokerConfig.parse(config)
        super().__init__(given.override(SETTINGS), clock=clock, rng=rng)
        self.logs = AttachedLogs(self.config, partitions, clock=self.clock, rng=self.rng)
        served = {key: api for key, api in served_apis().items() if api.name not in NOT_SERVED}
        self.dispatcher = Dispatcher(self, ReadOnly(), served)
        self.write_markers = leave_open

    def _load(self) -> None:
        self.logs.open_directories()
        directories = [directory.path for directory in self.logs.directories]
        self.cluster = self.solo = AttachedCluster(directories, self.logs.disk, self.rng, self._cluster_id(), self.node_id)
        self.topology = alone.topology(self, self.cluster, AloneTopics(self, self.cluster))
        self.logs.topics = {name: LogConfig.parse(topic.configs, self.config) for name, topic in self.cluster.stored.items()}
        self.logs.load_directories()
        self.replicas = ReplicaManager(self.logs, self.loop, self.node_id)
        self.cluster.adopt((name, self._topic_id_on_disk(log.directory)) for name, log in self.logs.logs.items())
        for name in self.logs.logs:
            topic = self.cluster.topics[name.topic]
            self.replicas.host(name, topic.topic_id, topic.topic_id_text)
        self.use_config(self.config)
        self.offsets_topic = MemoryTopic(self, "__consumer_offsets", self.config.offsets_topic_num_partitions, {})
        self.transactions_topic = MemoryTopic(self, "__transaction_state", self.config.transaction_state_log_num_partitions, {})
        self._start_coordinators()

    def _cluster_id(self) -> str:
        """That of the first directory that says it; a damaged `meta.properties` says nothing."""
        for directory in self.logs.directories:
            with suppress(KafkaStorage):
                meta = directory.read_meta()
                if meta is not None and meta.cluster_id:
                    return meta.cluster_id
        return partition_metadata.random_topic_id(self.rng)

    def _topic_id_on_disk(self, directory: str) -> str | None:
        with suppress(KafkaStorage):
            return super()._topic_id_on_disk(directory)
        return None


class MemoryTopic(InternalTopic):
    """An internal topic that can be read, if it was attached, and that forgets what is appended: the coordinator has it in memory."""

    def ensure(self) -> None:
        """It is as it was found."""

    def append(self, partition: int, records: Sequence[Record], done: Done) -> None:
        done(ErrorCode.NONE)

    def append_batch(self, partition: int, batch: bytes, done: Done, guard: VerificationGuard | None = None) -> None:
        done(ErrorCode.NONE)


def leave_open(
    partitions: Collection[TopicPartition],
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    coordinator_epoch: int,
    done: Callable[[dict[TopicPartition, int]], None],
) -> None:
    """The markers of a transaction that was ending when the directory was copied are never written, so it goes on ending."""

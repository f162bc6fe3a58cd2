"""The internal topics as the coordinators see them: append records, read everything back.

The topic is made on first use, with as many partitions as its setting says and compaction on: by the first append where a broker is
alone, by who looks for a coordinator in a cluster (`topology/zookeeper`), with the replication factor of its setting. An append counts
when all in-sync replicas have it, and it is as durable as the topic's `flush.messages` wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from milepost.errors import MilepostError
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batch import NO_SEQUENCE
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.cluster.view import ClusterView
    from milepost.config.broker import BrokerConfig
    from milepost.coordinator.transactions.transaction import Producer
    from milepost.log.producer_state.verification import VerificationGuard
    from milepost.record.batches import AnyBatch
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.partition import Partition

Done = Callable[[int], None]
Make = Callable[[str, int, Mapping[str, str]], object]
"""A topic, at once."""


class Topics(Protocol):
    """Where an internal topic lies."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    def missing_partition(self, name: TopicPartition) -> int:
        """What to answer about a partition that is not on this broker."""


class InternalTopic:
    def __init__(
        self,
        broker: Topics,
        name: str,
        partition_count: int,
        configs: dict[str, str],
        factor: int = 1,
        make: Make | None = None,
    ):
        """`make` is None where an append finds the topic made, or it is not to be made at all."""
        self.name = name
        self._broker = broker
        self._partition_count = partition_count
        self.configs = configs
        self.factor = factor
        self._make = make

    @property
    def partition_count(self) -> int:
        topic = self._broker.cluster.topics.get(self.name)
        return topic.partitions if topic else self._partition_count

    @property
    def exists(self) -> bool:
        return self.name in self._broker.cluster.topics

    def ensure(self) -> None:
        if self._make is not None and not self.exists:
            self._make(self.name, self._partition_count, self.configs)

    def append(self, partition: int, records: Sequence[Record], done: Done) -> None:
        self.append_batch(partition, build_batch(numbered(records), base_offset=0), done)

    def append_batch(self, partition: int, batch: bytes, done: Done, guard: VerificationGuard | None = None) -> None:
        name, replicas = TopicPartition(self.name, partition), self._broker.replicas
        try:
            self.ensure()
            hosted = replicas.partition(name)
            if hosted is None:
                done(self._broker.missing_partition(name))
                return
            end = hosted.append(batch, AppendOrigin.COORDINATOR, guard, for_all=True).last_offset + 1
        except MilepostError as error:
            done(error.code)
            return

        def replicated(codes: dict[TopicPartition, int]) -> None:
            if codes[name] == ErrorCode.NONE and hosted.log.is_flush_awaited:
                hosted.log.when_flushed(lambda failure: done(ErrorCode.NONE if failure is None else failure.code))
            else:
                done(codes[name])

        seconds = self._broker.config.offsets_commit_timeout_ms / 1000
        replicas.when_committed([(hosted, end)], seconds, replicated)

    def start_verification(self, partition: int, producer: Producer) -> VerificationGuard | None:
        """Before the coordinator is asked about a transaction; None when the transaction is open in the partition, or that is not here."""
        with suppress(MilepostError):  # which the append meets as well, and tells
            self.ensure()
        hosted = self._hosted(partition)
        return None if hosted is None else hosted.log.start_verification(producer.producer_id, producer.producer_epoch, NO_SEQUENCE)

    def end_verification(self, partition: int, producer: Producer, guard: VerificationGuard) -> None:
        hosted = self._hosted(partition)
        if hosted is not None:
            hosted.log.producers.end_verification(producer.producer_id, guard)

    def _hosted(self, partition: int) -> Partition | None:
        return self._broker.replicas.partition(TopicPartition(self.name, partition))

    def largest_batch(self, partition: int) -> int:
        hosted = self._hosted(partition)
        return self._broker.config.message_max_bytes if hosted is None else hosted.log.config.max_message_bytes

    def batches(self, partition: int) -> Iterator[AnyBatch]:
        """Every batch of the partition, oldest first. Who reads may take their time: the cleaner may replace segments meanwhile."""
        hosted = self._hosted(partition)
        if hosted is None:
            return
        log, offset = hosted.log, hosted.log.start_offset
        while (segment := log.segments.floor(offset)) is not None:
            for _, batch in segment.log.batches(segment.position_of(offset)):
                if batch.last_offset < offset:
                    continue
                yield batch
                offset = batch.next_offset
                if log.segments.floor(segment.base_offset) is not segment:
                    break  # go on in the one that took its place
            else:
                following = log.segments.higher(segment.base_offset)
                if following is None:
                    return
                offset = max(offset, following.base_offset)


def numbered(records: Sequence[Record]) -> list[Record]:
    return [Record(offset, record.timestamp, record.key, record.value, record.headers) for offset, record in enumerate(records)]


def offsets_topic(broker: Topics, *, factor: int = 1, make: Make | None = None) -> InternalTopic:
    config = broker.config
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    return InternalTopic(broker, "__consumer_offsets", config.offsets_topic_num_partitions, configs, factor, make)


def transactions_topic(broker: Topics, *, factor: int = 1, min_isr: int = 1, make: Make | None = None) -> InternalTopic:
    config = broker.config
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    return InternalTopic(broker, "__transaction_state", config.transaction_state_log_num_partitions, configs, factor, make)

"""The internal topics as the coordinators see them: append records, read everything back.

The topic is made on first use, with as many partitions as its setting says and compaction on. On a single broker an
append is committed when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.log.partition_name import TopicPartition
from milepost.log.producer_entry import AppendOrigin
from milepost.protocol.error_codes import ErrorCode
from milepost.record.builder import build_batch
from milepost.record.records import Record

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.config.broker import BrokerConfig
    from milepost.record.batches import AnyBatch

Done = Callable[[int], None]


def configs_of_offsets(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }


def configs_of_transactions(config: BrokerConfig, min_isr: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(min_isr),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


class InternalTopic:
    def __init__(self, broker: Broker, name: str, partition_count: int, configs: dict[str, str]):
        self.name = name
        self._broker = broker
        self._partition_count = partition_count
        self.configs = configs

    @property
    def partition_count(self) -> int:
        topic = self._broker.cluster.topics.get(self.name)
        return topic.partitions if topic else self._partition_count

    @property
    def exists(self) -> bool:
        return self.name in self._broker.cluster.topics

    def ensure(self) -> None:
        if not self.exists:
            self._broker.create_topic(self.name, self._partition_count, self.configs, internal=True)

    def append(self, partition: int, records: Sequence[Record], done: Done) -> None:
        self._append(partition, build_batch(numbered(records), base_offset=0), done)

    def append_transactional(
        self, partition: int, records: Sequence[Record], producer_id: int, producer_epoch: int, done: Done
    ) -> None:
        data = build_batch(
            numbered(records),
            base_offset=0,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self._append(partition, data, done)

    def _append(self, partition: int, data: bytes, done: Done) -> None:
        name, replicas = TopicPartition(self.name, partition), self._broker.replicas
        try:
            self.ensure()
            replicas.append(name, data, AppendOrigin.COORDINATOR)
        except MilepostError as error:
            done(error.code)
            return
        log = replicas.partitions[name].log
        if log.is_flush_awaited:
            log.when_flushed(lambda failure: done(ErrorCode.NONE if failure is None else failure.code))
        else:
            done(ErrorCode.NONE)

    def batches(self, partition: int) -> Iterator[AnyBatch]:
        """Every batch of the partition, oldest first. Who reads may take their time: the cleaner may replace segments meanwhile."""
        hosted = self._broker.replicas.partition(TopicPartition(self.name, partition))
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

"""A small blocking producer: one batch in the making per partition, sent when one is full and at `flush`.

    partition    as given; else by the key (murmur2, as Java's producer); else one partition after the other, a batch each
    acks         all: an answer means that every replica in sync has the batch
    idempotence  the broker gives a producer id; batches are numbered, so that one sent twice after a lost answer is stored once

A batch that was not answered is sent again, the same bytes, to whoever leads then, before any later batch of its partition: order is kept.
`delivered` is called for each batch that was acknowledged. After an error nothing more is sent: what was not acknowledged may or may not
be in the log, and numbers of batches would be missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.offsets import by_topic
from milepost.client.retrying import failed
from milepost.clock import Clock, SystemClock
from milepost.codec.compression import Codec
from milepost.codec.text import counted
from milepost.errors import InvalidArgument, MilepostError, RequestFailed
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse
from milepost.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from milepost.record.builder import BatchBuilder
from milepost.record.partitioner import partition_for
from milepost.record.records import Headers, Record
from milepost.record.sequence import increment_sequence
from milepost.topic_partition import TopicPartition

ALL_REPLICAS = -1
PRODUCE_BY_NAME = 12
"""The last version of Produce that names topics by name."""
BATCH_SIZE = 64 << 10
MAX_PENDING = 8 << 20
"""So much waits at most in all partitions together: far below what a broker takes in one request."""
NO_TRANSACTION_TIMEOUT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch that was acknowledged. The offset is -1 when the broker has the batch and no longer knows where."""

    partition: TopicPartition
    base_offset: int
    count: int


class Producer:
    def __init__(
        self,
        cluster: Cluster,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        is_idempotent: bool = True,
        batch_size: int = BATCH_SIZE,
        delivered: Callable[[Delivery], None] | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ):
        self.cluster = cluster
        self.codec = codec
        self.level = level
        self.is_idempotent = is_idempotent
        self.batch_size = batch_size
        self.producer_id, self.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._delivered = delivered
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._batches: dict[TopicPartition, BatchBuilder] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._turns: dict[str, int] = {}
        self._has_failed = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> TopicPartition:
        """Put a record into its partition's batch; what is full is sent first. The partition it goes to."""
        self._ensure_usable()
        target = TopicPartition(topic, self._partition(topic, key, partition))
        now = self._clock.now_ms() if timestamp is None else timestamp
        batch = self._batches.get(target)
        if batch is not None and not batch.has_room_for(Record(batch.record_count, now, key, value, headers)):
            self.flush()
            target = TopicPartition(topic, self._partition(topic, key, partition))
            batch = self._batches.get(target)
        if batch is None:
            batch = self._batches[target] = self._new_batch(target)
        batch.append(Record(batch.record_count, now, key, value, headers))
        if len(self._batches) * self.batch_size > MAX_PENDING and self._pending_bytes() > MAX_PENDING:
            self.flush()
        return target

    def flush(self) -> None:
        """Send everything, and return when all of it was acknowledged."""
        self._ensure_usable()
        if not self._batches:
            return
        counts = {partition: batch.record_count for partition, batch in self._batches.items()}
        try:
            batches = {partition: batch.build() for partition, batch in self._batches.items()}
            self._batches = {}
            self._send(batches, counts)
        except BaseException:
            self._has_failed = True
            raise
        for topic in {partition.topic for partition in counts}:
            self._turns[topic] = self._turns.get(topic, 0) + 1

    # For batches that somebody else builds.

    def numbering(self, partition: TopicPartition) -> tuple[int, int, int]:
        """Producer id, epoch and first sequence of the next batch of a partition."""
        if not self.is_idempotent:
            return NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
        if self.producer_id == NO_PRODUCER_ID:
            self.producer_id, self.producer_epoch = self.cluster.on_any(_ask_producer_id)
        return self.producer_id, self.producer_epoch, self._sequences.get(partition, 0)

    def send_batches(self, batches: dict[TopicPartition, bytes], counts: dict[TopicPartition, int]) -> None:
        """Send batches that were numbered with `numbering`, one for each partition; return when all were acknowledged."""
        self._ensure_usable()
        try:
            self._send(batches, counts)
        except BaseException:
            self._has_failed = True
            raise

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None and not self._has_failed:
            self.flush()

    def _ensure_usable(self) -> None:
        if self._has_failed:
            raise InvalidArgument("this producer failed before: what it has not delivered is lost, make a new one")

    # Where a record goes.

    def _partition(self, topic: str, key: bytes | None, partition: int | None) -> int:
        info = self.cluster.topic(topic, may_create=True)
        if not info.partitions:
            raise RequestFailed(f"topic {topic} has no partitions", ErrorCode.LEADER_NOT_AVAILABLE)
        if partition is not None:
            if not 0 <= partition < len(info.partitions):
                raise InvalidArgument(f"topic {topic} has partitions 0 to {len(info.partitions) - 1}, not {partition}")
            return partition
        if key is not None:
            return partition_for(key, len(info.partitions))
        # Whoever has a leader now; a key would not have this choice.
        choices = [part.partition for part in info.partitions if part.leader_id >= 0] or [
            part.partition for part in info.partitions
        ]
        turn = self._turns.setdefault(topic, self._rng.randrange(len(choices)))
        return choices[turn % len(choices)]

    def _new_batch(self, partition: TopicPartition) -> BatchBuilder:
        producer_id, producer_epoch, base_sequence = self.numbering(partition)
        return BatchBuilder(
            base_offset=0,
            codec=self.codec,
            level=self.level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            size_limit=self.batch_size,
        )

    def _pending_bytes(self) -> int:
        return sum(batch.estimated_size for batch in self._batches.values())

    # Sending.

    def _send(self, batches: dict[TopicPartition, bytes], counts: dict[TopicPartition, int]) -> None:
        def build(partitions: list[TopicPartition]) -> ProduceRequest:
            Topic = ProduceRequest.TopicData
            return ProduceRequest(
                acks=ALL_REPLICAS,
                timeout_ms=int(self.cluster.timeout * 1000),
                topic_data=[
                    Topic(
                        name=name,
                        partition_data=[Topic.PartitionData(index=each.partition, records=batches[each]) for each in group],
                    )
                    for name, group in by_topic(partitions).items()
                ],
            )

        unanswered = set(batches)

        def read(response: ProduceResponse) -> Iterator[tuple[TopicPartition, int | MilepostError]]:
            for topic in response.responses:
                for row in topic.partition_responses:
                    partition = TopicPartition(topic.name, row.index)
                    if partition not in unanswered:
                        continue
                    # A duplicate is what an earlier attempt stored before its answer was lost.
                    if row.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        unanswered.discard(partition)
                        self._acknowledged(partition, row.base_offset, counts[partition])
                        yield partition, row.base_offset
                    else:
                        yield partition, _refusal(partition, row, counts[partition], len(batches[partition]))

        self.cluster.ask_leaders(batches, build, read, highest=PRODUCE_BY_NAME)

    def _acknowledged(self, partition: TopicPartition, base_offset: int, count: int) -> None:
        if self.is_idempotent:
            self._sequences[partition] = increment_sequence(self._sequences.get(partition, 0), count)
        if self._delivered is not None:
            self._delivered(Delivery(partition, base_offset, count))


def _ask_producer_id(connection: Connection) -> tuple[int, int]:
    response: InitProducerIdResponse = connection.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT)
    )
    if response.error_code:
        # The answer has no room for a reason; a broker of attached directories says so in answers to records.
        is_refused = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        why = "it only reads (milepost attach), or gives you none: without idempotence none is needed" if is_refused else None
        raise failed("a producer id for an idempotent producer", response.error_code, why)
    return response.producer_id, response.producer_epoch


def _refusal(partition: TopicPartition, row: ProduceResponse.Response.PartitionResponse, count: int, size: int) -> MilepostError:
    details = [row.error_message] if row.error_message else []
    details += [f"record {error.batch_index}: {error.batch_index_error_message}" for error in row.record_errors]
    return failed(f"{partition}, a batch of {counted(count, 'record')} and {size} bytes", row.error_code, "; ".join(details))

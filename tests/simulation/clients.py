"""Clients of a simulated cluster: producers that try again until they know or give up, consumers that read what is committed.

What they did and saw goes into the history that the checker reads. An idempotent producer numbers its batches; one that gave up on a batch
goes on as another producer, since nobody knows whether the number was used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, MetadataRequest, ProduceRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, control_type
from milepost.record.records import Record as LogRecord
from milepost.replica.metadata import BrokerInfo
from milepost.topic_partition import TopicPartition
from tests.checker.history import Outcome, Poll, Record, Send, sealed
from tests.simulation.broker import Observed, Seen
from tests.simulation.network import SimulatedPeers
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

PRODUCE_VERSION, FETCH_VERSION, METADATA_VERSION = 11, 12, 9
APPEND_MS, WAIT_MS, MAX_BYTES = 1000, 200, 1 << 16
RETRY_SECONDS = 0.1
GIVE_UP_SECONDS = 12.0
REQUEST_SECONDS = 2.0
CERTAIN_FAILURES = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS)
"""Nothing was appended. Of NOT_LEADER_OR_FOLLOWER one cannot know: it may have happened before the leader was another one."""


Topic = ProduceRequest.TopicData


class Client:
    def __init__(self, cluster: Cluster, name: str):
        self.cluster = cluster
        self.name = name
        self.world = cluster.world
        self.history = cluster.history
        self.process = Process(self.world, name)
        self.peers = SimulatedPeers(cluster.network, self.process)
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        """(leader, leader epoch), the newest we heard of."""
        self._next_asked = 0
        self.is_stopped = False
        """Whether it should begin nothing new."""

    def ask(self, broker_id: int, request: Any, version: int, on_answer: Any, on_failure: Any) -> None:
        broker = BrokerInfo(broker_id, -1, ())
        self.peers.send(broker, request, version, on_answer, on_failure, purpose="client", timeout=REQUEST_SECONDS)

    def find_leaders(self, then: Any) -> None:
        """Ask one broker after the other."""
        ids = sorted(self.cluster.brokers)
        broker_id = ids[self._next_asked % len(ids)]
        self._next_asked += 1

        def answered(response: Any) -> None:
            for topic in response.topics:
                for part in topic.partitions:
                    name = TopicPartition(topic.name, part.partition_index)
                    if name not in self.leaders or part.leader_epoch >= self.leaders[name][1]:
                        self.leaders[name] = (part.leader_id, part.leader_epoch)
            then()

        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        self.ask(broker_id, request, METADATA_VERSION, answered, lambda error: then())


class Producer(Client):
    def __init__(self, cluster: Cluster, number: int, *, is_idempotent: bool, acks_all: bool):
        super().__init__(cluster, f"producer-{number}")
        self.is_idempotent = is_idempotent
        self.acks_all = acks_all
        self.sent = 0
        self._begin_anew()
        self._next()

    def _begin_anew(self) -> None:
        self.cluster.producer_ids += 1
        self.producer_id = self.cluster.producer_ids if self.is_idempotent else -1
        self.sequences: dict[TopicPartition, int] = {}

    def _next(self) -> None:
        if self.is_stopped:
            return
        random = self.world.random
        partition = random.choice(self.cluster.partitions)
        values = [sealed(f"{self.name}-{self.sent + number}") for number in range(random.choice((1, 1, 2, 5)))]
        self.sent += len(values)
        now = self.process.now_ms()
        sequence = self.sequences.get(partition, 0)
        data = build_batch(
            [LogRecord(offset=number, timestamp=now, key=None, value=value.encode()) for number, value in enumerate(values)],
            producer_id=self.producer_id,
            producer_epoch=0 if self.is_idempotent else -1,
            base_sequence=sequence if self.is_idempotent else -1,
        )
        Attempt(self, partition, values, data).go()

    def finished(self, attempt: Attempt, outcome: Outcome, offset: int) -> None:
        partition, values = attempt.partition, attempt.values
        if outcome is Outcome.OK:
            self.sequences[partition] = self.sequences.get(partition, 0) + len(values)
        elif self.is_idempotent:
            self._begin_anew()
        for number, value in enumerate(values):
            self.history.sends.append(
                Send(
                    self.name,
                    str(partition),
                    value,
                    attempt.began,
                    self.world.now,
                    outcome,
                    offset + number if offset >= 0 else -1,
                    is_idempotent=self.is_idempotent,
                    acks_all=self.acks_all,
                )
            )
        self.process.later(self.world.random.uniform(0.02, 0.5), self._next)


class Attempt:
    """One batch, until its outcome is known or nobody cares any more."""

    def __init__(self, producer: Producer, partition: TopicPartition, values: list[str], data: bytes):
        self.producer = producer
        self.partition = partition
        self.values = values
        self.data = data
        self.began = producer.world.now
        self.may_have_happened = False

    def go(self) -> None:
        producer = self.producer
        leader, _ = producer.leaders.get(self.partition, (-1, -1))
        if leader < 0:
            self._again()
            return
        part = Topic.PartitionData(index=self.partition.partition, records=memoryview(self.data))
        request = ProduceRequest(
            acks=-1 if producer.acks_all else 1,
            timeout_ms=APPEND_MS,
            topic_data=[Topic(name=self.partition.topic, partition_data=[part])],
        )
        producer.ask(leader, request, PRODUCE_VERSION, self._answered, self._lost)

    def _answered(self, response: Any) -> None:
        producer = self.producer
        (answer,) = response.responses[0].partition_responses
        if answer.error_code == ErrorCode.NONE:
            producer.finished(self, Outcome.OK, answer.base_offset)
            return
        if answer.error_code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            producer.world.note(f"{producer.name}: {self.partition} answers {answer.error_code} to {self.values[0]}")
            producer.finished(self, Outcome.UNKNOWN if self.may_have_happened else Outcome.FAILED, -1)
            return
        self.may_have_happened = self.may_have_happened or answer.error_code not in CERTAIN_FAILURES
        self._again()

    def _lost(self, error: Exception) -> None:
        self.may_have_happened = True
        self._again()

    def _again(self) -> None:
        producer = self.producer
        if producer.world.now - self.began > GIVE_UP_SECONDS:
            producer.finished(self, Outcome.UNKNOWN if self.may_have_happened else Outcome.FAILED, -1)
        else:
            producer.process.later(RETRY_SECONDS, lambda: producer.find_leaders(self.go))


class Consumer(Client):
    def __init__(self, cluster: Cluster, number: int, partition: TopicPartition, *, is_committed: bool):
        super().__init__(cluster, f"consumer-{number}")
        self.partition = partition
        self.is_committed = is_committed
        self.position = 0
        self._poll()

    def _poll(self) -> None:
        leader, epoch = self.leaders.get(self.partition, (-1, -1))
        if leader < 0:
            self._again()
            return
        began = self.world.now
        part = FetchRequest.Topic.Partition(
            partition=self.partition.partition,
            current_leader_epoch=epoch,
            fetch_offset=self.position,
            partition_max_bytes=MAX_BYTES,
        )
        request = FetchRequest(
            replica_id=-1,
            max_bytes=MAX_BYTES,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            isolation_level=int(self.is_committed),
            session_epoch=-1,
            topics=[FetchRequest.Topic(topic=self.partition.topic, partitions=[part])],
        )
        observed = Observed(request, self.partition)
        self.ask(leader, observed, FETCH_VERSION, lambda seen: self._answered(began, epoch, seen), lambda error: self._again())

    def _again(self) -> None:
        self.process.later(RETRY_SECONDS, lambda: self.find_leaders(self._poll))

    def _answered(self, began: float, epoch: int, seen: Seen) -> None:
        (answer,) = seen.response.responses[0].partitions
        if answer.error_code:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.world.note(f"{self.name}: {self.partition} has no offset {self.position}")
            self._again()
            return
        batches = list(iter_batches(answer.records or b""))
        aborted = [(each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()]
        records = tuple(record for record in visible(batches, aborted) if record.offset >= self.position)
        if batches:
            self.position = batches[-1].next_offset
        self.history.polls.append(
            Poll(
                self.name,
                str(self.partition),
                began,
                self.world.now,
                records,
                epoch,
                answer.high_watermark,
                answer.last_stable_offset,
                seen.end_offset,
                is_committed=self.is_committed,
                leader=seen.life,
            )
        )
        self.process.later(self.world.random.uniform(0.1, 0.5), self._poll)


def visible(batches: Sequence[Any], aborted: Iterable[tuple[int, int]] = ()) -> list[Record]:
    """What a reader makes of batches: without markers, and without transactions that it is told were aborted (first offset, producer)."""
    waiting = sorted(aborted)
    skipping: set[int] = set()
    found = []
    for batch in batches:
        while waiting and waiting[0][0] <= batch.last_offset:
            skipping.add(waiting.pop(0)[1])
        if batch.is_control:
            if control_type(batch.records()[0].key) is ControlType.ABORT:
                skipping.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in skipping):
            found += [Record(record.offset, bytes(record.value or b"").decode()) for record in batch.records()]
    return found


def committed(batches: Sequence[Any]) -> list[Record]:
    """The same for a whole log, from its markers alone: what is open at the end is not seen."""
    decided: list[Record] = []
    pending: dict[int, list[Record]] = {}
    for batch in batches:
        if batch.is_control:
            ended = pending.pop(batch.producer_id, [])
            if control_type(batch.records()[0].key) is ControlType.COMMIT:
                decided += ended
        else:
            records = [Record(record.offset, bytes(record.value or b"").decode()) for record in batch.records()]
            (pending.setdefault(batch.producer_id, []) if batch.is_transactional else decided).extend(records)
    return sorted(decided)

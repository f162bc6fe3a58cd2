"""A transactional producer in the simulation: several partitions at once, all or nothing.

It finds its coordinator, gets a producer id (which ends what an earlier life of its left open), and then works: partitions are added, one
batch is written to each, and the transaction is committed or aborted. Whatever it cannot find out about makes it begin anew. What became
of a transaction is then known if its end had not been asked for (it is aborted); else it is not.

Written as steps: `yield (broker, request, version)` gives the answer or the failure, `yield seconds` waits.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.checker.history import Outcome, Send, Transaction, sealed
from tests.simulation.clients import APPEND_MS, PRODUCE_VERSION, Client

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

Work = Generator[Any, Any, Any]
FIND_VERSION, INIT_VERSION, ADD_VERSION, END_VERSION = 4, 4, 3, 3
OF_TRANSACTIONS = 1
TIMEOUT_MS = 30_000
PAUSE_SECONDS = 0.2
PATIENCE_SECONDS = 10.0
FATAL = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class Transactor(Client):
    def __init__(self, cluster: Cluster, number: int):
        super().__init__(cluster, f"transactor-{number}")
        self.coordinator = -1
        self.producer_id, self.producer_epoch = -1, -1
        self.sequences: dict[TopicPartition, int] = {}
        self.count = 0
        self.unresolved: tuple[str, float | None] | None = None
        """The transaction of which nobody knows what became, and when its commit was asked for, if it was."""
        self.go_on(self._work())

    def go_on(self, steps: Work, answer: Any = None) -> None:
        try:
            wanted = steps.send(answer)
        except StopIteration:
            return
        if isinstance(wanted, float):
            self.process.later(wanted, lambda: self.go_on(steps))
        else:
            broker_id, request, version = wanted
            self.ask(broker_id, request, version, lambda found: self.go_on(steps, found), lambda error: self.go_on(steps, error))

    def _work(self) -> Work:
        while not self.is_stopped or self.unresolved:
            yield from self._begin_anew()
            while not self.is_stopped and (yield from self._transaction()):
                yield self.world.random.uniform(0.05, 1.0)

    def _begin_anew(self) -> Work:
        while True:
            yield from self._find_coordinator()
            request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
            answer = yield (self.coordinator, request, INIT_VERSION)
            if not isinstance(answer, MilepostError) and answer.error_code == 0:
                break
            yield PAUSE_SECONDS
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences = {}
        if self.unresolved is not None:
            name, asked = self.unresolved
            self.unresolved = None
            self._ended(name, asked or self.world.now, asked is not None, Outcome.UNKNOWN if asked else Outcome.OK)

    def _find_coordinator(self) -> Work:
        while True:
            broker_id = self.world.random.choice(sorted(self.cluster.brokers))
            request = FindCoordinatorRequest(key_type=OF_TRANSACTIONS, coordinator_keys=[self.name])
            answer = yield (broker_id, request, FIND_VERSION)
            if not isinstance(answer, MilepostError):
                (found,) = answer.coordinators
                if found.error_code == 0:
                    self.coordinator = found.node_id
                    return
            yield PAUSE_SECONDS

    def _ended(self, name: str, began: float, is_commit: bool, outcome: Outcome) -> None:
        self.world.note(f"{self.name}: {name} {'committed' if is_commit else 'aborted'}: {outcome.value}")
        self.history.transactions.append(Transaction(name, self.name, began, self.world.now, is_commit, outcome))

    # One transaction.

    def _transaction(self) -> Work:
        """Whether it came to an end that is known."""
        random = self.world.random
        self.count += 1
        name = f"{self.name}:{self.count}"
        partitions = random.sample(self.cluster.partitions, random.randint(1, len(self.cluster.partitions)))
        self.unresolved = (name, None)
        if not (yield from self._insist(lambda: self._adding(partitions), ADD_VERSION)):
            return False
        for partition in partitions:
            if not (yield from self._write(name, partition)):
                return False
        is_commit = random.random() < 0.75
        began = self.world.now
        self.unresolved = (name, began if is_commit else None)
        if not (yield from self._insist(lambda: self._ending(is_commit), END_VERSION)):
            return False
        self.unresolved = None
        self._ended(name, began, is_commit, Outcome.OK)
        return True

    def _insist(self, make: Any, version: int) -> Work:
        """Ask the coordinator, whoever that is by then, until it has understood; False when it will not, or nobody answers."""
        until = self.world.now + PATIENCE_SECONDS
        while self.world.now < until:
            answer = yield (self.coordinator, make(), version)
            if not isinstance(answer, MilepostError):
                errors = errors_of(answer)
                if errors <= {0}:
                    return True
                if errors & FATAL:
                    return False
            yield PAUSE_SECONDS
            yield from self._find_coordinator()
        return False

    def _adding(self, partitions: list[TopicPartition]) -> AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for name in partitions:
            topics.setdefault(name.topic, []).append(name.partition)
        topic = AddPartitionsToTxnRequest.V3AndBelowTopic
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[topic(name=each, partitions=numbers) for each, numbers in topics.items()],
        )

    def _ending(self, is_commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )

    def _write(self, transaction: str, partition: TopicPartition) -> Work:
        value = sealed(f"{transaction}-{partition}")
        sequence = self.sequences.get(partition, 0)
        data = build_batch(
            [Record(offset=0, timestamp=self.process.now_ms(), key=None, value=value.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        began, offset = self.world.now, -1
        while self.world.now < began + PATIENCE_SECONDS and offset < 0:
            leader, _ = self.leaders.get(partition, (-1, -1))
            if leader >= 0:
                part = ProduceRequest.TopicData.PartitionData(index=partition.partition, records=memoryview(data))
                topic = ProduceRequest.TopicData(name=partition.topic, partition_data=[part])
                request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=APPEND_MS, topic_data=[topic])
                answer = yield (leader, request, PRODUCE_VERSION)
                if not isinstance(answer, MilepostError):
                    (told,) = answer.responses[0].partition_responses
                    if told.error_code == 0:
                        offset = told.base_offset
                        break
                    if told.error_code in FATAL:
                        break
            yield PAUSE_SECONDS
            yield from self._look_for_leaders()
        outcome = Outcome.OK if offset >= 0 else Outcome.UNKNOWN
        sent = Send(self.name, str(partition), value, began, self.world.now, outcome, offset, transaction=transaction)
        self.history.sends.append(sent)
        self.sequences[partition] = sequence + 1
        return offset >= 0

    def _look_for_leaders(self) -> Work:
        found: list[bool] = []
        self.find_leaders(lambda: found.append(True))
        while not found:
            yield 0.05


def errors_of(answer: Any) -> set[int]:
    """Of EndTxn and AddPartitionsToTxn."""
    if hasattr(answer, "results_by_topic_v3_and_below"):
        topics = answer.results_by_topic_v3_and_below
        return {each.partition_error_code for topic in topics for each in topic.results_by_partition}
    return {answer.error_code}

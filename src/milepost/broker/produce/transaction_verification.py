"""The first batch of a transaction in a partition: its coordinator is asked before it is appended.

With version 2 of the protocol that batch must have sequence 0 when the partition knows nothing of its producer: every transaction starts
at 0 there, so another number means that a batch was lost on the way (45). With `transaction.partition.verification.enable` off, the
partitions of older clients are not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from milepost.broker.produce.partition_answers import known_topic
from milepost.broker.slices import Work, called_back
from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import NOT_NOW, Admission, answered_to_produce
from milepost.frozen_dataclass import frozen_dataclass
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batch import HEADER_SIZE, MAGIC, RecordBatch
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.log.log import Log
    from milepost.log.producer_state.verification import VerificationGuard
    from milepost.protocol.messages import ProduceRequest

NO_GUARDS: Mapping[TopicPartition, VerificationGuard] = {}


def admitted(
    request: ProduceRequest, transactional_id: str, context: Context
) -> Work[tuple[dict[TopicPartition, ErrorCode], Mapping[TopicPartition, VerificationGuard]]]:
    """Ask the coordinator about the partitions that get their first batch of a transaction: what to refuse, and guards for the rest."""
    admission = Admission.for_produce(context.version)
    if not context.broker.asks_coordinator(admission):
        return {}, NO_GUARDS
    starting = yield from transactions_that_start(request, context)
    if not starting:
        return {}, NO_GUARDS
    producers = {each.producer for each in starting.values()}
    if len(producers) > 1:
        return dict.fromkeys(starting, ErrorCode.INVALID_PRODUCER_ID_MAPPING), NO_GUARDS
    (producer,) = producers

    def late(name: TopicPartition) -> ErrorCode:
        partition = context.broker.replicas.partition(name)
        is_new = partition is not None and partition.log.producers.last_entry(producer.producer_id) is None
        is_late = is_new and admission is Admission.ADD and starting[name].sequence != 0
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if is_late else ErrorCode.NONE

    def ask(done: Callable[[dict[TopicPartition, ErrorCode]], None]) -> None:
        context.broker.topology.coordinators.admit(admission, transactional_id, producer, list(starting), done)

    errors = yield from called_back(ask)
    for name, error in errors.items():
        if error and error not in NOT_NOW:
            starting[name].end_verification()
    refused = {name: answered_to_produce(error, admission) or late(name) for name, error in errors.items()}
    return refused, {name: each.guard for name, each in starting.items()}


@frozen_dataclass
class Start:
    """The first batch of a transaction in a partition, and the guard that says that the transaction has not ended meanwhile."""

    log: Log
    producer: Producer
    sequence: int
    guard: VerificationGuard

    def end_verification(self) -> None:
        self.log.producers.end_verification(self.producer.producer_id, self.guard)


def transactions_that_start(request: ProduceRequest, context: Context) -> Work[dict[TopicPartition, Start]]:
    """The partitions that get their first batch of a transaction: the coordinator is asked about those."""
    starting: dict[TopicPartition, Start] = {}
    for topic in request.topic_data:
        known = known_topic(topic, context)
        for part in topic.partition_data if known else ():
            assert known is not None
            partition = context.broker.replicas.partition(TopicPartition(known.name, part.index))
            if (
                partition is not None
                and part.records is not None
                and len(part.records) >= HEADER_SIZE
                and part.records[16] == MAGIC
            ):
                batch = RecordBatch(part.records)
                if batch.is_transactional:
                    producer = Producer(batch.producer_id, batch.producer_epoch)
                    guard = partition.log.start_verification(batch.producer_id, batch.producer_epoch, batch.base_sequence)
                    if guard is not None:
                        starting[partition.name] = Start(partition.log, producer, batch.base_sequence, guard)
            yield None
    return starting

"""Produce (key 0): append one batch to each of some partitions.

acks 0: no answer, and an error closes the connection so that the client notices; 1: an answer after the append; -1: when all in-sync
replicas have it, which on a single broker is the same moment. From version 13 topics come by id.

The first batch of a transaction in a partition goes there by way of the transaction coordinator (`transaction_admission`). With
version 2 of the protocol it must have sequence 0 when the partition knows nothing of its producer: every transaction starts at 0
there, so another number means that a batch was lost on the way (45). With `transaction.partition.verification.enable` off, the
partitions of older clients are not verified.

A batch that is compressed, or will be, is looked into first; on another thread if that takes long (`record_examiner`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from milepost.broker.slices import Work, called_back
from milepost.codec.compression import Codec
from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import NOT_NOW, Admission, answered_to_produce
from milepost.errors import MilepostError, NotEnoughReplicas, RecordValidation
from milepost.frozen import frozen
from milepost.log.examination import Examined, is_plain
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ProduceRequest, ProduceResponse
from milepost.record.batch import HEADER_SIZE, MAGIC, RecordBatch
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.cluster.view import TopicState
    from milepost.log.log import Log
    from milepost.log.producer_state.verification import VerificationGuard
    from milepost.replica.partition import Partition

KEY = 0
NO_GUARDS: Mapping[TopicPartition, VerificationGuard] = {}
ALL = -1
PartitionData = ProduceRequest.TopicData.PartitionData
PartitionResponse = ProduceResponse.Response.PartitionResponse
Unacknowledged: TypeAlias = "list[tuple[Partition, int, PartitionResponse]]"
"""Partitions that others must follow, up to which offset, and what will be said about them."""


def handle(request: ProduceRequest, context: Context) -> Work[ProduceResponse | None]:
    if request.acks not in (-1, 0, 1):
        return ProduceResponse(responses=[refuse_topic(topic, ErrorCode.INVALID_REQUIRED_ACKS) for topic in request.topic_data])
    yield from keep_last(request)
    if request.transactional_id is None:
        return (yield from finish(request, context, {}))
    refused, guards = yield from admitted(request, request.transactional_id, context)
    return (yield from finish(request, context, refused, guards))


def keep_last(request: ProduceRequest) -> Work[None]:
    """A partition that is named again is appended to once, with the last records named for it, as in Kafka."""
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        return
    last: dict[tuple[str, bytes, int], PartitionData] = {}
    count = 0
    for topic in request.topic_data:
        for part in topic.partition_data:
            last[topic.name, topic.topic_id, part.index] = part
            count += 1
            yield None
    if len(last) == count:
        return
    for topic in request.topic_data:
        kept = []
        for part in topic.partition_data:
            found = last.pop((topic.name, topic.topic_id, part.index), None)
            if found is not None:
                kept.append(found)
            yield None
        topic.partition_data = kept
    request.topic_data = [topic for topic in request.topic_data if topic.partition_data]


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
        context.broker.admit(admission, transactional_id, producer, list(starting), done)

    errors = yield from called_back(ask)
    for name, error in errors.items():
        if error and error not in NOT_NOW:
            starting[name].end_verification()
    refused = {name: answered_to_produce(error, admission) or late(name) for name, error in errors.items()}
    return refused, {name: each.guard for name, each in starting.items()}


@frozen
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


def finish(
    request: ProduceRequest,
    context: Context,
    refused: dict[TopicPartition, ErrorCode],
    guards: Mapping[TopicPartition, VerificationGuard] = NO_GUARDS,
) -> Work[ProduceResponse | None]:
    """Append what may be appended, and answer as `acks` says."""
    unacknowledged: Unacknowledged = []
    responses = []
    appends = Appends(request, context, refused, guards, unacknowledged)
    for topic in request.topic_data:
        responses.append((yield from appends.to_topic(topic)))
    if unacknowledged:
        answer_when_replicated(ProduceResponse(responses=responses), unacknowledged, request, context)
        return None
    if request.acks:
        return answer_durably(ProduceResponse(responses=responses), request, context)
    failed = next((part for topic in responses for part in topic.partition_responses if part.error_code), None)
    if failed is None:
        context.no_response()
    else:
        context.close(
            f"a produce request with acks=0 failed with error {failed.error_code}, which only a closed connection can tell"
        )
    return None


def answer_when_replicated(
    response: ProduceResponse, unacknowledged: Unacknowledged, request: ProduceRequest, context: Context
) -> None:
    """Later, when all in-sync replicas have what was appended, or the client's time is over; and after an fsync where one is wanted.

    What follows on the connection need not wait for that: a producer that sends several batches ahead has them replicated together.
    """
    for topic in request.topic_data:
        for part in topic.partition_data:
            part.records = None  # they are in the log, and the receive buffer is used again

    def replicated(errors: dict[TopicPartition, int]) -> None:
        for partition, _, part in unacknowledged:
            if errors[partition.name]:
                part.error_code, part.base_offset = errors[partition.name], -1
        answered = answer_durably(response, request, context)
        if answered is not None and context.is_connected:
            context.answer(answered)

    context.broker.replicas.when_committed(
        ((partition, end_offset) for partition, end_offset, _ in unacknowledged),
        request.timeout_ms / 1000,
        context.guarded(replicated),
    )
    context.let_go()


def answer_durably(response: ProduceResponse, request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """The response; later, when a topic's `flush.messages` asks for an fsync first."""
    replicas = context.broker.replicas
    if not replicas.unflushed:
        return response
    answers: list[tuple[Partition, PartitionResponse]] = []
    for topic, answered in zip(request.topic_data, response.responses, strict=True):
        known = known_topic(topic, context)
        for part in answered.partition_responses:
            partition = None if known is None else replicas.partition_of(known.name, part.index)
            if partition in replicas.unflushed and not part.error_code:
                answers.append((partition, part))
    if not answers:
        return response

    def flushed() -> None:
        for partition, part in answers:
            if partition.log.is_failed:
                part.error_code, part.base_offset = ErrorCode.KAFKA_STORAGE_ERROR, -1
        context.answer(response)

    replicas.when_durable((partition for partition, _ in answers), context.guarded(flushed))
    return None


def known_topic(topic: ProduceRequest.TopicData, context: Context) -> TopicState | None:
    cluster = context.broker.cluster
    return cluster.topic_by_id(topic.topic_id) if context.version >= 13 else cluster.topics.get(topic.name)


def refuse_topic(topic: ProduceRequest.TopicData, error_code: int) -> ProduceResponse.Response:
    partitions = [PartitionResponse(index=part.index, error_code=error_code, base_offset=-1) for part in topic.partition_data]
    return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def refused_partition(index: int, error: MilepostError) -> PartitionResponse:
    """The answer for a partition that did not take its batch."""
    response = PartitionResponse(index=index, error_code=error.code, base_offset=-1, error_message=str(error))
    if isinstance(error, RecordValidation):
        response.record_errors = [
            PartitionResponse.RecordError(batch_index=number, batch_index_error_message=text)
            for number, text in error.record_errors
        ]
    return response


class Appends:
    """Of one request."""

    def __init__(
        self,
        request: ProduceRequest,
        context: Context,
        refused: dict[TopicPartition, ErrorCode],
        guards: Mapping[TopicPartition, VerificationGuard],
        unacknowledged: Unacknowledged,
    ):
        self._request = request
        self._context = context
        self._refused = refused
        self._guards = guards
        self._unacknowledged = unacknowledged
        self._examiner = context.broker.record_examiner
        self._budget = self._examiner.budget(context.request.size)

    def to_topic(self, topic: ProduceRequest.TopicData) -> Work[ProduceResponse.Response]:
        context = self._context
        known = known_topic(topic, context)
        if known is None:
            missing = ErrorCode.UNKNOWN_TOPIC_ID if context.version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return refuse_topic(topic, missing)
        if known.is_internal:
            return refuse_topic(topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
        partitions = []
        for part in topic.partition_data:
            partitions.append((yield from self.to_partition(TopicPartition(known.name, part.index), part)))
            yield None
        return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)

    def to_partition(self, name: TopicPartition, part: PartitionData) -> Work[PartitionResponse]:
        request, context, records = self._request, self._context, part.records
        replicas = context.broker.replicas
        partition = replicas.partition(name)
        if partition is None:
            return self._missing(name)
        error_code = self._refused.get(name) or check_records(records, request, context)
        if error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
            partition.note_refused(records, NotEnoughReplicas("the transaction coordinator cannot be asked now"))
        if error_code:
            return PartitionResponse(index=part.index, error_code=error_code, base_offset=-1)
        examined = None
        while not is_plain(partition.log.validator, records) and not good_for(examined, partition):
            examined = yield from self._examiner.examining(partition.log, records, self._budget)
            partition = replicas.partition(name)
            if partition is None:
                return self._missing(name)
        try:
            info = partition.append(records, guard=self._guards.get(name), examined=examined, for_all=request.acks == ALL)
        except MilepostError as error:
            return refused_partition(part.index, error)
        response = PartitionResponse(
            index=part.index,
            error_code=ErrorCode.NONE,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
        )
        if request.acks == ALL and not partition.is_solo:
            self._unacknowledged.append((partition, info.last_offset + 1, response))
        return response

    def _missing(self, name: TopicPartition) -> PartitionResponse:
        broker = self._context.broker
        missing = broker.missing_partition(name)
        # As in Kafka a produce of its topic, if there is such a partition elsewhere.
        broker.replicas.topic_metrics.of(name.topic).produce_requests += missing == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionResponse(index=name.partition, error_code=missing, base_offset=-1)


def good_for(examined: Examined | None, partition: Partition) -> bool:
    """Whether what was found out still holds: the topic may have got other settings meanwhile."""
    return examined is not None and examined.validator is partition.log.validator


def check_records(records: memoryview | None, request: ProduceRequest, context: Context) -> int:
    """What the version of the request says about its records, before the log looks at them."""
    if records is None or len(records) < HEADER_SIZE or records[16] != MAGIC:
        return ErrorCode.INVALID_RECORD
    batch = RecordBatch(records)
    if batch.size != len(records):
        return ErrorCode.INVALID_RECORD
    if context.version < 7 and batch.attributes & 7 == Codec.ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if batch.is_transactional and request.transactional_id is None:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE

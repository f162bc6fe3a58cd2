"""Produce (key 0): append one batch to each of some partitions.

acks 0: no answer, and an error closes the connection so that the client notices; 1: an answer after the append; -1: when all in-sync
replicas have it, which on a single broker is the same moment. From version 13 topics come by id.

The first batch of a transaction in a partition goes there by way of the transaction coordinator (`transaction_admission`). With
version 2 of the protocol it must have sequence 0 when the partition knows nothing of its producer: every transaction starts at 0
there, so another number means that a batch was lost on the way (45). With `transaction.partition.verification.enable` off, the
partitions of older clients are not verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from milepost.codec.compression import Codec
from milepost.coordinator.transaction import Producer
from milepost.coordinator.transaction_admission import Admission, answered_to_produce
from milepost.errors import MilepostError, NotEnoughReplicas, NotLeaderOrFollower, RecordValidation
from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ProduceRequest, ProduceResponse
from milepost.record.batch import HEADER_SIZE, MAGIC, RecordBatch

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.cluster.view import TopicState
    from milepost.replica.partition import Partition

KEY = 0
INTERNAL_CLIENT = "__admin_client"
ALL = -1
PartitionResponse = ProduceResponse.Response.PartitionResponse
Unacknowledged: TypeAlias = "list[tuple[Partition, int, PartitionResponse]]"
"""Partitions that others must follow, up to which offset, and what will be said about them."""


def handle(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    if request.acks not in (-1, 0, 1):
        return ProduceResponse(responses=[refuse_topic(topic, ErrorCode.INVALID_REQUIRED_ACKS) for topic in request.topic_data])
    if request.transactional_id is None:
        return finish(request, context, {})
    admission = Admission.for_produce(context.version)
    starting = transactions_that_start(request, context)
    if not starting or not (admission is Admission.ADD or context.broker.config.transaction_partition_verification_enable):
        return finish(request, context, {})

    def admitted(errors: dict[TopicPartition, ErrorCode]) -> None:
        refused = {name: answered_to_produce(error, admission) or late(name) for name, error in errors.items()}
        response = finish(request, context, refused)
        if response is not None:
            context.answer(response)

    def late(name: TopicPartition) -> ErrorCode:
        partition = context.broker.replicas.partition(name)
        is_new = partition is not None and partition.log.producers.last_entry(producer.producer_id) is None
        is_late = is_new and admission is Admission.ADD and starting[name].base_sequence != 0
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if is_late else ErrorCode.NONE

    producers = {Producer(batch.producer_id, batch.producer_epoch) for batch in starting.values()}
    if len(producers) > 1:
        return finish(request, context, dict.fromkeys(starting, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    (producer,) = producers
    context.broker.admit(admission, request.transactional_id, producer, list(starting), admitted)
    return None


def transactions_that_start(request: ProduceRequest, context: Context) -> dict[TopicPartition, RecordBatch]:
    """The partitions that get their first batch of a transaction: the coordinator is asked about those."""
    starting: dict[TopicPartition, RecordBatch] = {}
    for topic in request.topic_data:
        known = known_topic(topic, context)
        for part in topic.partition_data if known else ():
            assert known is not None
            partition = context.broker.replicas.partition(TopicPartition(known.name, part.index))
            if partition is None or part.records is None or len(part.records) < HEADER_SIZE or part.records[16] != MAGIC:
                continue
            batch = RecordBatch(part.records)
            if batch.is_transactional and starts_transaction(batch, partition):
                starting[partition.name] = batch
    if starting:
        # The coordinator may answer later, when the receive buffer holds something else.
        for topic in request.topic_data:
            for part in topic.partition_data:
                part.records = None if part.records is None else memoryview(bytes(part.records))
    return starting


def starts_transaction(batch: RecordBatch, partition: Partition) -> bool:
    known = partition.log.producers.last_entry(batch.producer_id)
    if known is None or batch.producer_epoch > known.epoch:
        return True
    # An older epoch is fenced, whatever the coordinator says: the log refuses it.
    return batch.producer_epoch == known.epoch and known.current_txn_first_offset is None


def finish(request: ProduceRequest, context: Context, refused: dict[TopicPartition, ErrorCode]) -> ProduceResponse | None:
    """Append what may be appended, and answer as `acks` says."""
    unacknowledged: Unacknowledged = []
    responses = [answer_topic(topic, request, context, refused, unacknowledged) for topic in request.topic_data]
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
        ((partition, end_offset) for partition, end_offset, _ in unacknowledged), request.timeout_ms / 1000, replicated
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

    replicas.when_durable((partition for partition, _ in answers), flushed)
    return None


def known_topic(topic: ProduceRequest.TopicData, context: Context) -> TopicState | None:
    cluster = context.broker.cluster
    return cluster.topic_by_id(topic.topic_id) if context.version >= 13 else cluster.topics.get(topic.name)


def refuse_topic(topic: ProduceRequest.TopicData, error_code: int) -> ProduceResponse.Response:
    partitions = [PartitionResponse(index=part.index, error_code=error_code, base_offset=-1) for part in topic.partition_data]
    return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def answer_topic(
    topic: ProduceRequest.TopicData,
    request: ProduceRequest,
    context: Context,
    refused: dict[TopicPartition, ErrorCode],
    unacknowledged: Unacknowledged,
) -> ProduceResponse.Response:
    known = known_topic(topic, context)
    if known is None:
        missing = ErrorCode.UNKNOWN_TOPIC_ID if context.version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refuse_topic(topic, missing)
    if known.is_internal and context.client_id != INTERNAL_CLIENT:
        return refuse_topic(topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partitions = [append(known, part, request, context, refused, unacknowledged) for part in topic.partition_data]
    return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def append(
    topic: TopicState,
    part: ProduceRequest.TopicData.PartitionData,
    request: ProduceRequest,
    context: Context,
    refused: dict[TopicPartition, ErrorCode],
    unacknowledged: Unacknowledged,
) -> PartitionResponse:
    name = TopicPartition(topic.name, part.index)
    replicas = context.broker.replicas
    partition = replicas.partition(name)
    if partition is None:
        return PartitionResponse(index=part.index, error_code=context.broker.missing_partition(name), base_offset=-1)
    error_code = refused.get(name) or check_records(part.records, request, context)
    if error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
        partition.refused(part.records, NotEnoughReplicas("the transaction coordinator cannot be asked now"))
    if error_code:
        return PartitionResponse(index=part.index, error_code=error_code, base_offset=-1)
    try:
        if request.acks == ALL:
            partition.ensure_enough_replicas()
        info = replicas.append(name, part.records)
    except RecordValidation as error:
        errors = [
            PartitionResponse.RecordError(batch_index=index, batch_index_error_message=text)
            for index, text in error.record_errors
        ]
        return PartitionResponse(
            index=part.index, error_code=error.code, base_offset=-1, record_errors=errors, error_message=str(error)
        )
    except MilepostError as error:
        if isinstance(error, NotLeaderOrFollower | NotEnoughReplicas):
            partition.refused(part.records, error)
        return PartitionResponse(index=part.index, error_code=error.code, base_offset=-1, error_message=str(error))
    response = PartitionResponse(
        index=part.index,
        error_code=ErrorCode.NONE,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time,
        log_start_offset=info.log_start_offset,
    )
    if request.acks == ALL and not partition.is_solo:
        unacknowledged.append((partition, info.last_offset + 1, response))
    return response


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

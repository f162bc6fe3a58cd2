"""Produce (key 0): append one batch to each of some partitions.

acks 0: no answer, and an error closes the connection so that the client notices; 1 and -1: an answer after the
append, which on a single broker is also the moment all in-sync replicas have it. From version 13 topics come by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.codec.compression import Codec
from milepost.coordinator.transaction import Producer
from milepost.coordinator.transaction_admission import Admission, admit, answered_to_produce
from milepost.errors import MilepostError, RecordValidation
from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ProduceRequest, ProduceResponse
from milepost.record.batch import HEADER_SIZE, MAGIC, RecordBatch

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.cluster.solo import TopicState

KEY = 0
INTERNAL_CLIENT = "__admin_client"
PartitionResponse = ProduceResponse.Response.PartitionResponse


def handle(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    if request.acks not in (-1, 0, 1):
        return ProduceResponse(responses=[refuse_topic(topic, ErrorCode.INVALID_REQUIRED_ACKS) for topic in request.topic_data])
    if request.transactional_id is None:
        return finish(request, context, {})
    starting = transactions_that_start(request, context)
    if not starting:
        return finish(request, context, {})

    def admitted(errors: dict[TopicPartition, ErrorCode]) -> None:
        response = finish(request, context, {name: answered_to_produce(error, admission) for name, error in errors.items()})
        if response is not None:
            context.answer(response)

    if len(set(starting.values())) > 1:
        return finish(request, context, dict.fromkeys(starting, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    admission = Admission.for_produce(context.version)
    producer = next(iter(starting.values()))
    admit(context.broker.transactions, admission, request.transactional_id, producer, list(starting), admitted)
    return None


def transactions_that_start(request: ProduceRequest, context: Context) -> dict[TopicPartition, Producer]:
    """The partitions that get their first batch of a transaction: the coordinator is asked about those."""
    starting: dict[TopicPartition, Producer] = {}
    for topic in request.topic_data:
        known = known_topic(topic, context)
        for part in topic.partition_data if known else ():
            assert known is not None
            partition = context.broker.replicas.partition(TopicPartition(known.name, part.index))
            if partition is None or part.records is None or len(part.records) < HEADER_SIZE or part.records[16] != MAGIC:
                continue
            # The coordinator may answer later, when the receive buffer holds something else.
            part.records = memoryview(bytes(part.records))
            batch = RecordBatch(part.records)
            producers = partition.log.producers
            if batch.is_transactional and not producers.has_open_transaction(batch.producer_id, batch.producer_epoch):
                starting[partition.name] = Producer(batch.producer_id, batch.producer_epoch)
    return starting


def finish(request: ProduceRequest, context: Context, refused: dict[TopicPartition, ErrorCode]) -> ProduceResponse | None:
    """Append what may be appended, and answer as `acks` says."""
    responses = [answer_topic(topic, request, context, refused) for topic in request.topic_data]
    if request.acks:
        return ProduceResponse(responses=responses)
    failed = next((part for topic in responses for part in topic.partition_responses if part.error_code), None)
    if failed is None:
        context.no_response()
    else:
        context.close(
            f"a produce request with acks=0 failed with error {failed.error_code}, which only a closed connection can tell"
        )
    return None


def known_topic(topic: ProduceRequest.TopicData, context: Context) -> TopicState | None:
    cluster = context.broker.cluster
    return cluster.topic_by_id(topic.topic_id) if context.version >= 13 else cluster.topics.get(topic.name)


def refuse_topic(topic: ProduceRequest.TopicData, error_code: int) -> ProduceResponse.Response:
    partitions = [PartitionResponse(index=part.index, error_code=error_code, base_offset=-1) for part in topic.partition_data]
    return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def answer_topic(
    topic: ProduceRequest.TopicData, request: ProduceRequest, context: Context, refused: dict[TopicPartition, ErrorCode]
) -> ProduceResponse.Response:
    known = known_topic(topic, context)
    if known is None:
        missing = ErrorCode.UNKNOWN_TOPIC_ID if context.version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refuse_topic(topic, missing)
    if known.is_internal and context.client_id != INTERNAL_CLIENT:
        return refuse_topic(topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
    partitions = [append(known, part, request, context, refused) for part in topic.partition_data]
    return ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def append(
    topic: TopicState,
    part: ProduceRequest.TopicData.PartitionData,
    request: ProduceRequest,
    context: Context,
    refused: dict[TopicPartition, ErrorCode],
) -> PartitionResponse:
    name = TopicPartition(topic.name, part.index)
    replicas = context.broker.replicas
    if replicas.partition(name) is None:
        return PartitionResponse(index=part.index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, base_offset=-1)
    error_code = refused.get(name) or check_records(part.records, request, context)
    if error_code:
        return PartitionResponse(index=part.index, error_code=error_code, base_offset=-1)
    try:
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
        return PartitionResponse(index=part.index, error_code=error.code, base_offset=-1, error_message=str(error))
    return PartitionResponse(
        index=part.index,
        error_code=ErrorCode.NONE,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time,
        log_start_offset=info.log_start_offset,
    )


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

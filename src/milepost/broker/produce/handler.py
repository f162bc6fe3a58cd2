"""Produce (key 0), the general path: append one batch to each of some partitions. For requests that the fast path (`frames`) does not take.

acks 0: no answer, and an error closes the connection so that the client notices; 1: an answer after the append; -1: when all in-sync
replicas have it (`pending`), which on a single broker is the same moment. From version 13 topics come by id.

The first batch of a transaction in a partition goes there by way of the transaction coordinator (`transaction_verification`).

A batch that is compressed, or will be, is looked into first; on another thread if that takes long (`record_examiner`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from milepost.broker.produce.partition_answers import (
    NOT_ANSWERED,
    PartitionData,
    PartitionResponse,
    known_topic,
    missing_partition,
    refuse_topic,
    refused_partition,
    unacknowledged,
)
from milepost.broker.produce.pending import PendingProduce, has_to_wait
from milepost.broker.produce.transaction_verification import NO_GUARDS, admitted
from milepost.broker.slices import Work
from milepost.codec.compression import Codec
from milepost.errors import MilepostError, NotEnoughReplicas
from milepost.log.examination import Examined, is_plain
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ProduceRequest, ProduceResponse
from milepost.record.batch import HEADER_SIZE, MAGIC, RecordBatch
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.log.producer_state.verification import VerificationGuard
    from milepost.replica.partition import Partition

ALL = -1
Done: TypeAlias = "tuple[Partition, int, PartitionResponse]"
"""A partition that took its batch, where that ends, and what will be said about it."""


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


def finish(
    request: ProduceRequest,
    context: Context,
    refused: dict[TopicPartition, ErrorCode],
    guards: Mapping[TopicPartition, VerificationGuard] = NO_GUARDS,
) -> Work[ProduceResponse | None]:
    """Append what may be appended, and answer as `acks` says."""
    responses = []
    appends = Appends(request, context, refused, guards)
    for topic in request.topic_data:
        responses.append((yield from appends.to_topic(topic)))
    if request.acks:
        return answered(ProduceResponse(responses=responses), appends.done, request, context)
    failed = next((part for topic in responses for part in topic.partition_responses if part.error_code), None)
    if failed is None:
        context.no_response()
    else:
        context.close(NOT_ANSWERED.format(failed.error_code))
    return None


def answered(response: ProduceResponse, done: list[Done], request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """The response; or nothing, when it has to wait."""
    broker, for_all = context.broker, request.acks == ALL
    if not has_to_wait(broker.replicas, (partition for partition, _, _ in done), for_all):
        return response
    for topic in request.topic_data:
        for part in topic.partition_data:
            part.records = None  # they are in the log, and the receive buffer is used again

    def answer(errors: dict[TopicPartition, int]) -> None:
        for partition, _, part in done:
            if partition.name in errors:
                unacknowledged(part, errors[partition.name])
        context.answer(response)

    appended = [(partition, end_offset) for partition, end_offset, _ in done]
    pending = PendingProduce(context.request, broker.replicas, appended, answer, lambda: broker.dispatcher.failed(context))
    pending.wait(for_all, request.timeout_ms / 1000)
    return None


class Appends:
    """Of one request."""

    def __init__(
        self,
        request: ProduceRequest,
        context: Context,
        refused: dict[TopicPartition, ErrorCode],
        guards: Mapping[TopicPartition, VerificationGuard],
    ):
        self._request = request
        self._context = context
        self._refused = refused
        self._guards = guards
        self.done: list[Done] = []
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
            return missing_partition(name, context.broker)
        error_code = self._refused.get(name) or check_records(records, request, context)
        if error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
            partition.note_refused(records, NotEnoughReplicas("the transaction coordinator is not available"))
        if error_code:
            return PartitionResponse(index=part.index, error_code=error_code, base_offset=-1)
        examined = None
        while not is_plain(partition.log.validator, records) and not good_for(examined, partition):
            examined = yield from self._examiner.examining(partition.log, records, self._budget)
            partition = replicas.partition(name)
            if partition is None:
                return missing_partition(name, context.broker)
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
        self.done.append((partition, info.last_offset + 1, response))
        return response


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

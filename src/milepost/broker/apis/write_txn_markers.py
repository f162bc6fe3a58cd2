"""WriteTxnMarkers (key 27): end transactions in some partitions, whatever their coordinator thinks of it.

Coordinators of other brokers ask for it, and administrators who end a hanging transaction (`kafka-transactions abort`):
one that is open in a partition while its coordinator knows nothing of it, so that nobody else ever ends it.

    the producer's epoch is older than what it wrote here                 47 INVALID_PRODUCER_EPOCH
    the same epoch ends an open transaction of version 2 (version 2 on)   47: its end must have raised the epoch (KIP-890)
    another coordinator with a higher epoch wrote here                    52 TRANSACTION_COORDINATOR_FENCED
    the partition is not here                                             3 UNKNOWN_TOPIC_OR_PARTITION

A marker for a producer that has no open transaction is written all the same, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.transaction_markers import MarkerWriter
from milepost.coordinator.transaction import EPOCH_BUMP_VERSION
from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 27
Marker = WriteTxnMarkersRequest.Marker
MarkerAnswer = WriteTxnMarkersResponse.Marker
TopicAnswer = MarkerAnswer.Topic


def handle(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[write(marker, context) for marker in request.markers])


def write(marker: Marker, context: Context) -> MarkerAnswer:
    names = {TopicPartition(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}
    errors = {name: error for name in names if (error := fault_of(marker, name, context))}
    MarkerWriter(context.broker)(
        [name for name in names if name not in errors],
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        errors.update,
    )
    return answer_of(marker, errors)


def answer_of(marker: Marker, errors: dict[TopicPartition, int]) -> MarkerAnswer:
    return MarkerAnswer(
        producer_id=marker.producer_id,
        topics=[
            TopicAnswer(
                name=topic.name,
                partitions=[
                    TopicAnswer.Partition(partition_index=index, error_code=errors[TopicPartition(topic.name, index)])
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def fault_of(marker: Marker, name: TopicPartition, context: Context) -> int:
    """What speaks against a marker, before the log looks at it."""
    partition = context.broker.replicas.partition(name)
    if partition is None:
        return context.broker.missing_partition(name)
    if marker.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if marker.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    known = partition.log.producers.last_entry(marker.producer_id)
    is_open = known is not None and known.current_txn_first_offset is not None
    if (
        known is not None
        and is_open
        and marker.transaction_version >= EPOCH_BUMP_VERSION
        and marker.producer_epoch <= known.epoch
    ):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NONE

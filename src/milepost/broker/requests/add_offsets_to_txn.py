"""AddOffsetsToTxn (key 25): the offsets of a group will be committed in the transaction.

They live in a partition of `__consumer_offsets`, which becomes part of the transaction like any other. Before version
2 a fenced producer gets 47 INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.transactions.transaction import Producer
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context

OFFSETS_TOPIC = "__consumer_offsets"


def handle(request: AddOffsetsToTxnRequest, context: Context) -> None:
    def answered(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and context.version < 2:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        context.answer(AddOffsetsToTxnResponse(error_code=error))

    partition = TopicPartition(OFFSETS_TOPIC, context.broker.groups.partition_for(request.group_id))
    context.broker.transactions.add_partitions(
        request.transactional_id, Producer(request.producer_id, request.producer_epoch), [partition], answered
    )

"""DescribeTransactions (key 65): where the transactions of some transactional ids stand, each once.

An unknown id gets 105 TRANSACTIONAL_ID_NOT_FOUND, an empty one 42 INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.transactions.transaction_records import by_topic
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

State = DescribeTransactionsResponse.TransactionState


def handle(request: DescribeTransactionsRequest, context: Context) -> Work[DescribeTransactionsResponse]:
    states = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        states.append(describe(transactional_id, context))
        yield
    return DescribeTransactionsResponse(transaction_states=states)


def describe(transactional_id: str, context: Context) -> State:
    found = context.broker.transactions.describe(transactional_id)
    if isinstance(found, ErrorCode):
        return State(error_code=found, transactional_id=transactional_id)
    return State(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=found.state.kafka_name,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_timestamp,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[State.Topic(topic=topic.topic, partitions=list(topic.partition_ids)) for topic in by_topic(found.partitions)],
    )

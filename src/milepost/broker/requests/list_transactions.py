"""ListTransactions (key 66): the transactional ids of this coordinator, those that pass all filters that are given.

state_filters             Kafka's state names; one that is not such a name is named in the answer, and lets nothing pass
producer_id_filters       any of these
duration_filter (1+)      begun more than so many milliseconds ago, or (as in Kafka) never; negative: no filter
transactional_id_pattern  a regular expression for the whole id (2+), in RE2's syntax; 128 INVALID_REGULAR_EXPRESSION if it is none. An id
                          with characters outside of ASCII matches none
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.regex.re2_syntax import RegularExpressionError
from milepost.coordinator.regex.subscriptions import resolving
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ListTransactionsRequest, ListTransactionsResponse
from milepost.record.internal_topics.transaction_state import TransactionState

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

STATES = {state.kafka_name: state for state in TransactionState}


def handle(request: ListTransactionsRequest, context: Context) -> Work[ListTransactionsResponse]:
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    now_ms = context.broker.clock.now_ms()
    found = []
    for metadata in context.broker.transactions.all():
        if (
            (not states or metadata.state.kafka_name in states)
            and (not producers or metadata.producer_id in producers)
            and (request.duration_filter < 0 or now_ms - metadata.start_timestamp > request.duration_filter)
        ):
            found.append(metadata)
        yield
    if request.transactional_id_pattern:
        names = [metadata.transactional_id for metadata in found]
        try:
            matching = yield from resolving(request.transactional_id_pattern, names)
        except RegularExpressionError:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        found = [metadata for metadata in found if metadata.transactional_id in matching]
    listed = []
    for metadata in found:
        listed.append(
            ListTransactionsResponse.TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.kafka_name,
            )
        )
        yield
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name for name in request.state_filters if name not in STATES],
        transaction_states=listed,
    )

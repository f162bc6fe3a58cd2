"""EndTxn (key 26): commit or abort the open transaction.

Version 5 raises the producer's epoch (KIP-890) and says who the producer is from now on. Before version 2 a fenced
producer gets 47 INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.transactions.transaction import EPOCH_BUMP_VERSION, Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context


def handle(request: EndTxnRequest, context: Context) -> None:
    def answered(answer: ProducerAnswer) -> None:
        error = answer.error
        if error is ErrorCode.PRODUCER_FENCED and context.version < 2:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        producer = answer.producer
        context.answer(EndTxnResponse(error_code=error, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch))

    context.broker.transactions.end(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        answered,
        EPOCH_BUMP_VERSION if context.version >= 5 else 0,
    )

"""InitProducerId (key 22): a producer id and an epoch, for idempotence alone or for a transactional id.

From version 3 a producer may say who it is, to recover from an error without losing its id: both fields, or neither.
Before version 4 a fenced producer gets 47 INVALID_PRODUCER_EPOCH. In a cluster it waits until this broker has producer ids to
give away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.transactions.transaction import NO_PRODUCER, Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from milepost.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from milepost.broker.context import Context


def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse | None:
    known = Producer(request.producer_id, request.producer_epoch)
    if (known.producer_id == NO_PRODUCER_ID) != (known.producer_epoch == NO_PRODUCER_EPOCH):
        return response(ProducerAnswer(ErrorCode.INVALID_REQUEST), context.version)

    def ready() -> None:
        context.broker.transactions.init_producer_id(
            request.transactional_id,
            request.transaction_timeout_ms,
            None if known == NO_PRODUCER else known,
            lambda answer: context.answer(response(answer, context.version)),
        )

    context.broker.topology.producer_ids.when_available(ready)
    return None


def response(answer: ProducerAnswer, version: int) -> InitProducerIdResponse:
    error = answer.error
    if error is ErrorCode.PRODUCER_FENCED and version < 4:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    producer = answer.producer
    return InitProducerIdResponse(error_code=error, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)

"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context


def handle(request: AllocateProducerIdsRequest, context: Context, broker: ClusterParts) -> AllocateProducerIdsResponse | None:
    controller = broker.controller
    if controller is None:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if request.broker_id not in controller.context.brokers or not context.speaks_for(request.broker_id):
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def answered(error: int, start: int, count: int) -> None:
        context.answer(AllocateProducerIdsResponse(error_code=error, producer_id_start=start, producer_id_len=count))

    controller.allocate_producer_ids(request.broker_id, request.broker_epoch, answered)
    return None

"""UpdateMetadata (key 6): the controller sends which brokers are alive and who leads what; Metadata responses and fetchers use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 5


def handle(request: UpdateMetadataRequest, context: Context, broker: ClusterParts) -> None:
    def judged(fault: int) -> None:
        code = fault or broker.leader_and_isr.refusal(request.controller_epoch, request.broker_epoch)
        if code == ErrorCode.NONE:
            broker.take_metadata(request)
        context.answer(UpdateMetadataResponse(error_code=code))

    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    broker.member.fault_of_controller(request.controller_id, request.controller_epoch, broker_epoch, judged)

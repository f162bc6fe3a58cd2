"""UpdateMetadata (key 6): the controller sends which brokers are alive and who leads what; Metadata responses and fetchers use it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, called_back
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 5


def handle(request: UpdateMetadataRequest, context: Context, broker: ClusterParts) -> Work[UpdateMetadataResponse]:
    context.goes_on = context.is_urgent = True
    return broker.turn_of_controller.of(updating(request, context, broker))


def updating(request: UpdateMetadataRequest, context: Context, broker: ClusterParts) -> Work[UpdateMetadataResponse]:
    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    fault = yield from called_back(
        partial(broker.member.fault_of_controller, request.controller_id, request.controller_epoch, broker_epoch)
    )
    code = fault or broker.leader_and_isr.refusal(request.controller_epoch, request.broker_epoch)
    if code == ErrorCode.NONE:
        yield from broker.taking_metadata(request)
    return UpdateMetadataResponse(error_code=code)

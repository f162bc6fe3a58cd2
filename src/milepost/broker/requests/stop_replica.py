"""StopReplica (key 5): the controller says what this broker serves no more, and what it deletes; see `replica/leader_and_isr`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, called_back
from milepost.protocol.messages import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 1


def handle(request: StopReplicaRequest, context: Context, broker: ClusterParts) -> Work[StopReplicaResponse]:
    context.goes_on = context.is_urgent = True
    return broker.turn_of_controller.of(stopping(request, context, broker))


def stopping(request: StopReplicaRequest, context: Context, broker: ClusterParts) -> Work[StopReplicaResponse]:
    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    fault = yield from called_back(
        partial(broker.member.fault_of_controller, request.controller_id, request.controller_epoch, broker_epoch)
    )
    return (yield from broker.leader_and_isr.stopping(request, context.version, fault))

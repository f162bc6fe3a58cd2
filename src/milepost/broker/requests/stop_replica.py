"""StopReplica (key 5): the controller says what this broker serves no more, and what it deletes; see `replica/leader_and_isr`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import StopReplicaRequest

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 1


def handle(request: StopReplicaRequest, context: Context, broker: ClusterParts) -> None:
    def judged(fault: int) -> None:
        context.answer(broker.leader_and_isr.stop(request, context.version, fault))

    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    broker.member.fault_of_controller(request.controller_id, request.controller_epoch, broker_epoch, judged)

"""StopReplica (key 5): the controller says what this broker serves no more, and what it deletes; see `replica/roles`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 5


def handle(request: StopReplicaRequest, context: Context) -> None:
    broker = cast("ClusteredBroker", context.broker)

    def judged(is_trusted: bool) -> None:
        if is_trusted:
            context.answer(broker.roles.stop(request, context.version))
        else:
            context.answer(StopReplicaResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    broker.member.trust(request.controller_id, request.controller_epoch, judged)

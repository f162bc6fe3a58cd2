"""ControlledShutdown (key 7): a broker is about to stop and asks the controller to move what it leads; what it still leads is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ControlledShutdownRequest, ControlledShutdownResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 2
Remaining = ControlledShutdownResponse.RemainingPartition


def handle(request: ControlledShutdownRequest, context: Context, broker: ClusterParts) -> ControlledShutdownResponse | None:
    controller = broker.controller
    if controller is None:
        return ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if request.broker_id not in controller.context.brokers or not context.speaks_for(request.broker_id):
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def answered(error: int, left: list[TopicPartition]) -> None:
        remaining = [Remaining(topic_name=name.topic, partition_index=name.partition) for name in left]
        context.answer(ControlledShutdownResponse(error_code=error, remaining_partitions=remaining))

    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    controller.controlled_shutdown(request.broker_id, broker_epoch, answered)
    return None

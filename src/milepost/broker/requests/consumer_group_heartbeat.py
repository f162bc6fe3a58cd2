"""ConsumerGroupHeartbeat (key 68): join a group of the consumer protocol, stay in it, hear what to work on, leave it.

While the feature group.version is at 0 the protocol is not served: 35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.features import GROUP_VERSION, level_of
from milepost.coordinator.interfaces import Client
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: ConsumerGroupHeartbeatRequest, context: Context) -> Work[ConsumerGroupHeartbeatResponse | None]:
    if not level_of(context.broker.cluster, GROUP_VERSION):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=None)
    client = Client(context.client_id, context.client_host, context.may_describe)
    service = context.broker.groups.consumer_groups
    assert service is not None, "the broker starts with it"
    yield from service.heartbeat(request, context.version, client, context.answer)
    return None

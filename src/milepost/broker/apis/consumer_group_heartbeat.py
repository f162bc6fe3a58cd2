"""ConsumerGroupHeartbeat (key 68): join a group of the consumer protocol, stay in it, hear what to work on, leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.client import Client
from milepost.protocol.messages import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 68


def handle(request: ConsumerGroupHeartbeatRequest, context: Context) -> None:
    client = Client(context.client_id, context.client_host)
    service = context.broker.groups.consumer_groups
    assert service is not None, "the broker starts with it"
    service.heartbeat(request, context.version, client, context.answer)

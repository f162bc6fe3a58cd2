"""JoinGroup (key 11): become a member of a classic group, or stay one. Answered when the group has its next generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.interfaces import Client
from milepost.protocol.messages import JoinGroupRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: JoinGroupRequest, context: Context) -> Work[None] | None:
    client = Client(context.client_id, context.client_host)
    return context.broker.groups.join(request, context.version, client, context.answer)

"""Heartbeat (key 12): a member of a classic group is alive, and hears whether it has to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context


def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    return context.broker.groups.heartbeat(request)

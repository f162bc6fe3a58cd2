"""LeaveGroup (key 13): members go, one of them up to version 2, any number from version 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: LeaveGroupRequest, context: Context) -> Work[LeaveGroupResponse]:
    return context.broker.groups.leave(request, context.version)

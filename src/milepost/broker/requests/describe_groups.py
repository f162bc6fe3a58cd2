"""DescribeGroups (key 15): state and members of classic groups. A group that is named again is described once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: DescribeGroupsRequest, context: Context) -> Work[DescribeGroupsResponse]:
    request.groups = list(dict.fromkeys(request.groups))
    return context.broker.groups.describe_groups(request, context.version)

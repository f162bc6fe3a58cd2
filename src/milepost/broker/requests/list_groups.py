"""ListGroups (key 16): the groups this broker coordinates, by state (version 4) and type (version 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: ListGroupsRequest, context: Context) -> Work[ListGroupsResponse]:
    return context.broker.groups.list_groups(request)

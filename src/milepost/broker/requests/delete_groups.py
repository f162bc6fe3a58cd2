"""DeleteGroups (key 42): groups without members, with all their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import DeleteGroupsRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: DeleteGroupsRequest, context: Context) -> Work[None]:
    return context.broker.groups.delete_groups(request, context.answer)

"""OffsetDelete (key 47): committed offsets of topics that no member of the group subscribes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import OffsetDeleteRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: OffsetDeleteRequest, context: Context) -> Work[None]:
    return context.broker.groups.delete_offsets(request, context.answer)

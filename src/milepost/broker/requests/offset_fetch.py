"""OffsetFetch (key 9): how far groups have read. A group that is named again counts once, as it was named last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: OffsetFetchRequest, context: Context) -> Work[OffsetFetchResponse]:
    request.groups = list({group.group_id: group for group in request.groups}.values())
    return context.broker.groups.fetch_offsets(request, context.version)

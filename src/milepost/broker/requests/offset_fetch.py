"""OffsetFetch (key 9): how far groups have read. A group that is named again counts once, as it was named last."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from milepost.broker.slices import keyed
from milepost.protocol.messages import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: OffsetFetchRequest, context: Context) -> Work[OffsetFetchResponse]:
    request.groups = list((yield from keyed(request.groups, attrgetter("group_id"))).values())
    return (yield from context.broker.groups.fetch_offsets(request, context.version))

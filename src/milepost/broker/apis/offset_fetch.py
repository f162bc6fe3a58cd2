"""OffsetFetch (key 9): how far groups have read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 9


def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    return context.broker.groups.fetch_offsets(request, context.version)

"""Fetch (key 1): batches from some partitions, for a consumer (`fetch/consumer`) or for another broker (`fetch/follower`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.fetch.consumer import consume
from milepost.broker.fetch.replica_id import is_follower
from milepost.protocol.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 1


def handle(request: FetchRequest, context: Context) -> FetchResponse | Work[FetchResponse | None] | None:
    if is_follower(request):
        return context.broker.topology.followers.answer(request, context)
    return consume(request, context, context.broker)

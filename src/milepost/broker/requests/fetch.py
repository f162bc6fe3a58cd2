"""Fetch (key 1): batches from some partitions, for a consumer (`fetch/consumer`) or for another broker (`fetch/follower`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.fetch.consumer import ConsumerFetch
from milepost.broker.fetch.partition_read import fetch_partition
from milepost.broker.fetch.repeated_consumer import remember
from milepost.broker.fetch.replica_id import is_follower
from milepost.protocol.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work


def handle(request: FetchRequest, context: Context) -> FetchResponse | Work[FetchResponse | None] | None:
    if is_follower(request):
        return context.broker.topology.followers.answer(request, context)
    return consume(request, context)


def consume(request: FetchRequest, context: Context) -> Work[FetchResponse | None]:
    sessions = context.broker.fetch_sessions
    session = yield from sessions.opening(request, context.version, fetch_partition, owner=context.principal)
    if session.error_code:
        return FetchResponse(error_code=session.error_code)
    fetch = ConsumerFetch(request, context.version, context.broker, session)
    if context.may_read is not None:
        for each in fetch.partitions:
            name = each.name_in(context.broker.cluster)
            each.is_denied = name is not None and not context.may_read(name)
            yield None
    remember(request, context, fetch)
    results = yield from fetch.reading()
    if fetch.is_complete(results):
        return (yield from fetch.responding(results))

    def finishing() -> Work[None]:
        results = yield from fetch.reading()
        context.answer((yield from fetch.responding(results)))

    fetch.wait(context, results, lambda: context.run(finishing()))
    return None

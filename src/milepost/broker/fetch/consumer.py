"""Fetch (key 1): batches from some partitions, now or as soon as there are enough.

The answer waits until `min_bytes` are there or `max_wait_ms` is over; an error, or nothing asked for, is answered at
once. The first partition with data gives at least one whole batch, however large. Records are not read here: the
answer holds stretches of log files that go from disk to socket.

A client that says where it stands (rack, version 11) may be sent to a replica that is nearer than the leader (KIP-392).

From version 7 a client may keep a session and name only what changed; see `broker/fetch/session_cache`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from milepost.broker.fetch.interfaces import FetchBroker, FetchContext
from milepost.broker.fetch.partition_read import (
    MAX_WAIT_SECONDS,
    Result,
    count,
    fetch_partition,
    is_enough,
    read_all,
    read_one,
    size_of,
)
from milepost.broker.fetch.session_cache import FetchSessions
from milepost.broker.slices import Work
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse


class ConsumerBroker(FetchBroker, Protocol):
    @property
    def fetch_sessions(self) -> FetchSessions: ...


def consume(request: FetchRequest, context: FetchContext, broker: ConsumerBroker) -> Work[FetchResponse | None]:
    session = yield from broker.fetch_sessions.opening(request, context.version, fetch_partition)
    if session.error_code:
        return FetchResponse(error_code=session.error_code)
    partitions = session.partitions()
    if request.rack_id and broker.config.replica_selector_class is not None:
        for each in partitions:
            each.rack = request.rack_id
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    isolation = Isolation.COMMITTED if request.isolation_level == 1 else Isolation.UNCOMMITTED

    def reading() -> Work[list[Result | None]]:
        return read_all(partitions, broker, max_bytes, isolation, with_limits=context.version >= 3)

    def answering(results: Sequence[Result | None]) -> Work[FetchResponse]:
        yield from count(partitions, results)
        return (yield from session.answering(partitions, results, isolation))

    results = yield from reading()
    if request.max_wait_ms <= 0 or not partitions or is_enough(results, request.min_bytes):
        return (yield from answering(results))

    watched = {each.key: number for number, each in enumerate(partitions)}
    sizes = [size_of(result) for result in results]

    def try_complete(name: Hashable) -> bool:
        """Only one partition has changed: the others have what they had."""
        number = watched[name]
        result = read_one(partitions[number], broker, max_bytes, isolation, True)
        sizes[number] = size_of(result)
        return result.error_code != ErrorCode.NONE or sum(sizes) >= request.min_bytes

    def finishing() -> Work[None]:
        results = yield from reading()
        context.answer((yield from answering(results)))

    def complete() -> None:
        if context.is_connected:
            context.run(finishing())

    guarded, seconds = context.guarded, min(request.max_wait_ms / 1000, MAX_WAIT_SECONDS)
    broker.replicas.purgatory.wait(list(watched), guarded(try_complete), guarded(complete), seconds)
    return None

"""Fetches of a consumer that repeat: a request that differs from the one before only in what it names of known partitions is read and
answered without a message for each of them.

    in a session    the epoch goes on, and some of the session's partitions are named with new offsets, or none
    without one     some of the partitions that were named before, in any order, with new offsets

The first one takes the general path (`requests/fetch`), which also says whether the client may read: what is known here are the
partitions that it made. What differs is how requests and answers are read and written (`protocol/consumer_fetch_frames`); partitions are
read, waited for and counted by the same `ConsumerFetch`, and the session decides what an answer names.

Whatever is unusual takes the general path, before anything was touched: another session epoch, a session that was changed by another
request, a partition that is not known or is named twice. An answer with an error, or with a replica to read from instead, is put together
by the general path.

What is known belongs to one connection, until it fetches something else, and to one generation of the authorizer's rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.fetch.consumer import ConsumerFetch
from milepost.broker.fetch.partition_read import FetchPartition, Result, offsets_of
from milepost.broker.fetch.session_cache import Answer, Session, responding
from milepost.log.reading import Isolation
from milepost.protocol.consumer_fetch_frames import (
    NO_SESSION,
    Answered,
    Asked,
    ConsumerAnswerFrame,
    ConsumerFetchFrame,
    OtherFrame,
)
from milepost.protocol.messages import FetchRequest
from milepost.work import at_once

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.net.request import Request

MOST_PARTITIONS = 100
"""More of them are read in slices."""
MOST_BYTES = 1024
"""Client ids and racks of consumers are short; of any length, they would be memory that a stranger can fill."""
MOST_FRAME_BYTES = 32 << 10
"""A request is read in one go here: so many partitions, each of another topic with a long name, take no more."""


def remember(body: FetchRequest, context: Context, fetch: ConsumerFetch) -> None:
    """After a fetch was taken apart: expect more of its kind on the connection, for the partitions that it was allowed to read."""
    context.connection["fetch"] = None
    session = fetch.session
    goes_on = session.session_id == body.session_id and isinstance(session, Session) == (body.session_id != 0)
    if not goes_on or session.partition_count > MOST_PARTITIONS or len(context.request.frame) > MOST_FRAME_BYTES:
        return
    try:
        frame = ConsumerFetchFrame(context.version, context.request.frame)
    except OtherFrame:
        return
    if frame.size <= MOST_BYTES:
        context.connection["fetch"] = RepeatedConsumerFetch(frame, context, fetch)


class RepeatedConsumerFetch:
    """Fetches of one connection that ask for the same partitions, or for some of them."""

    def __init__(self, frame: ConsumerFetchFrame, context: Context, fetch: ConsumerFetch):
        self._frame = frame
        self._context = context
        self._fetch = fetch
        self._authorizer = context.broker.dispatcher.authorizer
        self._generation = self._authorizer.generation
        self._meter = context.request.meter
        self._revision = fetch.session.revision
        self._answer = ConsumerAnswerFrame(context.version)
        self._known: dict[tuple[bytes, int], FetchPartition] | None = None

    def handle(self, request: Request) -> bool:
        """Whether the request was one of these, and is answered, or will be."""
        found = self._frame.read(request.frame) if len(request.frame) <= MOST_FRAME_BYTES else None
        if found is None or self._authorizer.generation != self._generation:
            return False
        epoch, asked = found
        named = self._named(asked)
        if named is None or not self._goes_on(epoch):
            return False
        for each, (_, _, leader_epoch, offset, max_bytes) in zip(named, asked, strict=True):
            part = each.part
            part.current_leader_epoch, part.fetch_offset, part.partition_max_bytes = leader_epoch, offset, max_bytes
        request.meter = self._meter
        self._fetch.partitions = named if epoch == NO_SESSION else self._fetch.session.partitions()
        correlation_id = bytes(request.frame[4:8])
        try:
            results = at_once(self._fetch.reading())
            if self._fetch.is_complete(results):
                self._send(request, correlation_id, results)
            else:
                self._wait(request, correlation_id, results)
        except Exception:
            self._context_of(request, correlation_id).failed()
        return True

    def _named(self, asked: list[Asked]) -> list[FetchPartition] | None:
        """The partitions that a request names, if all are known and none is named twice."""
        if self._known is None:
            self._known = {topic_and_partition(each): each for each in self._fetch.session.partitions()}
        named = [self._known.get((topic, partition)) for topic, partition, *_ in asked]
        found = [each for each in named if each is not None]
        return found if len(set(found)) == len(asked) else None

    def _goes_on(self, epoch: int) -> bool:
        """Whether the session, if there is one, is at this request, which is taken by that."""
        session = self._fetch.session
        if not isinstance(session, Session):
            return epoch == NO_SESSION
        is_next = epoch == session.epoch and session.revision == self._revision
        return is_next and self._context.broker.fetch_sessions.use(session)

    def _wait(self, request: Request, correlation_id: bytes, results: list[Result | None]) -> None:
        def finish() -> None:
            self._send(request, correlation_id, at_once(self._fetch.reading()))

        self._fetch.wait(self._context_of(request, correlation_id), results, finish)
        request.handled_at = self._context.broker.loop.monotonic()

    def _send(self, request: Request, correlation_id: bytes, results: list[Result | None]) -> None:
        answer = at_once(self._fetch.answering(results))
        topics = self._written(answer)
        if topics is None:
            response = at_once(responding(answer, self._fetch.isolation))
            self._context_of(request, correlation_id).answer(response)
            return
        self._meter.successes += 1 + len(answer.named)
        request.send(self._answer.write(correlation_id, answer.session_id, topics))

    def _written(self, answer: Answer) -> list[tuple[bytes, list[Answered]]] | None:
        """What an answer says, topic by topic, if there is no error in it, nor a replica to read from instead."""
        nothing_aborted = () if self._fetch.isolation is Isolation.COMMITTED else None
        topics: list[tuple[bytes, list[Answered]]] = []
        before: FetchPartition | None = None
        partitions: list[Answered] = []
        for each, result in answer.named:
            if before is None or (each.topic_id, each.topic) != (before.topic_id, before.topic):
                partitions = []
                topics.append((topic_of(each), partitions))
                before = each
            if result is None:
                partitions.append((each.part.partition, offsets_of(each), nothing_aborted, b""))
            elif result.error_code or result.preferred_read_replica >= 0:
                return None
            else:
                partitions.append(written(result))
        return topics

    def _context_of(self, request: Request, correlation_id: bytes) -> Context:
        return self._context.of(request, int.from_bytes(correlation_id, "big", signed=True))


def topic_of(each: FetchPartition) -> bytes:
    return each.topic_id if each.is_by_id else each.topic.encode()


def topic_and_partition(each: FetchPartition) -> tuple[bytes, int]:
    return topic_of(each), each.part.partition


def written(result: Result) -> Answered:
    aborted = result.aborted_transactions
    return (
        result.partition_index,
        (result.high_watermark, result.last_stable_offset, result.log_start_offset),
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        result.records,
    )

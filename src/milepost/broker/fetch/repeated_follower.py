"""Fetches that repeat: a request that differs from the one before only in its offsets is read and answered by template.

The first ones of a kind take the general path (`fetch/follower`). What differs here is how a request is read from its bytes and
how records of one partition are written (`protocol/follower_fetch_frames`), and that a fetch which waits keeps its place in the purgatory;
partitions are read, errors told and bytes counted by the same `FollowerFetch`.

A template belongs to one connection, and to one generation of the authorizer's rules. It is forgotten when something else is fetched on
the connection.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.broker.fetch.follower import FollowerFetch, LeaderBroker
from milepost.broker.fetch.interfaces import FetchContext
from milepost.broker.fetch.partition_read import FetchPartition, Result, is_diverging, offsets_of
from milepost.broker.fetch.session_cache import Session
from milepost.loop import Timer
from milepost.protocol.follower_fetch_frames import SINCE, FetchAnswerFrame, FetchFrame
from milepost.protocol.messages import FetchRequest
from milepost.work import at_once

if TYPE_CHECKING:
    from milepost.net.request import Request

OTHERS_MS = 100
CODES = 2
"""Error codes in an answer: one at the top, one of its partition."""


def remember(body: FetchRequest, context: FetchContext, broker: LeaderBroker) -> None:
    """After a follower's fetch that was taken apart: expect more of its kind, if it named the same partition as the one before."""
    connection = context.connection
    session = broker.fetch_sessions.get(body.session_id)
    named = session.only_one_of(body) if session is not None and context.version >= SINCE else None
    last: object = connection.get("fetched")
    before: object = connection.get("fetch")
    connection["fetched"], connection["fetch"] = named, None
    if isinstance(before, RepeatedFollowerFetch) and not before.is_waiting:
        before.leave()
    if session is None or named is None or named is not last:
        return
    if all(each.partition is not None for each in session.partitions()):
        repeated = RepeatedFollowerFetch(body, context, broker, session, named)
        if repeated.is_like(context.request):
            connection["fetch"] = repeated


class RepeatedFollowerFetch:
    """Fetches of one connection, in one session, that name one partition."""

    def __init__(self, body: FetchRequest, context: FetchContext, broker: LeaderBroker, session: Session, named: FetchPartition):
        self._broker = broker
        self._context = context
        self._session = session
        self._generation = broker.dispatcher.authorizer.generation
        self._revision = session.revision
        self._named = named
        self._fetch = FollowerFetch(body, broker, session)
        self._follower = self._fetch.follower
        self._others = [each for each in self._fetch.partitions if each is not named]
        self._nothing = [None] * len(self._others)
        self._watched: dict[Hashable, FetchPartition] = {
            each.partition.name: each for each in self._fetch.partitions if each.partition is not None
        }
        self.keys = tuple(self._watched)
        self._meter = context.request.meter
        self._others_recorded_ms = broker.clock.now_ms()
        self._waiting: Request | None = None
        self._is_due = False
        self._deadline = 0.0
        self._timer: Timer | None = None
        self._correlation_id = b""
        self._frame = FetchFrame(context.version, context.client_id, body)
        self._answer = FetchAnswerFrame(context.version, session.session_id, named.topic, named.topic_id, named.part.partition)

    def is_like(self, request: Request) -> bool:
        return self._frame.read(request.frame) is not None

    def handle(self, request: Request) -> bool:
        """Whether the request was one of these, and is answered, or will be."""
        found = self._frame.read(request.frame)
        if found is None:
            return False
        epoch, offset = found
        broker, session, follower = self._broker, self._session, self._follower
        if (
            self._waiting is not None
            or epoch != session.epoch
            or broker.dispatcher.authorizer.generation != self._generation
            or session.revision != self._revision
            or follower.replica_id not in broker.cluster.brokers
            or not broker.fetch_sessions.use(session)
        ):
            return False
        request.meter = self._meter
        self._named.part.fetch_offset = offset
        self._waiting, self._correlation_id = request, bytes(request.frame[4:8])
        follower.is_new = True
        try:
            if not self._is_answered(may_wait=True):
                self._wait(request)
        except Exception:
            self._failed(request)
        return True

    # Answering.

    def _is_answered(self, *, may_wait: bool) -> bool:
        """Read, and answer unless there is nothing to say yet."""
        named, follower = self._named, self._follower
        if not all(map(self._is_caught_up, self._others)):
            return self._is_answered_plainly(may_wait=may_wait)
        if follower.is_new and self._others:
            self._record_others()
        result = follower.read(named, follower.max_bytes, True)
        if may_wait and not self._fetch.is_complete((result,)):
            return False
        if result is None or result.error_code or is_diverging(result) or not result.records:
            self._answer_plainly([result if each is named else None for each in self._in_order()])
            return True
        request, self._waiting = self._waiting, None
        assert request is not None
        at_once(follower.counting((named,), (result,)))
        at_once(follower.counting(self._others, self._nothing))
        self._session.sends(named, result)
        self._meter.successes += CODES
        numbers = result.high_watermark, result.last_stable_offset, result.log_start_offset
        request.send(self._answer.write(self._correlation_id, numbers, result.records))
        return True

    def _is_answered_plainly(self, *, may_wait: bool) -> bool:
        self._in_order()
        results = self._fetch.read()
        if may_wait and not self._fetch.is_complete(results):
            return False
        self._answer_plainly(results)
        return True

    def _in_order(self) -> list[FetchPartition]:
        """Partitions that were served stand at the end of their session."""
        self._fetch.partitions = partitions = self._session.partitions()
        return partitions

    def _answer_plainly(self, results: list[Result | None]) -> None:
        request, self._waiting = self._waiting, None
        assert request is not None
        self._context_of(request).answer(self._fetch.answer(results))

    def _context_of(self, request: Request) -> FetchContext:
        return self._context.of(request, int.from_bytes(self._correlation_id, "big"))

    def _is_caught_up(self, each: FetchPartition) -> bool:
        """Whether there is nothing to say about a partition."""
        return (
            each.partition is not None
            and not self._follower.is_due(each)
            and each.part.fetch_offset == each.partition.log.end_offset
            and offsets_of(each) == each.last_sent
        )

    def _record_others(self) -> None:
        """The follower has all of the other partitions too, and must not be taken for one that has stopped fetching them."""
        now_ms = self._broker.clock.now_ms()
        if now_ms - self._others_recorded_ms >= OTHERS_MS:
            self._others_recorded_ms = now_ms
            for each in self._others:
                assert each.partition is not None
                self._follower.record_fetch(each.partition, each.part)

    # Waiting: in the purgatory from one fetch to the next, with one timer for all of them.

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    def _wait(self, request: Request) -> None:
        self._follower.is_new = False
        request.handled_at = now = self._broker.loop.monotonic()
        self._deadline = now + self._fetch.seconds
        if self._timer is None:
            self._broker.replicas.purgatory.watch(self)
            self._timer = self._broker.loop.later(self._fetch.seconds, self._look_at_clock)

    def attempt(self, key: Hashable) -> bool:
        if self._waiting is not None and not self._is_due and self._follower.is_due(self._watched[key]):
            self._is_due = True
            # At the end of the loop's turn: everything that comes in it goes together.
            self._broker.loop.post(self._finish)
        return False

    def _look_at_clock(self) -> None:
        left = self._deadline - self._broker.loop.monotonic()
        if left > 0:
            self._timer = self._broker.loop.later(left, self._look_at_clock)
        else:
            self.leave()
            self._finish()

    def leave(self) -> None:
        """No fetch is waiting, and the next one may be long in coming."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._broker.replicas.purgatory.forget(self)

    def _finish(self) -> None:
        request = self._waiting
        self._is_due = False
        if request is None or not request.channel.is_open:
            self._waiting = None
            return
        try:
            self._is_answered(may_wait=False)
        except Exception:
            # Nobody above knows whose request this is: it has waited.
            self._failed(request)

    def _failed(self, request: Request) -> None:
        self._waiting = None
        self._context_of(request).failed()

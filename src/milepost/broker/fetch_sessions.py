"""Fetch sessions (KIP-227): a client that fetches the same partitions again and again names them once.

    session id, epoch   what the client wants
    0, -1               a full fetch and no session
    0, 0                a full fetch, and a session for the next ones
    id, n               what the session holds, with the changes in this request; n counts up, and wraps to 1
    id, -1              a full fetch, and the session closed

An incremental answer leaves out partitions that have nothing new: no records, no error, the same high watermark and
log start as in the last answer. The cache is bounded; the session unused longest makes room once it has been idle for
two minutes.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from milepost.broker.apis.fetch import Result, Wanted

Key = tuple[str, bytes, int]
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
EVICT_AFTER_MS = 120_000
MAX_EPOCH = 2**31 - 1


class Sessionless:
    """A full fetch: everything asked for is answered."""

    error_code: int = ErrorCode.NONE
    session_id = 0

    def __init__(self, topics: Sequence[FetchRequest.Topic]):
        self._topics = topics

    def topics(self) -> Sequence[FetchRequest.Topic]:
        return self._topics

    def answer(self, wanted: Sequence[Wanted], results: Sequence[Result]) -> FetchResponse:
        return FetchResponse(session_id=self.session_id, responses=grouped(wanted, results))


class Refused(Sessionless):
    def __init__(self, error_code: int):
        super().__init__(())
        self.error_code = error_code


class Session(Sessionless):
    """What a client fetches again and again, and what it was told last about each partition."""

    def __init__(self, session_id: int, now_ms: int):
        super().__init__(())
        self.session_id = session_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.is_full = True
        self._wanted: OrderedDict[Key, FetchRequest.Topic.Partition] = OrderedDict()
        self._told: dict[Key, tuple[int, int, int]] = {}

    def update(self, request: FetchRequest) -> None:
        for topic in request.topics:
            for part in topic.partitions:
                self._wanted[topic.topic, topic.topic_id, part.partition] = part
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                self._wanted.pop((forgotten.topic, forgotten.topic_id, number), None)
                self._told.pop((forgotten.topic, forgotten.topic_id, number), None)

    def topics(self) -> Sequence[FetchRequest.Topic]:
        return [
            FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=[part])
            for (topic, topic_id, _), part in self._wanted.items()
        ]

    def answer(self, wanted: Sequence[Wanted], results: Sequence[Result]) -> FetchResponse:
        kept_wanted, kept_results = [], []
        for want, result in zip(wanted, results, strict=True):
            asked_as = "" if want.topic_id != bytes(16) else want.topic
            key = (asked_as, want.topic_id, want.part.partition)
            now = (result.high_watermark, result.last_stable_offset, result.log_start_offset)
            changed = self._told.get(key) != now
            self._told[key] = now
            if result.records:
                # Served partitions go to the end, so that the others get their turn when the answer is full.
                self._wanted.move_to_end(key)
            if self.is_full or changed or result.error_code or result.records:
                kept_wanted.append(want)
                kept_results.append(result)
        self.is_full = False
        return FetchResponse(session_id=self.session_id, responses=grouped(kept_wanted, kept_results))


class FetchSessions:
    def __init__(self, slots: int, clock: Clock, rng: random.Random):
        self._slots = slots
        self._clock = clock
        self._rng = rng
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, version: int) -> Sessionless:
        """The session of a request, or a full fetch without one."""
        session_id, epoch = request.session_id, request.session_epoch
        if version < 7 or epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(session_id, None)
            if version < 7 or epoch == FINAL_EPOCH:
                return Sessionless(request.topics)
            return self._create(request) or Sessionless(request.topics)
        session = self._sessions.get(session_id)
        if session is None:
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            return Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.last_used_ms = self._clock.now_ms()
        self._sessions.move_to_end(session_id)
        session.update(request)
        return session

    def _create(self, request: FetchRequest) -> Session | None:
        if len(self._sessions) >= self._slots and not self._evict():
            return None
        session_id = self._rng.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        session = self._sessions[session_id] = Session(session_id, self._clock.now_ms())
        session.update(request)
        return session

    def _evict(self) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or self._clock.now_ms() - oldest.last_used_ms < EVICT_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        return True


def grouped(wanted: Sequence[Wanted], results: Sequence[Result]) -> list[FetchResponse.Response]:
    """Partitions of one topic that stand together become one topic of the answer."""
    responses: list[FetchResponse.Response] = []
    for want, result in zip(wanted, results, strict=True):
        last = responses[-1] if responses else None
        if last is None or (last.topic, last.topic_id) != (want.topic, want.topic_id):
            last = FetchResponse.Response(topic=want.topic, topic_id=want.topic_id, partitions=[])
            responses.append(last)
        last.partitions.append(result)
    return responses

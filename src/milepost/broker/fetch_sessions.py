"""Fetch sessions (KIP-227): a client that fetches the same partitions again and again names them once.

    session id, epoch   what the client wants
    0, -1               a full fetch and no session
    0, 0                a full fetch, and a session for the next ones
    id, n               what the session holds, with the changes in this request; n counts up, and wraps to 1
    id, -1              a full fetch, and the session closed

An incremental answer leaves out partitions that have nothing new: no records, no error, no epoch from which the logs differ, the same high
watermark and log start as in the last answer. The cache is bounded; the session unused longest makes room once it has been idle for
two minutes.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from milepost.clock import Clock
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from milepost.broker.apis.fetch import Result, Wanted

    Want: TypeAlias = Callable[[FetchRequest.Topic, FetchRequest.Topic.Partition, int], Wanted]

Key = tuple[str, bytes, int]
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
EVICT_AFTER_MS = 120_000
MAX_EPOCH = 2**31 - 1


class Sessionless:
    """A full fetch: everything asked for is answered. A partition that is named again counts once, as it was named last."""

    error_code: int = ErrorCode.NONE
    session_id = 0

    def __init__(self) -> None:
        self._wanted: OrderedDict[Key, Wanted] = OrderedDict()

    @property
    def partition_count(self) -> int:
        return len(self._wanted)

    def update(self, request: FetchRequest, version: int, want: Want) -> None:
        for topic in request.topics:
            for part in topic.partitions:
                key = (topic.topic, topic.topic_id, part.partition)
                known = self._wanted.get(key)
                if known is None:
                    self._wanted[key] = want(topic, part, version)
                else:
                    known.part = part

    def wanted(self) -> list[Wanted]:
        return list(self._wanted.values())

    def answer(self, wanted: Sequence[Wanted], results: Sequence[Result | None], isolation: Isolation) -> FetchResponse:
        full = [empty(want, isolation) if result is None else result for want, result in zip(wanted, results, strict=True)]
        return FetchResponse(session_id=self.session_id, responses=grouped(wanted, full))


class Refused(Sessionless):
    def __init__(self, error_code: int):
        super().__init__()
        self.error_code = error_code


class Session(Sessionless):
    """What a client fetches again and again, and what it was told last about each partition."""

    def __init__(self, session_id: int, now_ms: int):
        super().__init__()
        self.session_id = session_id
        self.epoch = 1
        self.last_used_ms = now_ms
        self.is_full = True

    def update(self, request: FetchRequest, version: int, want: Want) -> None:
        super().update(request, version, want)
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                self._wanted.pop((forgotten.topic, forgotten.topic_id, number), None)

    def only_one_of(self, request: FetchRequest) -> Wanted | None:
        """The partition that a request named, if it was one alone and none was forgotten."""
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1 or request.forgotten_topics_data:
            return None
        topic = request.topics[0]
        part = topic.partitions[0]
        want = self._wanted.get((topic.topic, topic.topic_id, part.partition))
        return want if want is not None and want.part is part else None

    def answer(self, wanted: Sequence[Wanted], results: Sequence[Result | None], isolation: Isolation) -> FetchResponse:
        kept_wanted: list[Wanted] = []
        kept_results: list[Result] = []
        for want, result in zip(wanted, results, strict=True):
            now = facts(want) if result is None else (result.high_watermark, result.last_stable_offset, result.log_start_offset)
            if now == want.told and not self.is_full and not has_news(result):
                continue
            # A follower that has to cut its log hears of nothing else.
            want.told = None if is_parting(result) else now
            if result is not None and result.records:
                # Served partitions go to the end, so that the others get their turn when the answer is full.
                asked_as = "" if want.is_by_id else want.topic
                self._wanted.move_to_end((asked_as, want.topic_id, want.part.partition))
            kept_wanted.append(want)
            kept_results.append(empty(want, isolation) if result is None else result)
        self.is_full = False
        return FetchResponse(session_id=self.session_id, responses=grouped(kept_wanted, kept_results))


def has_news(result: Result | None) -> bool:
    """Whether there is something in it besides facts: a follower whose log went another way must hear of it, however often it asks."""
    return result is not None and bool(result.records or result.error_code or is_parting(result))


def is_parting(result: Result | None) -> bool:
    return result is not None and result.diverging_epoch is not None and result.diverging_epoch.end_offset >= 0


def facts(want: Wanted) -> tuple[int, int, int]:
    """What the client is to know of a partition besides its records."""
    assert want.partition is not None, "a partition that has nothing to read is there"
    log = want.partition.log
    return log.high_watermark, log.last_stable_offset, log.start_offset


def empty(want: Wanted, isolation: Isolation) -> Result:
    """The result of a partition that has nothing to read."""
    high_watermark, last_stable_offset, start_offset = facts(want)
    return FetchResponse.Response.Partition(
        partition_index=want.part.partition,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=start_offset,
        aborted_transactions=[] if isolation is Isolation.COMMITTED else None,
        records=b"",
    )


class FetchSessions:
    def __init__(self, slots: int, clock: Clock, rng: random.Random):
        self._slots = slots
        self._clock = clock
        self._rng = rng
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions in all sessions."""
        return sum(session.partition_count for session in list(self._sessions.values()))

    def open(self, request: FetchRequest, version: int, want: Want) -> Sessionless:
        """The session of a request, or a full fetch without one. `want` makes what is wanted out of a part of the request."""
        session_id, epoch = request.session_id, request.session_epoch
        if version < 7 or epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(session_id, None)
            created = None if version < 7 or epoch == FINAL_EPOCH else self._create()
            fetch = created or Sessionless()
            fetch.update(request, version, want)
            return fetch
        session = self._sessions.get(session_id)
        if session is None:
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            return Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.use(session)
        session.update(request, version, want)
        return session

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def use(self, session: Session) -> bool:
        """The session's next request is there; whether the session still is."""
        if self._sessions.get(session.session_id) is not session:
            return False
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = self._clock.now_ms()
        self._sessions.move_to_end(session.session_id)
        return True

    def _create(self) -> Session | None:
        if len(self._sessions) >= self._slots and not self._evict():
            return None
        session_id = self._rng.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        session = self._sessions[session_id] = Session(session_id, self._clock.now_ms())
        return session

    def _evict(self) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or self._clock.now_ms() - oldest.last_used_ms < EVICT_AFTER_MS:
            return False
        del self._sessions[oldest.session_id]
        self.evictions += 1
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

"""Fetch sessions (KIP-227): a client that fetches the same partitions again and again names them once.

    session id, epoch   what the client wants
    0, -1               a full fetch and no session
    0, 0                a full fetch, and a session for the next ones
    id, n               what the session holds, with the changes in this request; n counts up, and wraps to 1
    id, -1              a full fetch, and the session closed

An incremental answer leaves out partitions that have nothing new: no records, no error, no epoch from which the logs differ, the same high
watermark and log start as in the last answer.

The cache is bounded, in sessions and in partitions of all sessions together. As in Kafka a new session takes the place of one that has
been idle for two minutes, or of a smaller one that is two minutes old; a follower's that of a consumer's. A session without a place is
none: its answer says 0, and the client goes on with full fetches. So does one that names a partition which never was here: that is
not kept, and the client names it again, for it may come. A session belongs to no connection.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from milepost.broker.slices import Work, at_once
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

    def updating(self, request: FetchRequest, version: int, want: Want) -> Work[None]:
        for topic in request.topics:
            for part in topic.partitions:
                yield None
                key = (topic.topic, topic.topic_id, part.partition)
                known = self._wanted.get(key)
                if known is None:
                    self._wanted[key] = want(topic, part, version)
                else:
                    known.part = part

    def wanted(self) -> list[Wanted]:
        return list(self._wanted.values())

    def answer(self, wanted: Sequence[Wanted], results: Sequence[Result | None], isolation: Isolation) -> FetchResponse:
        return at_once(self.answering(wanted, results, isolation))

    def answering(self, wanted: Sequence[Wanted], results: Sequence[Result | None], isolation: Isolation) -> Work[FetchResponse]:
        answer = Answer()
        for want, result in zip(wanted, results, strict=True):
            answer.add(want, empty(want, isolation) if result is None else result)
            yield None
        return FetchResponse(session_id=self.session_id, responses=answer.responses)


class Refused(Sessionless):
    def __init__(self, error_code: int):
        super().__init__()
        self.error_code = error_code


class Session(Sessionless):
    """What a client fetches again and again, and what it was told last about each partition."""

    def __init__(self, cache: FetchSessions, is_followers: bool):
        super().__init__()
        self._cache = cache
        self.is_followers = is_followers
        self.epoch = 1
        self.created_ms = self.last_used_ms = cache.clock.now_ms()
        self.is_full = True
        self.has_grown = True
        """Whether it has to be asked again if there is room for its partitions."""

    @property
    def value(self) -> tuple[bool, int, int]:
        """Which of two sessions is kept: the greater one."""
        return self.is_followers, len(self._wanted), self.session_id

    def updating(self, request: FetchRequest, version: int, want: Want) -> Work[None]:
        before = len(self._wanted)
        yield from super().updating(request, version, want)
        self.has_grown = self.has_grown or len(self._wanted) > before
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                yield None
                self._wanted.pop((forgotten.topic, forgotten.topic_id, number), None)

    def only_one_of(self, request: FetchRequest) -> Wanted | None:
        """The partition that a request named, if it was one alone and none was forgotten."""
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1 or request.forgotten_topics_data:
            return None
        topic = request.topics[0]
        part = topic.partitions[0]
        want = self._wanted.get((topic.topic, topic.topic_id, part.partition))
        return want if want is not None and want.part is part else None

    def answering(self, wanted: Sequence[Wanted], results: Sequence[Result | None], isolation: Isolation) -> Work[FetchResponse]:
        answer = Answer()
        is_known = True
        for want, result in zip(wanted, results, strict=True):
            yield None
            is_known = is_known and (want.partition is not None or want.was_here)
            if result is None and want.partition is None:
                continue  # it was quiet, and is gone: the next fetch says so
            now = facts(want) if result is None else (result.high_watermark, result.last_stable_offset, result.log_start_offset)
            if now == want.told and not self.is_full and not has_news(result):
                continue
            # A follower that has to cut its log hears of nothing else.
            want.told = None if is_parting(result) else now
            if result is not None and result.records:
                # Served partitions go to the end, so that the others get their turn when the answer is full.
                asked_as = "" if want.is_by_id else want.topic
                key = asked_as, want.topic_id, want.part.partition
                if key in self._wanted:
                    self._wanted.move_to_end(key)
            answer.add(want, empty(want, isolation) if result is None else result)
        self.is_full = False
        session_id = self._cache.keep(self) if is_known or self.is_followers else self._cache.close(self)
        return FetchResponse(session_id=session_id, responses=answer.responses)


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
    def __init__(self, slots: int, clock: Clock, rng: random.Random, partitions: int = 100_000):
        self._slots = slots
        self._partitions = partitions
        self.clock = clock
        self._rng = rng
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self.evictions = 0
        self.refusals = 0
        """Sessions that were not made, or were closed, for want of room."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions in all sessions."""
        return sum(session.partition_count for session in list(self._sessions.values()))

    def open(self, request: FetchRequest, version: int, want: Want, *, is_followers: bool = False) -> Sessionless:
        return at_once(self.opening(request, version, want, is_followers=is_followers))

    def opening(self, request: FetchRequest, version: int, want: Want, *, is_followers: bool = False) -> Work[Sessionless]:
        """The session of a request, or a full fetch without one. `want` makes what is wanted out of a part of the request.

        A new session has its place in the cache, and its id, from its first answer on (`keep`).
        """
        session_id, epoch = request.session_id, request.session_epoch
        if version < 7 or epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(session_id, None)
            fetch = Sessionless() if version < 7 or epoch == FINAL_EPOCH else Session(self, is_followers)
            yield from fetch.updating(request, version, want)
            return fetch
        session = self._sessions.get(session_id)
        if session is None:
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            return Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.use(session)
        yield from session.updating(request, version, want)
        return session

    def get(self, session_id: int) -> Session | None:
        return self._sessions.get(session_id)

    def use(self, session: Session) -> bool:
        """The session's next request is there; whether the session still is."""
        if self._sessions.get(session.session_id) is not session:
            return False
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = self.clock.now_ms()
        self._sessions.move_to_end(session.session_id)
        return True

    def keep(self, session: Session) -> int:
        """Have a place for a session that was answered, new or grown; its id, 0 when there is no place for it."""
        if session.session_id and self._sessions.get(session.session_id) is not session:
            return session.session_id  # closed meanwhile, and the next request is told
        while not self._has_room_for(session):
            if not self._evict_for(session):
                self.refusals += 1
                return self.close(session)
        if not session.session_id:
            session_id = self._rng.randrange(1, 2**31)
            while session_id in self._sessions:
                session_id = self._rng.randrange(1, 2**31)
            session.session_id = session_id
            self._sessions[session_id] = session
        return session.session_id

    def close(self, session: Session) -> int:
        """0, by which a client learns that it has no session any more."""
        if self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]
        return 0

    def _has_room_for(self, session: Session) -> bool:
        is_new = session.session_id == 0
        if is_new and len(self._sessions) >= self._slots:
            return False
        if not session.has_grown:
            return True
        session.has_grown = False
        is_small_enough = self.partition_count + is_new * session.partition_count <= self._partitions
        session.has_grown = not is_small_enough
        return is_small_enough

    def _evict_for(self, session: Session) -> bool:
        now = self.clock.now_ms()
        others = [other for other in self._sessions.values() if other is not session]
        if not others:
            return False
        evicted = others[0]
        if now - evicted.last_used_ms <= EVICT_AFTER_MS:
            old = [
                other
                for other in others
                if now - other.created_ms > EVICT_AFTER_MS or (session.is_followers and not other.is_followers)
            ]
            if not old:
                return False
            evicted = min(old, key=lambda other: other.value)
            if session.value < evicted.value:
                return False
        del self._sessions[evicted.session_id]
        self.evictions += 1
        return True


class Answer:
    """What is said of each partition; those of one topic that stand together become one topic of the answer."""

    def __init__(self) -> None:
        self.responses: list[FetchResponse.Response] = []

    def add(self, want: Wanted, result: Result) -> None:
        last = self.responses[-1] if self.responses else None
        if last is None or (last.topic, last.topic_id) != (want.topic, want.topic_id):
            last = FetchResponse.Response(topic=want.topic, topic_id=want.topic_id, partitions=[])
            self.responses.append(last)
        last.partitions.append(result)


def grouped(wanted: Sequence[Wanted], results: Sequence[Result]) -> list[FetchResponse.Response]:
    answer = Answer()
    for want, result in zip(wanted, results, strict=True):
        answer.add(want, result)
    return answer.responses

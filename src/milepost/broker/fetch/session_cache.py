"""Fetch sessions (KIP-227): a client that fetches the same partitions again and again names them once.

    session id, epoch   what the client wants
    0, -1               a full fetch and no session
    0, 0                a full fetch, and a session for the next ones
    id, n               what the session holds, with the changes in this request; n counts up, and wraps to 1
    id, -1              a full fetch, and the session closed

An incremental answer leaves out partitions that have nothing new: no records, no error, no epoch from which the logs differ, the same high
watermark and log start as in the last answer.

All requests of a session name topics by id, or all by name: a client that learns the id of a topic late opens a new one.

The cache is bounded, in sessions and in partitions of all sessions together. As in Kafka a new session takes the place of one that has
been idle for two minutes, or of a smaller one that is two minutes old; a follower's that of a consumer's. A session without a place is
none: its answer says 0, and the client goes on with full fetches. So does one that names a partition which never was here: that is
not kept, and the client names it again, for it may come. A session belongs to no connection, but to who opened it: to anybody
else there is no such session.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from milepost.broker.fetch.partition_read import BY_ID_SINCE, FetchPartition, Result, empty, is_diverging, offsets_of
from milepost.broker.slices import Work
from milepost.clock import Clock
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.security.principal import ANONYMOUS, KafkaPrincipal
from milepost.work import at_once

Make: TypeAlias = Callable[[FetchRequest.Topic, FetchRequest.Topic.Partition, int], FetchPartition]
Key = tuple[str, bytes, int]
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
EVICT_AFTER_MS = 120_000
MAX_EPOCH = 2**31 - 1


class Answer(NamedTuple):
    """What an answer says: its session, and the partitions that it names; one without a result has nothing to read."""

    session_id: int
    named: list[tuple[FetchPartition, Result | None]]


class Sessionless:
    """A full fetch: everything asked for is answered. A partition that is named again counts once, as it was named last."""

    error_code: int = ErrorCode.NONE
    session_id = 0
    revision = 0
    """Counts the requests that were taken apart for it, each of which may have changed what it holds."""

    def __init__(self) -> None:
        self._asked: OrderedDict[Key, FetchPartition] = OrderedDict()

    @property
    def partition_count(self) -> int:
        return len(self._asked)

    def updating(self, request: FetchRequest, version: int, make: Make) -> Work[None]:
        for topic in request.topics:
            for part in topic.partitions:
                yield None
                key = (topic.topic, topic.topic_id, part.partition)
                known = self._asked.get(key)
                if known is None:
                    self._asked[key] = make(topic, part, version)
                else:
                    known.part = part

    def partitions(self) -> list[FetchPartition]:
        return list(self._asked.values())

    def answer(
        self, partitions: Sequence[FetchPartition], results: Sequence[Result | None], isolation: Isolation
    ) -> FetchResponse:
        return at_once(self.answering(partitions, results, isolation))

    def answering(
        self, partitions: Sequence[FetchPartition], results: Sequence[Result | None], isolation: Isolation
    ) -> Work[FetchResponse]:
        return (yield from responding((yield from self.naming(partitions, results)), isolation))

    def naming(self, partitions: Sequence[FetchPartition], results: Sequence[Result | None]) -> Work[Answer]:
        """Which partitions the answer names."""
        yield None
        return Answer(self.session_id, list(zip(partitions, results, strict=True)))


class Refused(Sessionless):
    def __init__(self, error_code: int):
        super().__init__()
        self.error_code = error_code


class Session(Sessionless):
    """What a client fetches again and again, and what it was sent last about each partition."""

    def __init__(self, cache: FetchSessions, owner: KafkaPrincipal, *, is_followers: bool, is_by_id: bool):
        super().__init__()
        self._cache = cache
        self.owner = owner
        self.is_followers = is_followers
        self.is_by_id = is_by_id
        self.epoch = 1
        self.created_ms = self.last_used_ms = cache.clock.now_ms()
        self.is_full = True
        self.has_grown = True
        """Whether it has to be asked again if there is room for its partitions."""

    @property
    def value(self) -> tuple[bool, int, int]:
        """Which of two sessions is kept: the greater one."""
        return self.is_followers, len(self._asked), self.session_id

    def updating(self, request: FetchRequest, version: int, make: Make) -> Work[None]:
        before = len(self._asked)
        self.revision += 1
        yield from super().updating(request, version, make)
        self.has_grown = self.has_grown or len(self._asked) > before
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                yield None
                self._asked.pop((forgotten.topic, forgotten.topic_id, number), None)

    def only_one_of(self, request: FetchRequest) -> FetchPartition | None:
        """The partition that a request named, if it was one alone and none was forgotten."""
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1 or request.forgotten_topics_data:
            return None
        topic = request.topics[0]
        part = topic.partitions[0]
        each = self._asked.get((topic.topic, topic.topic_id, part.partition))
        return each if each is not None and each.part is part else None

    def naming(self, partitions: Sequence[FetchPartition], results: Sequence[Result | None]) -> Work[Answer]:
        named = []
        is_known = True
        for each, result in zip(partitions, results, strict=True):
            yield None
            is_known = is_known and (each.partition is not None or each.was_here or each.is_denied)
            if result is None and each.partition is None:
                continue  # it was quiet, and is gone: the next fetch says so
            if self.sends(each, result):
                named.append((each, result))
        self.is_full = False
        return Answer(self._cache.keep(self) if is_known or self.is_followers else self._cache.close(self), named)

    def sends(self, each: FetchPartition, result: Result | None) -> bool:
        """Whether the answer names a partition. If so, that is noted."""
        now = offsets_of(each) if result is None else (result.high_watermark, result.last_stable_offset, result.log_start_offset)
        if now == each.last_sent and not self.is_full and (result is None or not has_changes(result)):
            return False
        # A follower that has to cut its log hears of nothing else.
        each.last_sent = None if is_diverging(result) else now
        if result is not None and result.records:
            # Served partitions go to the end, so that the others get their turn when the answer is full.
            asked_as = "" if each.is_by_id else each.topic
            key = asked_as, each.topic_id, each.part.partition
            if key in self._asked:
                self._asked.move_to_end(key)
        return True


def has_changes(result: Result) -> bool:
    """Whether there is something in it besides offsets: a diverged follower must hear of it, however often it asks."""
    return bool(result.records or result.error_code or is_diverging(result) or result.preferred_read_replica >= 0)


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

    def open(
        self,
        request: FetchRequest,
        version: int,
        make: Make,
        *,
        is_followers: bool = False,
        owner: KafkaPrincipal = ANONYMOUS,
    ) -> Sessionless:
        return at_once(self.opening(request, version, make, is_followers=is_followers, owner=owner))

    def opening(
        self,
        request: FetchRequest,
        version: int,
        make: Make,
        *,
        is_followers: bool = False,
        owner: KafkaPrincipal = ANONYMOUS,
    ) -> Work[Sessionless]:
        """The session of a request, or a full fetch without one. `make` makes a `FetchPartition` out of a part of the request.

        A new session has its place in the cache, and its id, from its first answer on (`keep`).
        """
        session_id, epoch = request.session_id, request.session_epoch
        is_by_id = version >= BY_ID_SINCE
        session = self._sessions.get(session_id)
        if session is not None and session.owner != owner:
            session = None
        if version < 7 or epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session is not None:
                self.close(session)
            is_opened = version >= 7 and epoch == INITIAL_EPOCH
            fetch = Session(self, owner, is_followers=is_followers, is_by_id=is_by_id) if is_opened else Sessionless()
            yield from fetch.updating(request, version, make)
            return fetch
        if session is None:
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            return Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.is_by_id != is_by_id:
            return Refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self.use(session)
        yield from session.updating(request, version, make)
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
            return session.session_id  # closed meanwhile; the next request gets the error
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


def responding(answer: Answer, isolation: Isolation) -> Work[FetchResponse]:
    """The message that says this."""
    groups = TopicGroups()
    for each, result in answer.named:
        yield None
        if result is None and each.partition is None:
            continue  # looked up again for another connection of the session, and gone
        groups.add(each, empty(each, isolation) if result is None else result)
    return FetchResponse(session_id=answer.session_id, responses=groups.responses)


class TopicGroups:
    """What is said of each partition; those of one topic that stand together become one topic of the answer."""

    def __init__(self) -> None:
        self.responses: list[FetchResponse.Response] = []

    def add(self, each: FetchPartition, result: Result) -> None:
        last = self.responses[-1] if self.responses else None
        if last is None or (last.topic, last.topic_id) != (each.topic, each.topic_id):
            last = FetchResponse.Response(topic=each.topic, topic_id=each.topic_id, partitions=[])
            self.responses.append(last)
        last.partitions.append(result)


def grouped(partitions: Sequence[FetchPartition], results: Sequence[Result]) -> list[FetchResponse.Response]:
    groups = TopicGroups()
    for each, result in zip(partitions, results, strict=True):
        groups.add(each, result)
    return groups.responses

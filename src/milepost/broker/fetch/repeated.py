"""The short way for a follower's fetch that looks like its last one (`protocol/fetch_frames`).

Taken apart the plain way (`fetch/follower`, its twin) are the first ones for a partition, and all that are anything but ordinary: other
partitions of the session have news too, the follower is not in sync, has another epoch, or asks for what is not there.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.broker.fetch.follower import Follower, LeaderBroker
from milepost.broker.fetch.interfaces import FetchContext
from milepost.broker.fetch.partition_read import FetchPartition, offsets_of
from milepost.broker.fetch.replica_id import broker_epoch_of, replica_id_of
from milepost.broker.fetch.session_cache import Session
from milepost.errors import MilepostError
from milepost.log.reading import Isolation
from milepost.loop import Timer
from milepost.protocol.fetch_frames import SINCE, FetchAnswerFrame, FetchFrame
from milepost.protocol.messages import FetchRequest
from milepost.replica.replicated import ReplicatedPartition

if TYPE_CHECKING:
    from milepost.net.request import Request
    from milepost.segment.file_records import FileSlice

OTHERS_MS = 100


def remember(body: FetchRequest, context: FetchContext, broker: LeaderBroker) -> None:
    """After a fetch that was handled the plain way: expect more of its kind, if it named the same partition as the one before."""
    connection = context.connection
    session = broker.fetch_sessions.get(body.session_id)
    named = session.only_one_of(body) if session is not None and context.version >= SINCE else None
    last, before = connection.get("fetched"), connection.get("fetch")
    connection["fetched"], connection["fetch"] = named, None
    if isinstance(before, RepeatedFollowerFetch) and not before.is_waiting:
        before.leave()
    if session is None or named is None or named is not last:
        return
    if isinstance(named.partition, ReplicatedPartition) and named.partition.leadership is not None:
        remembered = RepeatedFollowerFetch(body, context, broker, session, named)
        if remembered.is_like(context.request):
            connection["fetch"] = remembered


class RepeatedFollowerFetch:
    """Fetches of one connection, in one session, that name one partition."""

    def __init__(self, body: FetchRequest, context: FetchContext, broker: LeaderBroker, session: Session, named: FetchPartition):
        self._broker = broker
        self._context = context
        self._session = session
        self._named = named
        self._partitions = session.partitions()
        self._watched: dict[Hashable, FetchPartition] = {
            each.partition.name: each for each in self._partitions if each.partition is not None
        }
        self.keys = tuple(self._watched)
        self._others = [each for each in self._partitions if each is not named]
        self._seconds = body.max_wait_ms / 1000
        self._meter = context.request.meter
        self._others_counted_ms = broker.clock.now_ms()
        self._waiting: Request | None = None
        self._is_due = False
        self._deadline = 0.0
        self._timer: Timer | None = None
        self._correlation_id = b""
        self._replica_id = replica_id_of(body)
        self._follower = Follower(broker, self._replica_id, broker_epoch_of(body), body.max_bytes)
        self._follower.is_new = False
        partition = named.partition
        assert isinstance(partition, ReplicatedPartition) and partition.leadership is not None, "it was just read from"
        self._partition, self._leadership = partition, partition.leadership
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
        broker, session, log = self._broker, self._session, self._partition.log
        if (
            self._waiting is not None
            or epoch != session.epoch
            or not self._is_ordinary()
            or not log.start_offset <= offset <= log.end_offset
            or not broker.fetch_sessions.use(session)
        ):
            return False
        now = broker.clock.now_ms()
        if now - self._others_counted_ms >= OTHERS_MS:
            self._count_others(now)
        part = self._named.part
        part.fetch_offset = offset
        request.meter = self._meter
        self._waiting, self._correlation_id = request, bytes(request.frame[4:8])
        if self._leadership.fetched(self._replica_id, offset, part.log_start_offset, now, self._follower.broker_epoch):
            broker.replicas.purgatory.check(self._partition.committed_key)
        if offset < log.end_offset:
            self._send()
        else:
            request.handled_at = now_s = broker.loop.monotonic()
            self._deadline = now_s + self._seconds
            if self._timer is None:
                broker.replicas.purgatory.watch(self)
                self._timer = broker.loop.later(self._seconds, self._look_at_clock)
        return True

    def _count_others(self, now_ms: int) -> None:
        """The follower has all of the quiet partitions too, and is not to be taken for one that has stopped fetching them."""
        self._others_counted_ms = now_ms
        for each in self._others:
            assert isinstance(each.partition, ReplicatedPartition)
            self._follower.record_fetch(each.partition, each.part)

    def _is_ordinary(self) -> bool:
        """Whether the follower follows this leader, in this epoch, is in sync, and nothing but the one partition has changed."""
        partition, part, leadership, replica_id = self._partition, self._named.part, self._leadership, self._replica_id
        return (
            partition.is_hosted
            and partition.leadership is leadership
            and partition.leader_epoch == part.current_leader_epoch
            and partition.log.epochs.latest_epoch == part.last_fetched_epoch
            and replica_id in leadership.state.isr
            and replica_id in self._broker.cluster.brokers
            and not leadership.remote[replica_id].has_stale_broker_epoch(self._follower.broker_epoch)
            and not self._follower.quota.is_in_use
            and not partition.fault()
            and not partition.log.is_failed
            and (not self._others or all(map(self._is_caught_up, self._others)))
        )

    def _is_caught_up(self, each: FetchPartition) -> bool:
        """Whether there is nothing to say about a partition."""
        return (
            each.partition is not None
            and not self._follower.is_due(each)
            and each.part.fetch_offset == each.partition.log.end_offset
            and offsets_of(each) == each.last_sent
        )

    # Waiting: in the purgatory from one fetch to the next, with one timer for all of them.

    @property
    def is_waiting(self) -> bool:
        return self._waiting is not None

    def attempt(self, key: Hashable) -> bool:
        if self._waiting is not None and not self._is_due and self._follower.is_due(self._watched[key]):
            self._is_due = True
            # At the end of the loop's turn: everything that comes in it goes together.
            self._broker.loop.post(self._send)
        return False

    def _look_at_clock(self) -> None:
        left = self._deadline - self._broker.loop.monotonic()
        if left > 0:
            self._timer = self._broker.loop.later(left, self._look_at_clock)
        else:
            self.leave()
            self._send()

    def leave(self) -> None:
        """No fetch is waiting, and the next one may be long in coming."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._broker.replicas.purgatory.forget(self)

    def _send(self) -> None:
        request, self._waiting = self._waiting, None
        self._is_due = False
        if request is None or not request.channel.is_open:
            return
        try:
            records = self._records()
            if records is None or not len(records):
                self._send_plainly(self._context_of(request))
                return
            self._follower.counts(len(records))
            self._named.last_sent = told = offsets_of(self._named)
            self._meter.successes += 1
            request.send(self._answer.write(self._correlation_id, told, records))
        except Exception:
            # Nobody above knows whose request this is: it may have waited.
            self._context_of(request).failed()

    def _records(self) -> FileSlice | bytes | None:
        """None when there are none, or the plain way has to say why not."""
        log, part, follower = self._partition.log, self._named.part, self._follower
        if not self._is_ordinary() or log.end_offset == part.fetch_offset:
            return None
        limit = min(part.partition_max_bytes, follower.max_bytes)
        try:
            return follower.records(log, self._leadership.remote[self._replica_id], part.fetch_offset, limit, True)
        except (MilepostError, OSError):
            return None

    def _context_of(self, request: Request) -> FetchContext:
        return self._context.of(request, int.from_bytes(self._correlation_id, "big"))

    def _send_plainly(self, context: FetchContext) -> None:
        results = self._follower.read_all(self._partitions)
        self._follower.count_sent(self._partitions, results)
        context.answer(self._session.answer(self._partitions, results, Isolation.UNCOMMITTED))

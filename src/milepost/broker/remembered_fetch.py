"""The short way for a follower's fetch that looks like its last one.

A follower that keeps up asks again and again for the same partition of its session, a few records further each time. Such a request,
and the answer to it, differ from those before only in these places; so they are compared and put together without being taken apart:

    request   correlation id · … · session epoch (4) · … · fetch offset (8) · …
    answer    size (4) · correlation id (4) · … · high watermark, last stable offset, log start (8 each) · … · records · …

Taken apart the plain way (`follower_fetches`, its twin) are the first ones for a partition, and all that are anything but ordinary: other
partitions of the session have news too, the follower is not in sync, has another epoch, or asks for what is not there.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.broker.apis.fetch import KEY, Result, Wanted
from milepost.broker.context import Context
from milepost.broker.fetch_sessions import Session, facts
from milepost.broker.follower_fetches import Follower, is_due, replica_id_of
from milepost.log.reading import Isolation
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.protocol.writing import unsigned_varint
from milepost.replica.replicated import ReplicatedPartition

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.net.request import Request

SINCE = 12
"""The first version in which a follower tells the epoch of its last record."""
# Unlikely numbers that are looked for in what is encoded, to learn where such numbers stand.
EPOCH_SIGN = 0x01234567
OFFSET_SIGN = 0x0123456789ABCDEF
NUMBER_SIGNS = (0x1133557799BBDDFF, 0x2244668800AACCEE, 0x3355779911BBDDFF)
RECORDS_SIGN = b"\x5amilepost"

_int32 = struct.Struct(">i")
_int64 = struct.Struct(">q")
_numbers = struct.Struct(">qqq")


def remember(body: FetchRequest, context: Context, broker: ClusteredBroker) -> None:
    """After a fetch that was handled the plain way: expect more of its kind, if it named the same partition as the one before."""
    connection = context.connection
    session = broker.fetch_sessions.get(body.session_id)
    want = session.only_one_of(body) if session is not None and context.version >= SINCE else None
    last = connection.get("fetched")
    connection["fetched"], connection["fetch"] = want, None
    if session is None or want is None or want is not last:
        return
    if isinstance(want.partition, ReplicatedPartition) and want.partition.leadership is not None:
        remembered = RememberedFetch(body, context, broker, session, want)
        if remembered.is_like(context.request.frame):
            connection["fetch"] = remembered


class RememberedFetch:
    """Fetches of one connection, in one session, that name one partition."""

    def __init__(self, body: FetchRequest, context: Context, broker: ClusteredBroker, session: Session, want: Wanted):
        self._broker = broker
        self._context = context
        self._session = session
        self._want = want
        self._wanted = session.wanted()
        self._watched: dict[Hashable, Wanted] = {each.partition.name: each for each in self._wanted if each.partition is not None}
        self._keys = tuple(self._watched)
        self._seconds = body.max_wait_ms / 1000
        self._meter = context.request.meter
        self._waiting: Request | None = None
        self._correlation_id = b""
        self._replica_id = replica_id_of(body)
        self._follower = Follower(broker, self._replica_id, body.max_bytes)
        self._follower.is_new = False
        partition = want.partition
        assert isinstance(partition, ReplicatedPartition) and partition.leadership is not None, "it was just read from"
        self._partition, self._leadership = partition, partition.leadership
        self._learn_request(body)
        self._learn_answer()

    def _learn_request(self, body: FetchRequest) -> None:
        part, context = self._want.part, self._context
        offset, epoch = part.fetch_offset, body.session_epoch
        part.fetch_offset, body.session_epoch = OFFSET_SIGN, EPOCH_SIGN
        encoded = frames.encode_request(KEY, context.version, 0, context.client_id, body)[4:]
        part.fetch_offset, body.session_epoch = offset, epoch
        self._epoch_at = encoded.index(_int32.pack(EPOCH_SIGN))
        self._offset_at = encoded.index(_int64.pack(OFFSET_SIGN))
        self._version, self._head = encoded[:4], encoded[8 : self._epoch_at]
        self._middle, self._tail = encoded[self._epoch_at + 4 : self._offset_at], encoded[self._offset_at + 8 :]

    def _learn_answer(self) -> None:
        want = self._want
        result = Result(partition_index=want.part.partition, aborted_transactions=None, records=RECORDS_SIGN)
        result.high_watermark, result.last_stable_offset, result.log_start_offset = NUMBER_SIGNS
        response = FetchResponse(
            session_id=self._session.session_id,
            responses=[FetchResponse.Response(topic=want.topic, topic_id=want.topic_id, partitions=[result])],
        )
        encoded = frames.encode_response(KEY, self._context.version, 0, response)
        numbers_at, records_at = encoded.index(_numbers.pack(*NUMBER_SIGNS)), encoded.index(RECORDS_SIGN)
        self._before = encoded[8:numbers_at]
        self._between = encoded[numbers_at + 24 : records_at - 1]
        self._after = encoded[records_at + len(RECORDS_SIGN) :]
        self._fixed_size = 4 + len(self._before) + 24 + len(self._between) + len(self._after)

    def is_like(self, frame: memoryview) -> bool:
        epoch_at, offset_at = self._epoch_at, self._offset_at
        return (
            frame[:4] == self._version
            and frame[8:epoch_at] == self._head
            and frame[epoch_at + 4 : offset_at] == self._middle
            and frame[offset_at + 8 :] == self._tail
        )

    def handle(self, request: Request) -> bool:
        """Whether the request was one of these, and is answered, or will be."""
        frame = request.frame
        if not self.is_like(frame):
            return False
        (epoch,), (offset,) = _int32.unpack_from(frame, self._epoch_at), _int64.unpack_from(frame, self._offset_at)
        broker, session, log = self._broker, self._session, self._partition.log
        if (
            self._waiting is not None
            or epoch != session.epoch
            or not self._is_ordinary()
            or not log.start_offset <= offset <= log.end_offset
            or not broker.fetch_sessions.use(session)
        ):
            return False
        part = self._want.part
        part.fetch_offset = offset
        request.meter = self._meter
        self._waiting, self._correlation_id = request, bytes(frame[4:8])
        if self._leadership.fetched(self._replica_id, offset, part.log_start_offset, broker.clock.now_ms()):
            broker.replicas.purgatory.check(self._partition.committed_key)
        if offset < log.end_offset:
            self._send()
        else:
            broker.replicas.purgatory.wait(self._keys, self._try_complete, self._complete, self._seconds)
            request.handled_at = broker.loop.monotonic()
        return True

    def _is_ordinary(self) -> bool:
        """Whether the follower follows this leader, in this epoch, is in sync, and nothing but the one partition has changed."""
        partition, part = self._partition, self._want.part
        return (
            partition.is_hosted
            and partition.leadership is self._leadership
            and partition.leader_epoch == part.current_leader_epoch
            and partition.log.epochs.latest_epoch == part.last_fetched_epoch
            and self._replica_id in self._leadership.state.isr
            and self._replica_id in self._broker.cluster.brokers
            and not partition.fault()
            and not partition.log.is_failed
            and all(each is self._want or is_quiet(each) for each in self._wanted)
        )

    def _try_complete(self, key: Hashable) -> bool:
        return is_due(self._watched[key])

    def _complete(self) -> None:
        # At the end of the loop's turn: everything that comes in it goes together.
        self._broker.loop.post(self._send)

    def _send(self) -> None:
        request, self._waiting = self._waiting, None
        if request is None or not request.channel.is_open:
            return
        if not self._is_ordinary() or self._partition.log.end_offset == self._want.part.fetch_offset:
            self._send_plainly(request)
            return
        log, part = self._partition.log, self._want.part
        limit = min(part.partition_max_bytes, self._follower.max_bytes)
        records = self._follower.records(log, self._leadership.remote[self._replica_id], part.fetch_offset, limit, True)
        if records is None or not len(records):
            self._send_plainly(request)
            return
        self._want.told = told = facts(self._want)
        size = unsigned_varint(len(records) + 1)
        frame_size = self._fixed_size + len(size) + len(records)
        head = (_int32.pack(frame_size), self._correlation_id, self._before, _numbers.pack(*told), self._between, size)
        self._meter.successes += 1
        if isinstance(records, bytes):
            request.send((b"".join((*head, records, self._after)),))
        else:
            request.send((b"".join(head), records, self._after))

    def _send_plainly(self, request: Request) -> None:
        context = self._context.of(request, _int32.unpack(self._correlation_id)[0])
        results = self._follower.read_all(self._wanted)
        context.answer(self._session.answer(self._wanted, results, Isolation.UNCOMMITTED))


def is_quiet(each: Wanted) -> bool:
    """Whether there is nothing to say about a partition."""
    return (
        each.partition is not None
        and not is_due(each)
        and each.part.fetch_offset == each.partition.log.end_offset
        and facts(each) == each.told
    )

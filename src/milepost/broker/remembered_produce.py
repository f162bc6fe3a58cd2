"""The short way for a produce request that looks like the last one of its connection.

A producer sends the same bytes again and again in front of its batches: client id, acks, timeout, topic, partition.
Taken apart once, the plain way (`apis/produce`, its twin: same tests on both), such a request is remembered by that
prefix:

    bytes 0-3   api key and version   as before
    bytes 4-7   correlation id        any
    prefix      up to the size of the records, equal byte for byte
    size        of the records: int32, or a varint in flexible versions
    records     one batch
    tail        in flexible versions three empty sets of tagged fields

and the next one that matches goes straight to its partition. Its answer is the last one's with three numbers put in.
Whatever does not match, and whatever the log refuses, takes the plain way.

Remembered are requests for one partition, with an answer (acks 1 or -1), outside of transactions. Where other brokers have to have the
batch too, the answer waits for them (`AwaitedAnswer`). A connection compares with its last request first, then looks among those of all
connections: a producer sends to several partitions in turn, and comes back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from milepost.broker.produce.partition_answers import PartitionResponse, refused_partition
from milepost.broker.produce_shortcut import ProduceShortcut
from milepost.broker.response_errors import count_errors
from milepost.codec.compression import Codec
from milepost.config.definition import LONG_MAX
from milepost.errors import MilepostError
from milepost.log.examination import examine_quickly, is_plain
from milepost.log.quick_append import IS_COMPILED
from milepost.log.validation import TakesLong
from milepost.protocol import frames
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ProduceRequest, ProduceResponse
from milepost.record.batch import CODEC_MASK, HEADER_SIZE, MAGIC, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from milepost.broker.parts import Parts as Broker
    from milepost.net.channel import Channel
    from milepost.net.request import Request
    from milepost.net.request_metrics import RequestMeter
    from milepost.replica.partition import Partition

KEY = 0
ALL = -1
FLEXIBLE_SINCE = 9
LOG_START_SINCE = 5
NO_TAGS = b"\0\0\0"
MOST_REMEMBERED = 20_000
# Client ids and topics of producers are short; a prefix of any length would be memory that a stranger can fill.
MOST_PREFIX_BYTES = 1024
MOST_SIZES = 16
LEAST_TIDIED = 256
# Unlikely numbers that are looked for in an encoded answer, to learn where its offsets stand.
SIGNS = (0x0123456789ABCDEF, 0x1133557799BBDDFF, 0x2244668800AACCEE)

_int32 = struct.Struct(">i").unpack_from


class RememberedProduces:
    """What a broker remembers. It forgets everything when that has become too much: the next requests bring back what is needed."""

    def __init__(self) -> None:
        self._known: dict[bytes, RememberedProduce] = {}
        self._sizes: list[int] = []
        self._tidied_at = LEAST_TIDIED

    def __len__(self) -> int:
        return len(self._known)

    def handle(self, request: Request, broker: Broker) -> bool:
        """Whether the request was one that is remembered, and is answered."""
        channel = request.channel
        last = channel.state.get("produce")
        if last is None:
            return False
        assert isinstance(last, RememberedProduce)
        if last.handle(request, broker):
            return True
        other = self.find(request.frame)
        if other is None or other is last or not other.handle(request, broker):
            return False
        self._expect(other, channel)
        return True

    def remember(self, request: Request, body: ProduceRequest, version: int, broker: Broker) -> None:
        """Expect more of this kind on the connection, if it is the plain kind."""
        channel = request.channel
        channel.state["produce"] = channel.shortcut = None
        if (
            body.transactional_id is not None
            or body.acks not in (1, ALL)
            or len(body.topic_data) != 1
            or len(body.topic_data[0].partition_data) != 1
        ):
            return
        topic = body.topic_data[0]
        part = topic.partition_data[0]
        known = broker.cluster.topic_by_id(topic.topic_id) if version >= 13 else broker.cluster.topics.get(topic.name)
        partition = None if known is None or known.is_internal else broker.replicas.partition_of(known.name, part.index)
        if partition is None or part.records is None:
            return
        tail = NO_TAGS if version >= FLEXIBLE_SINCE else b""
        size_bytes = _varint_size(len(part.records) + 1) if tail else 4
        prefix_end = len(request.frame) - len(tail) - len(part.records) - size_bytes
        if prefix_end - 8 > MOST_PREFIX_BYTES or request.frame[len(request.frame) - len(tail) :] != tail:
            return
        fields: dict[str, Any] = {"base_offset": SIGNS[0], "log_append_time_ms": SIGNS[1]}
        if version >= LOG_START_SINCE:
            fields["log_start_offset"] = SIGNS[2]
        answer = ProduceResponse.Response.PartitionResponse(index=part.index, **fields)
        response = ProduceResponse(
            responses=[ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])]
        )
        prefix, version_bytes = bytes(request.frame[8:prefix_end]), bytes(request.frame[:4])
        remembered = RememberedProduce(prefix, version_bytes, tail, partition, response, version, request.meter, broker, self)
        remembered.patience = body.timeout_ms / 1000 if body.acks == ALL else None
        self._add(remembered)
        self._expect(remembered, channel)

    def find(self, frame: memoryview) -> RememberedProduce | None:
        version = bytes(frame[:4])
        for size in self._sizes:
            found = self._known.get(version + bytes(frame[8 : 8 + size]))
            if found is not None:
                return found
        return None

    def _expect(self, remembered: RememberedProduce, channel: Channel) -> None:
        channel.state["produce"] = remembered
        channel.shortcut = remembered.shortcut

    def _add(self, remembered: RememberedProduce) -> None:
        if len(self._known) >= self._tidied_at:
            self._known = {key: known for key, known in self._known.items() if known.partition.is_hosted}
            self._tidied_at = max(LEAST_TIDIED, 2 * len(self._known))
        if len(self._known) >= MOST_REMEMBERED or len(self._sizes) >= MOST_SIZES:
            self._known.clear()
            self._sizes.clear()
        self._known[remembered.version_bytes + remembered.prefix] = remembered
        size = len(remembered.prefix)
        if size not in self._sizes:
            self._sizes.append(size)


class RememberedProduce:
    __slots__ = (
        "_after",
        "_before",
        "_frame_size",
        "_meter",
        "_numbers",
        "_start",
        "_tail",
        "_version",
        "_with_start",
        "partition",
        "patience",
        "prefix",
        "shortcut",
        "version_bytes",
    )

    def __init__(
        self,
        prefix: bytes,
        version_bytes: bytes,
        tail: bytes,
        partition: Partition,
        response: ProduceResponse,
        version: int,
        meter: RequestMeter,
        broker: Broker,
        others: RememberedProduces,
    ):
        self.prefix = prefix
        self.version_bytes = version_bytes
        self._tail = tail
        self._version = version
        self.partition = partition
        self.patience: float | None = None
        """How many seconds an answer may wait for other replicas; None when it does not."""
        self._meter = meter
        self._start = 8 + len(prefix)
        self._with_start = version >= LOG_START_SINCE
        self._numbers = struct.Struct(">qqq" if self._with_start else ">qq").pack
        encoded = frames.encode_response(KEY, version, 0, response)
        at = encoded.index(self._numbers(*SIGNS[: 3 if self._with_start else 2]))
        self._frame_size = encoded[:4]
        self._before = encoded[8:at]
        self._after = encoded[at + (24 if self._with_start else 16) :]
        self.shortcut: ProduceShortcut | None = None
        if IS_COMPILED and partition.is_solo:
            answer = encoded[:at] + self._numbers(*(0, -1, 0)[: 3 if self._with_start else 2]) + self._after
            self.shortcut = ProduceShortcut(
                version_bytes, prefix, tail, answer, at, self._with_start, partition, broker.replicas, meter, others
            )

    def handle(self, request: Request, broker: Broker) -> bool:
        """Whether the request was one of these, and is answered."""
        frame = request.frame
        start = self._start
        if frame[:4] != self.version_bytes or frame[8:start] != self.prefix or not self.partition.is_hosted:
            return False
        records = self._records_in(frame, start)
        # One whole batch of magic 2, in no transaction, in a codec that every version knows, to a log that may be answered for at
        # once: else the plain way says what is wrong, or waits.
        if self.partition.log.config.flush_messages != LONG_MAX:
            return False
        if records is None or records[16] != MAGIC or _int32(records, 8)[0] + 12 != len(records):
            return False
        if records[22] & TRANSACTIONAL_FLAG or records[22] & CODEC_MASK == Codec.ZSTD:
            return False
        log, examined = self.partition.log, None
        if not is_plain(log.validator, records):
            # The plain way has time for what is not quick.
            budget = broker.record_examiner.budget(len(records))
            try:
                examined = examine_quickly(log.validator, records, log.clock.now_ms(), budget)
            except TakesLong:
                return False
        request.meter = self._meter
        try:
            info = self.partition.append(records, examined=examined, for_all=self.patience is not None)
        except MilepostError as error:
            nothing = self._answer(bytes(frame[4:8]), (0, -1, -1))
            self._answer_partition(request, nothing, lambda part, error=error: refused_partition(part.index, error))  # type: ignore[misc]
            return True
        numbers, end_offset = (info.first_offset, info.log_append_time, info.log_start_offset), info.last_offset + 1
        answer = self._answer(bytes(frame[4:8]), numbers)
        if self.partition.is_solo or self.patience is None:
            self.send(request, answer)
        else:
            AwaitedAnswer(self, request, answer, end_offset).wait(broker, self.patience)
        return True

    def _answer(self, correlation_id: bytes, numbers: tuple[int, int, int]) -> bytes:
        encoded = self._numbers(*numbers) if self._with_start else self._numbers(*numbers[:2])
        return b"".join((self._frame_size, correlation_id, self._before, encoded, self._after))

    def send(self, request: Request, answer: bytes) -> None:
        self._meter.successes += 1
        request.send((answer,))

    def refuse(self, request: Request, answer: bytes, error_code: int) -> None:
        """Another answer instead, which says why."""

        def refused(part: PartitionResponse) -> PartitionResponse:
            part.error_code, part.base_offset = error_code, -1
            return part

        self._answer_partition(request, answer, refused)

    def _answer_partition(
        self, request: Request, answer: bytes, changed: Callable[[PartitionResponse], PartitionResponse]
    ) -> None:
        correlation_id, response = frames.decode_response(KEY, self._version, answer[4:])
        topic = response.responses[0]
        topic.partition_responses = [changed(topic.partition_responses[0])]
        count_errors(response, self._meter.errors)
        request.send((frames.encode_response(KEY, self._version, correlation_id, response),))

    def _records_in(self, frame: memoryview, start: int) -> memoryview | None:
        end = len(frame) - len(self._tail)
        if self._tail:
            size, shift, byte = 0, 0, 0x80
            while byte & 0x80 and shift < 35 and start < end:
                byte = frame[start]
                size |= (byte & 0x7F) << shift
                shift += 7
                start += 1
            size -= 1
            if frame[end:] != self._tail:
                return None
        else:
            if end - start < 4:
                return None
            size = _int32(frame, start)[0]
            start += 4
        return frame[start:end] if size == end - start and size >= HEADER_SIZE else None


class AwaitedAnswer:
    """An answer that goes out when all in-sync replicas have what was appended, or says why they do not."""

    __slots__ = ("_answer", "_end_offset", "_error_code", "_remembered", "_request")

    def __init__(self, remembered: RememberedProduce, request: Request, answer: bytes, end_offset: int):
        self._remembered = remembered
        self._request = request
        self._answer = answer
        self._end_offset = end_offset
        self._error_code: int = ErrorCode.REQUEST_TIMED_OUT

    def wait(self, broker: Broker, seconds: float) -> None:
        key = self._remembered.partition.committed_key
        if self._try_complete(key):
            self._complete()
            return
        broker.replicas.purgatory.wait((key,), self._try_complete, self._complete, seconds)
        self._request.handled_at = broker.loop.monotonic()
        # What follows on the connection need not wait: batches that were sent ahead are replicated together.
        self._request.let_go()

    def _try_complete(self, key: Hashable) -> bool:
        code = self._remembered.partition.acknowledgement(self._end_offset)
        if code is not None:
            self._error_code = code
        return code is not None

    def _complete(self) -> None:
        request = self._request
        if not request.channel.is_open:
            return
        if self._error_code:
            self._remembered.refuse(request, self._answer, self._error_code)
        else:
            self._remembered.send(request, self._answer)


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)

# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The fast path of produce requests: read straight from where they were received, of up to 100 partitions each, many in one go.

A frame as it lies in the receive buffer. `len` is an integer (2 bytes in front of a string, else 4), since version 9 a varint of one more:

    size (4) · api key (2) · version (2) · correlation id (4) · client id: len (2), text · tags since 9
    transactional id: len, text · acks (2) · timeout (4) · topics: len, for each
        name: len, text; since 13 its id (16) · partitions: len, for each
            index (4) · records: len, one batch · tags since 9
        tags since 9
    tags since 9

A pass goes over the frames at the start of the buffer. Each is read first, which touches nothing: taken is one whose partitions are here
and are named once, with a whole batch of magic 2 for each that is quickly looked at (`log/examination`), in no transaction or in one that
is open in its log, without tagged fields. Meanwhile its answer is written, all but the numbers. Then every batch goes to
`Partition.append`, as from the handler, and what that refuses is that partition's error (`frame_answers`). The first frame that is not
taken ends the pass, and goes the general path (`handler`) as it came.

What is remembered is where topics are, which each pass asks anew: a topic that is gone, or has come, is so at once. So is a right: where
a client might be denied something each pass asks whether it may write to the topics it names (`writers`). A frame with a topic that it may
not write to is not taken, nor is any with a transactional id, which is another right.

Compiled (Cython in pure-Python mode) reading costs a fraction of a microsecond. The same tests run on the uncompiled twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.produce.frame_answers import Answering, FailedFrame, FrameAnswer
from milepost.errors import MilepostError
from milepost.log.append_info import CLIENT
from milepost.log.examination import QUICK_BYTES, examine_quickly
from milepost.log.validation import TakesLong
from milepost.net.fast_path import PipelinedRequests

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if cython.compiled:
    from cython.cimports.milepost.codec.octets import int32_at, int64_at
else:
    # Also where Cython is installed: its own stand-ins for C types make plain Python several times slower.
    from milepost.codec import no_cython as cython
    from milepost.codec.octets import int32_at, int64_at

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.broker.produce.frame_answers import Failed
    from milepost.broker.produce.writers import Writer

i64 = cython.typedef(cython.longlong)
Octets = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Bytes = cython.typedef(cython.pointer[cython.uchar])

FIRST_VERSION = cython.declare(cython.longlong, 3)
LAST_VERSION = cython.declare(cython.longlong, 13)
LOG_START_SINCE = cython.declare(cython.longlong, 5)
ZSTD_SINCE = cython.declare(cython.longlong, 7)
RECORD_ERRORS_SINCE = cython.declare(cython.longlong, 8)
FLEXIBLE_SINCE = cython.declare(cython.longlong, 9)
TOPIC_ID_SINCE = cython.declare(cython.longlong, 13)

HEADER_SIZE = cython.declare(cython.longlong, 61)
CODEC_MASK = cython.declare(cython.longlong, 7)
TRANSACTIONAL_FLAG = cython.declare(cython.longlong, 0x10)
ZSTD = cython.declare(cython.longlong, 4)
QUICK_SIZE = cython.declare(cython.longlong, QUICK_BYTES + 61)

# Of one pass, so that other connections have their turn, and of one request: the handler lets them in between its partitions.
MOST_PARTITIONS_IN_A_PASS = cython.declare(cython.longlong, 500)
MOST_PARTITIONS = cython.declare(cython.longlong, 100)
MOST_UNPACKED = cython.declare(cython.longlong, 4 << 20)
MOST_TOPICS = cython.declare(cython.longlong, 256)
ANSWER_SIZE = cython.declare(cython.longlong, 8192)
LARGEST_PART = cython.declare(cython.longlong, 40)
"""Bytes of an answer that are said about one partition; no more of what stands before and behind them."""
SMALLEST_FRAME = cython.declare(cython.longlong, 16)

# What a length may say besides.
NULL = cython.declare(cython.longlong, -1)
BAD = cython.declare(cython.longlong, -2)


@cython.cclass
class ProduceFrames:
    """The fast path of produce requests (`net/fast_path`), of a client that may write to every topic, or of `writer`."""

    _broker: object
    _failed: object
    _answering: dict
    _reader: object
    _writer: object

    def __init__(self, broker: Parts, failed: Failed, writer: Writer | None = None):
        """`failed` is called, inside of the `except`, for a request that ends with an exception as in its handler."""
        self._broker = broker
        self._failed = failed
        self._answering = {}
        self._reader = FrameReader(broker, writer)
        self._writer = writer

    def take(self, view: memoryview, at: int, end: int, most: int, alone: bool) -> PipelinedRequests | None:
        # A pass may begin within another one: a request completed by an append continues with those of its own connection.
        reader: FrameReader = self._reader or FrameReader(self._broker, self._writer)
        self._reader = None
        taken = None
        if reader.starts(view, at, end):
            answering = self._answering.get(reader.version)
            if answering is None:
                meter = self._broker.request_metrics.meter("Produce", reader.version)
                answering = self._answering[reader.version] = Answering(self._broker, meter, self._failed)
            taken = _pass(reader, answering, at, most, alone)
        self._reader = reader
        return taken


@cython.cclass
class Topic:
    """What was looked up of a topic, by its name or id."""

    known: object
    """As the cluster knew it: another one is there when it was deleted, or made anew."""
    name: object
    partitions: dict
    looked_up_in: i64
    """The last pass in which it was as the cluster knows it."""

    def __init__(self, known):
        self.known = known
        self.name = known.name
        self.partitions = {}


@cython.cclass
class FrameReader:
    """Reads frames of one version, one after the other, writes their answers, and appends their batches."""

    _broker: object
    _replicas: object
    _writer: object
    _passes: i64
    _topics: dict
    _view: object
    _octets: Octets
    _end: i64
    _size: i64
    _at: i64
    version: i64
    _is_flexible: cython.bint
    _is_transactional: cython.bint
    _budget: object
    _bytes: Bytes
    _timeout_ms: i64
    _used: i64
    stop: i64
    """Where the frame ends that was read last."""
    acks: i64
    batches: list
    """Of that frame: partition, batch, what was found out about it, and where its numbers stand in the answer."""
    _outcomes: list
    """What became of each; the error where it was refused, None where the partition was gone."""
    _answer: object
    unpacked: i64
    """Bytes that were decompressed in this pass."""

    def __init__(self, broker, writer=None):
        self._broker = broker
        self._replicas = None
        self._writer = writer
        self._topics = {}
        self._passes = 0
        self._view = None
        self._answer = bytearray(ANSWER_SIZE)
        answer: cython.uchar[::1] = self._answer
        self._bytes = cython.address(answer[0]) if cython.compiled else self._answer

    @cython.cfunc
    @cython.locals(at=i64, end=i64)
    @cython.returns(cython.bint)
    def starts(self, view, at, end):
        """Whether the frame that starts there may be a produce request of a version that is known here."""
        if view is not self._view:  # nearly always the receive buffer
            octets: cython.const[cython.uchar][::1] = view
            self._octets = cython.address(octets[0]) if cython.compiled else view
            self._view = view
        if end - at < SMALLEST_FRAME or self._octets[at + 4] or self._octets[at + 5] or self._octets[at + 6]:
            return False
        self.version = self._octets[at + 7]
        if self.version < FIRST_VERSION or self.version > LAST_VERSION:
            return False
        self._end = end
        self._replicas = self._broker.replicas
        self._is_flexible = self.version >= FLEXIBLE_SINCE
        self._passes += 1
        self.stop = self.unpacked = 0
        return True

    # Reading. Each of these moves `_at` behind what it has read.

    @cython.cfunc
    @cython.locals(at=i64, most=i64, size=i64)
    @cython.returns(cython.bint)
    def read(self, at, most):
        """Whether a request that the fast path takes starts there, of this version and all of it: what it is is in the fields."""
        octets = self._octets
        if self._end - at < SMALLEST_FRAME:
            return False
        size = int32_at(octets, at)
        if size < SMALLEST_FRAME or size > most or size > self._end - at - 4:
            return False
        self._size = size
        self.stop = at + 4 + size
        if int32_at(octets, at + 4) != self.version:
            return False  # or another API
        self._at = at + 12
        self._budget = None
        self.batches = []
        _copy(self._bytes, 4, octets, at + 8, 4)
        self._used = 8
        if self._is_flexible:
            self._put_byte(0)
        if not self._read_head() or not self._read_topics() or not self._has_no_tags() or self._at != self.stop:
            return False
        _put_number(self._bytes, self._used, 0, 4)  # no throttling
        self._used += 4
        if self._is_flexible:
            self._put_byte(0)
        _put_number(self._bytes, 0, self._used - 4, 4)
        return len(self.batches) == 1 or len({batch[0] for batch in self.batches}) == len(self.batches)

    @cython.cfunc
    @cython.locals(size=i64)
    @cython.returns(cython.bint)
    def _read_head(self):
        size = int16_at(self._octets, self._at)  # the client id's, in every version
        self._at += 2
        if size < NULL or not self._is_text(size) or not self._has_no_tags():
            return False
        size = self._length(2)
        if size < NULL or not self._is_text(size):
            return False
        self._is_transactional = size != NULL
        if self._is_transactional and self._writer is not None:
            return False
        if self.stop - self._at < 6:
            return False
        self.acks = int16_at(self._octets, self._at)
        self._timeout_ms = int32_at(self._octets, self._at + 2)
        self._at += 6
        return -1 <= self.acks <= 1

    @cython.cfunc
    @cython.locals(topics=i64, partitions=i64, size=i64)
    @cython.returns(cython.bint)
    def _read_topics(self):
        topics = self._length(4)
        if topics < 1:
            return False
        self._put_length(topics, 4)
        while topics > 0:
            topics -= 1
            size = 16 if self.version >= TOPIC_ID_SINCE else self._length(2)
            if size < 1 or self.stop - self._at < size or ANSWER_SIZE - self._used < size + LARGEST_PART:
                return False
            topic: Topic = self._topic(size)
            partitions = BAD if topic is None else self._length(4)
            if partitions < 1:
                return False
            self._put_length(partitions, 4)
            while partitions > 0:
                partitions -= 1
                if not self._read_partition(topic):
                    return False
            if self._is_flexible:
                self._put_byte(0)
            if not self._has_no_tags():
                return False
        return True

    @cython.cfunc
    @cython.locals(size=i64, at=i64)
    def _topic(self, size):
        """Its name and partitions, as far as they were asked for in this pass; None if there is none that clients may write to."""
        at = self._at
        key = self._octets[at : at + size] if cython.compiled else bytes(self._octets[at : at + size])
        topic: Topic = self._topics.get(key)
        if topic is None or topic.looked_up_in != self._passes:
            cluster = self._broker.cluster
            # Names are ASCII.
            known = cluster.topic_by_id(key) if self.version >= TOPIC_ID_SINCE else cluster.topics.get(key.decode("latin-1"))
            if known is None or known.is_internal:
                self._topics.pop(key, None)
                return None
            if self._writer is not None and not self._writer.may_write(known.name):
                return None
            if topic is None or topic.known is not known:
                if len(self._topics) >= MOST_TOPICS:
                    self._topics.clear()
                topic = self._topics[key] = Topic(known)
            topic.looked_up_in = self._passes
        if self.version < TOPIC_ID_SINCE:
            self._put_length(size, 2)
        _copy(self._bytes, self._used, self._octets, at, size)
        self._used += size
        self._at = at + size
        return topic

    @cython.cfunc
    @cython.locals(index=i64, size=i64, start=i64)
    @cython.returns(cython.bint)
    def _read_partition(self, topic: Topic):
        if self.stop - self._at < 4 or len(self.batches) >= MOST_PARTITIONS or ANSWER_SIZE - self._used < 2 * LARGEST_PART:
            return False
        index = int32_at(self._octets, self._at)
        self._at += 4
        size = self._length(4)
        start = self._at
        if size <= HEADER_SIZE or size > self.stop - start:
            return False
        partition = topic.partitions.get(index)
        if partition is None or not partition.is_online:
            partition = self._replicas.partition_of(topic.name, index)
            if partition is None:
                return False
            topic.partitions[index] = partition
        data = self._view[start : start + size]
        self._at = start + size
        log = partition.log
        if not self._is_plain(log, start, size):
            return False
        examined = None
        if self._octets[start + 22] & CODEC_MASK or size > QUICK_SIZE or not log.validator.keeps_codec:
            examined = self._examine(log, data)
            if examined is None:
                return False
        self.batches.append((partition, data, examined, self._put_partition(index)))
        return self._has_no_tags()

    @cython.cfunc
    @cython.locals(start=i64, size=i64, flags=i64)
    @cython.returns(cython.bint)
    def _is_plain(self, log, start, size):
        """Of the records of a partition: one whole batch that this version may bring, in no transaction or in one that is open."""
        octets = self._octets
        if octets[start + 16] != 2 or int32_at(octets, start + 8) + 12 != size:
            return False
        flags = octets[start + 22]
        if flags & CODEC_MASK == ZSTD and self.version < ZSTD_SINCE:
            return False
        if not flags & TRANSACTIONAL_FLAG:
            return not self._is_transactional
        return self._is_transactional and log.producers.has_open_transaction(
            int64_at(octets, start + 43), int16_at(octets, start + 51)
        )

    @cython.cfunc
    @cython.locals(before=i64)
    def _examine(self, log, data):
        """What is found out about a batch that cannot be appended as it is without a look; None if that takes long."""
        if self._budget is None:
            self._budget = self._broker.record_examiner.budget(self._size)
        before = self._budget.left
        try:
            return examine_quickly(log.validator, data, log.clock.now_ms(), self._budget)
        except TakesLong:
            return None
        finally:
            self.unpacked += before - self._budget.left

    @cython.cfunc
    @cython.locals(width=i64, size=i64, shift=i64, at=i64, octet=i64)
    @cython.returns(i64)
    def _length(self, width):
        """NULL, or less, for what has none; less as well if it is cut, or takes more bytes than a length needs."""
        at = self._at
        if self._is_flexible:
            size = shift = 0
            while at < self.stop and shift < 28:
                octet = self._octets[at]
                at += 1
                size |= (octet & 0x7F) << shift
                if octet < 0x80:
                    self._at = at
                    return size - 1
                shift += 7
            return BAD
        if self.stop - at < width:
            return BAD
        self._at = at + width
        return int16_at(self._octets, at) if width == 2 else int32_at(self._octets, at)

    @cython.cfunc
    @cython.locals(size=i64, at=i64, end=i64, octet=i64)
    @cython.returns(cython.bint)
    def _is_text(self, size):
        """Whether that many bytes are here, and UTF-8; fewer than none are fine."""
        at = self._at
        if size <= 0:
            return True
        if self.stop - at < size:
            return False
        end = self._at = at + size
        octet = 0
        while at < end:
            octet |= self._octets[at]
            at += 1
        if octet < 0x80:
            return True
        try:
            str(self._view[end - size : end], "utf-8")
        except UnicodeDecodeError:
            return False
        return True

    @cython.cfunc
    @cython.returns(cython.bint)
    def _has_no_tags(self):
        """Of a struct that may have tagged fields: whether it has none."""
        if not self._is_flexible:
            return True
        if self._at >= self.stop or self._octets[self._at] != 0:
            return False
        self._at += 1
        return True

    # Writing the answer: there is room for what is written.

    @cython.cfunc
    @cython.locals(value=i64)
    @cython.returns(cython.void)
    def _put_byte(self, value):
        self._bytes[self._used] = value
        self._used += 1

    @cython.cfunc
    @cython.locals(value=i64, width=i64)
    @cython.returns(cython.void)
    def _put_length(self, value, width):
        if not self._is_flexible:
            _put_number(self._bytes, self._used, value, width)
            self._used += width
            return
        value += 1
        while value > 0x7F:
            self._put_byte(value & 0x7F | 0x80)
            value >>= 7
        self._put_byte(value)

    @cython.cfunc
    @cython.locals(index=i64, numbers_at=i64)
    @cython.returns(i64)
    def _put_partition(self, index):
        """Where its numbers are to stand: base offset, log append time, log start offset."""
        _put_number(self._bytes, self._used, index, 4)
        _put_number(self._bytes, self._used + 4, 0, 2)  # no error
        numbers_at = self._used + 6
        self._used = numbers_at + (24 if self.version >= LOG_START_SINCE else 16)
        if self._is_flexible:
            self._put_length(0, 4)  # errors of records
            self._put_length(NULL, 2)  # the sentence
            self._put_byte(0)
        elif self.version >= RECORD_ERRORS_SINCE:
            self._put_length(0, 4)
            self._put_length(NULL, 2)
        return numbers_at

    # Appending.

    @cython.cfunc
    @cython.locals(numbers_at=i64)
    @cython.returns(cython.bint)
    def append(self):
        """Append what was read; whether that is all, so that the answer is complete."""
        for_all: cython.bint = self.acks == -1
        with_start: cython.bint = self.version >= LOG_START_SINCE
        is_all: cython.bint = True
        self._outcomes = outcomes = []
        if self._budget is not None:
            self._broker.record_examiner.batches_refused += self._budget.refused
        for partition, data, examined, numbers_at in self.batches:
            outcome = None
            # A request completed by a batch before this one may have deleted a topic.
            if partition.is_online:
                try:
                    outcome = info = partition.append(data, CLIENT, None, examined, for_all)
                    _put_number(self._bytes, numbers_at, info.first_offset, 8)
                    _put_number(self._bytes, numbers_at + 8, info.log_append_time, 8)
                    if with_start:
                        _put_number(self._bytes, numbers_at + 16, info.log_start_offset, 8)
                    if for_all and not partition.has_one_replica and partition.has_followers:
                        is_all = False
                except MilepostError as error:
                    outcome = error
                    is_all = False
            else:
                is_all = False
            outcomes.append(outcome)
        return is_all and not self._replicas.unflushed

    @cython.cfunc
    def answer(self):
        """Of a request that was only appended."""
        return self._answer[: self._used]

    @cython.cfunc
    def other_answer(self, answering):
        partitions = [batch[0] for batch in self.batches]
        return FrameAnswer(
            answering, self._size, self.acks, self._timeout_ms, partitions, self._outcomes, bytes(self._answer[: self._used])
        )


@cython.cfunc
@cython.locals(reader=FrameReader, at=i64, most=i64, alone=cython.bint, start=i64, requests=i64, partitions=i64, successes=i64)
def _pass(reader, answering, at, most, alone):
    """The requests that were taken; None if there was none."""
    start = at
    requests = partitions = successes = 0
    last = None
    answers = bytearray()
    try:
        while partitions < MOST_PARTITIONS_IN_A_PASS and reader.unpacked < MOST_UNPACKED and reader.read(at, most):
            if not reader.append() or alone:
                answer = reader.other_answer(answering)
                if alone or answer.is_last:
                    last = answer
                    break
                if reader.acks:
                    answers += answer.counted()
            elif reader.acks:
                answers += reader.answer()
                successes += len(reader.batches)
            requests += 1
            partitions += len(reader.batches)
            at = reader.stop
    except Exception as error:
        last = FailedFrame(answering, max(0, reader.stop - at - 4), error)
    answering.meter.successes += successes
    if last is None and not requests:
        return None
    return PipelinedRequests(
        at if last is None else max(at, reader.stop), requests, at - start - 4 * requests, answers, answering.meter, last
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, at=i64)
@cython.returns(i64)
def int16_at(octets, at):
    return ((octets[at] ^ 0x80) - 0x80) * 256 + octets[at + 1]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(target=Bytes, at=i64, value=i64, width=i64, index=i64)
@cython.returns(cython.void)
def _put_number(target, at, value, width):
    """Big-endian."""
    for index in range(width):
        target[at + width - 1 - index] = value >> 8 * index & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(target=Bytes, at=i64, octets=Octets, start=i64, size=i64, index=i64)
@cython.returns(cython.void)
def _copy(target, at, octets, start, size):
    for index in range(size):
        target[at + index] = octets[start + index]

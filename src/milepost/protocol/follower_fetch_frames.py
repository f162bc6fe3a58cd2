"""Fetches that repeat, as they are on the wire: written and read without being put together or taken apart field by field.

A follower that keeps up asks for one partition of its session again and again, a few records further each time. Its requests, and the
answers, differ from those before only in these places:

    request   size · api key and version · correlation id (4) · … · session epoch (4) · … · fetch offset (8) · …
    answer    size (4) · correlation id (4) · … · high watermark, last stable offset, log start (8 each) · … · records · …

What stands around them is learned from one message that is encoded with signs in these places. From version 12 on.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

from milepost.codec.varint import read_unsigned_varint
from milepost.errors import MilepostError
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.protocol.writing import unsigned_varint

KEY = 1
SINCE = 12
EPOCH_SIGN = 0x01234567
OFFSET_SIGN = 0x0123456789ABCDEF
NUMBER_SIGNS = (0x1133557799BBDDFF, 0x2244668800AACCEE, 0x3355779911BBDDFF)
RECORDS_SIGN = b"\x5amilepost"

Numbers = tuple[int, int, int]
"""High watermark, last stable offset, log start offset."""

_int32 = struct.Struct(">i")
_int64 = struct.Struct(">q")
_numbers = struct.Struct(">qqq")


class FetchFrame:
    """Requests that are like `body`, which names one partition."""

    def __init__(self, version: int, client_id: str | None, body: FetchRequest):
        part = body.topics[0].partitions[0]
        given = part.fetch_offset, body.session_epoch
        part.fetch_offset, body.session_epoch = OFFSET_SIGN, EPOCH_SIGN
        encoded = frames.encode_request(KEY, version, 0, client_id, body)
        part.fetch_offset, body.session_epoch = given
        epoch_at, offset_at = encoded.index(_int32.pack(EPOCH_SIGN)), encoded.index(_int64.pack(OFFSET_SIGN))
        self._start, self._head = encoded[:8], encoded[12:epoch_at]
        self._middle, self._tail = encoded[epoch_at + 4 : offset_at], encoded[offset_at + 8 :]
        self._epoch_at, self._offset_at = epoch_at - 4, offset_at - 4

    def write(self, correlation_id: int, epoch: int, offset: int) -> bytes:
        pack = _int32.pack
        return b"".join(
            (self._start, pack(correlation_id), self._head, pack(epoch), self._middle, _int64.pack(offset), self._tail)
        )

    def read(self, frame: memoryview) -> tuple[int, int] | None:
        """Session epoch and fetch offset of a request (without its size), if it is one of these."""
        epoch_at, offset_at = self._epoch_at, self._offset_at
        if (
            frame[:4] != self._start[4:]
            or frame[8:epoch_at] != self._head
            or frame[epoch_at + 4 : offset_at] != self._middle
            or frame[offset_at + 8 :] != self._tail
        ):
            return None
        return _int32.unpack_from(frame, epoch_at)[0], _int64.unpack_from(frame, offset_at)[0]


@dataclass(slots=True)
class RepeatedAnswer:
    """What is new in an answer: it names the partition that was asked for, and has records for it."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: memoryview
    error_code: ClassVar[int] = 0
    diverging_epoch: ClassVar[None] = None


class FetchAnswerFrame:
    """Answers with records of one partition and no error."""

    def __init__(self, version: int, session_id: int, topic: str, topic_id: bytes, partition: int):
        part = FetchResponse.Response.Partition(partition_index=partition, aborted_transactions=None, records=RECORDS_SIGN)
        part.high_watermark, part.last_stable_offset, part.log_start_offset = NUMBER_SIGNS
        named = FetchResponse.Response(topic=topic, topic_id=topic_id, partitions=[part])
        encoded = frames.encode_response(KEY, version, 0, FetchResponse(session_id=session_id, responses=[named]))
        numbers_at, records_at = encoded.index(_numbers.pack(*NUMBER_SIGNS)), encoded.index(RECORDS_SIGN)
        self._before = encoded[8:numbers_at]
        self._between = encoded[numbers_at + 24 : records_at - 1]
        self._after = encoded[records_at + len(RECORDS_SIGN) :]
        self._fixed_size = 4 + len(self._before) + 24 + len(self._between) + len(self._after)
        self._numbers_at = numbers_at - 4
        self._records_at = records_at - 5

    def write(self, correlation_id: bytes, numbers: Numbers, records: Any) -> tuple[Any, ...]:
        """In pieces if the records are not bytes, but a stretch of a file."""
        count = unsigned_varint(len(records) + 1)
        size = _int32.pack(self._fixed_size + len(count) + len(records))
        head = (size, correlation_id, self._before, _numbers.pack(*numbers), self._between, count)
        if isinstance(records, bytes):
            return (b"".join((*head, records, self._after)),)
        return b"".join(head), records, self._after

    def read(self, frame: memoryview) -> RepeatedAnswer | None:
        """An answer (without its size), if it is one of these; its records are a view."""
        numbers_at, start = self._numbers_at, self._records_at
        if frame[4:numbers_at] != self._before or frame[numbers_at + 24 : start] != self._between:
            return None
        end = len(frame) - len(self._after)
        try:
            size, at = read_unsigned_varint(frame, start)
        except MilepostError:
            return None
        if size - 1 != end - at or at == end or frame[end:] != self._after:
            return None
        high_watermark, last_stable_offset, log_start_offset = _numbers.unpack_from(frame, numbers_at)
        return RepeatedAnswer(high_watermark, last_stable_offset, log_start_offset, frame[at:end])


class RepeatedFetch:
    """A request that is sent and answered by way of the two; the first one says how they look."""

    def __init__(self, version: int, body: FetchRequest):
        topic = body.topics[0]
        self._version = version
        self._body = body
        self._frame: FetchFrame | None = None
        self._answer = FetchAnswerFrame(version, body.session_id, topic.topic, topic.topic_id, topic.partitions[0].partition)
        self.epoch = 0
        self.offset = 0

    def encode(self, correlation_id: int, client_id: str | None) -> bytes:
        if self._frame is None:
            self._frame = FetchFrame(self._version, client_id, self._body)
        return self._frame.write(correlation_id, self.epoch, self.offset)

    def decode(self, frame: memoryview) -> RepeatedAnswer | FetchResponse:
        found = self._answer.read(frame)
        return frames.decode_response(KEY, self._version, frame)[1] if found is None else found

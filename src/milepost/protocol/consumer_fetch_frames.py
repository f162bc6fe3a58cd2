"""Fetches of consumers as they are on the wire, read and written without a message for each of their partitions.

The requests of one consumer begin and end alike; what they name in between differs. `[7]` stands from version 7 on:

    request     key, version (4) · correlation id (4) · start · [7] session epoch (4) · topics · end
    start       client id · up to 14: replica id · longest wait · least bytes · most bytes · isolation · [7] session id
    end         [7] forgotten topics · [11] rack · [12] tagged fields
    topic       name, [13] id · count · partitions · [12] tagged fields
    partition   index · [9] leader epoch · offset · [12] last fetched epoch · [5] log start · most bytes · [12] tagged fields

    answer      size (4) · correlation id (4) · [12] tagged fields · throttle time (4) · [7] error (2) · [7] session id · topics
                · [12] tagged fields
    topic       name, [13] id · count · partitions · [12] tagged fields
    partition   index · error (2) · high watermark · last stable offset · [5] log start · aborted transactions · [11] preferred replica (4)
                · records · [12] tagged fields

Last fetched epoch and log start are passed over: only followers have them. A request with a tagged field in a topic or a partition, or with
a length that takes two bytes, is none of these. Topics that were forgotten once can be so again: there is nothing left to forget. An
answer has no error in it and no replica to prefer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from milepost.protocol import headers
from milepost.protocol.writing import VARINTS

KEY = 1
LOG_START_SINCE, SESSION_SINCE, LEADER_EPOCH_SINCE, PREFERRED_SINCE = 5, 7, 9, 11
FLEXIBLE_SINCE, BY_ID_SINCE, NO_REPLICA_ID_SINCE = 12, 13, 15
NO_SESSION, NO_LEADER_EPOCH = -1, -1
MOST_IN_A_BYTE = 0x7F
ID_SIZE = 16
NO_TAGS = b"\0"

Asked: TypeAlias = tuple[bytes, int, int, int, int]
"""Topic, partition, leader epoch, offset and most bytes. The topic is its id, or its name as UTF-8."""
Answered: TypeAlias = tuple[int, tuple[int, int, int], Sequence[tuple[int, int]] | None, Any]
"""Partition; high watermark, last stable and log start offset; producer ids and first offsets of aborted transactions; records, which are
bytes or a stretch of a file."""

_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")
_two_int64 = struct.Struct(">qq")


class OtherFrame(ValueError):
    """Not one of these."""


class ConsumerFetchFrame:
    """Requests that begin and end like one that was taken apart. OtherFrame if that is none of these."""

    def __init__(self, version: int, frame: memoryview):
        self._is_flexible = version >= FLEXIBLE_SINCE
        self._is_by_id = version >= BY_ID_SINCE
        self._has_leader_epoch = version >= LEADER_EPOCH_SINCE
        self._partition = struct.Struct(partition_format(version))
        has_session = version >= SESSION_SINCE
        fixed = 13 if version >= NO_REPLICA_ID_SINCE else 17
        self._epoch_at = headers.read_request_header(frame).body + fixed + (4 if has_session else 0)
        self._topics_at = self._epoch_at + (4 if has_session else 0)
        self._kind, self._start = bytes(frame[:4]), bytes(frame[8 : self._epoch_at])
        self._end = bytes(frame[self._topics(frame)[1] :])

    @property
    def size(self) -> int:
        """How many bytes are kept of it."""
        return len(self._start) + len(self._end)

    def read(self, frame: memoryview) -> tuple[int, list[Asked]] | None:
        """The session epoch and the partitions of a request (without its size), if it is one of these."""
        at, end = self._topics_at, len(frame) - len(self._end)
        if frame[:4] != self._kind or frame[8 : self._epoch_at] != self._start or frame[end:] != self._end:
            return None
        try:
            asked, topics_end = self._topics(frame)
        except OtherFrame:
            return None
        if topics_end != end:
            return None
        return (_int32.unpack_from(frame, self._epoch_at)[0] if self._epoch_at < at else NO_SESSION), asked

    def _topics(self, frame: memoryview) -> tuple[list[Asked], int]:
        """What is asked for, and where that ends."""
        asked: list[Asked] = []
        topics, at = self._count(frame, self._topics_at)
        for _ in range(topics):
            topic_size, at = (ID_SIZE, at) if self._is_by_id else self._name_size(frame, at)
            topic = bytes(frame[at : at + topic_size])
            count, at = self._count(frame, at + topic_size)
            end = at + count * self._partition.size
            if end > len(frame):
                raise OtherFrame
            partitions = self._partition.iter_unpack(frame[at:end])
            if self._is_flexible:
                for index, leader_epoch, offset, max_bytes, tags in partitions:
                    if tags:
                        raise OtherFrame
                    asked.append((topic, index, leader_epoch, offset, max_bytes))
                if frame[end : end + 1] != NO_TAGS:
                    raise OtherFrame
                end += 1
            elif self._has_leader_epoch:
                asked += [
                    (topic, index, leader_epoch, offset, max_bytes) for index, leader_epoch, offset, max_bytes in partitions
                ]
            else:
                asked += [(topic, index, NO_LEADER_EPOCH, offset, max_bytes) for index, offset, max_bytes in partitions]
            at = end
        return asked, at

    def _count(self, frame: memoryview, at: int) -> tuple[int, int]:
        """How many elements follow, and where."""
        if self._is_flexible:
            return self._short_length(frame, at), at + 1
        return self._number(frame, at, _int32), at + 4

    def _name_size(self, frame: memoryview, at: int) -> tuple[int, int]:
        if self._is_flexible:
            return self._short_length(frame, at), at + 1
        return self._number(frame, at, _int16), at + 2

    def _short_length(self, frame: memoryview, at: int) -> int:
        length = frame[at] - 1 if at < len(frame) else -1
        if not 0 <= length < MOST_IN_A_BYTE:
            raise OtherFrame
        return length

    def _number(self, frame: memoryview, at: int, number: struct.Struct) -> int:
        length: int = number.unpack_from(frame, at)[0] if at + number.size <= len(frame) else -1
        if length < 0:
            raise OtherFrame
        return length


class ConsumerAnswerFrame:
    """Answers without an error."""

    def __init__(self, version: int):
        self._is_flexible = version >= FLEXIBLE_SINCE
        self._is_by_id = version >= BY_ID_SINCE
        self._has_session = version >= SESSION_SINCE
        self._offsets = struct.Struct(">ihqqq" if version >= LOG_START_SINCE else ">ihqq")
        self._has_log_start = version >= LOG_START_SINCE
        self._tags = NO_TAGS if self._is_flexible else b""
        self._preferred = _int32.pack(-1) if version >= PREFERRED_SINCE else b""
        self._not_asked_for_aborted = (NO_TAGS if self._is_flexible else _int32.pack(-1)) + self._preferred

    def write(self, correlation_id: bytes, session_id: int, topics: Sequence[tuple[bytes, Sequence[Answered]]]) -> list[Any]:
        """The answer in pieces: records that are no bytes stand in it as they are."""
        tags = self._tags
        pieces: list[Any] = []
        written = [correlation_id, tags, b"\0\0\0\0"]
        if self._has_session:
            written.append(b"\0\0" + _int32.pack(session_id))
        written.append(self._length(len(topics)))
        for topic, partitions in topics:
            written += (self._name(topic), self._length(len(partitions)))
            for partition, (high_watermark, last_stable_offset, log_start_offset), aborted, records in partitions:
                if self._has_log_start:
                    offsets = self._offsets.pack(partition, 0, high_watermark, last_stable_offset, log_start_offset)
                else:
                    offsets = self._offsets.pack(partition, 0, high_watermark, last_stable_offset)
                written += (
                    offsets,
                    self._not_asked_for_aborted if aborted is None else self._aborted(aborted),
                    self._length(len(records)),
                )
                if isinstance(records, bytes):
                    written += (records, tags)
                else:
                    pieces += (b"".join(written), records)
                    written = [tags]
            written.append(tags)
        written.append(tags)
        pieces.append(b"".join(written))
        pieces[0] = _int32.pack(sum(map(len, pieces))) + pieces[0]
        return pieces

    def _length(self, length: int) -> bytes:
        return VARINTS[length + 1] if self._is_flexible else _int32.pack(length)

    def _name(self, topic: bytes) -> bytes:
        if self._is_by_id:
            return topic
        return (VARINTS[len(topic) + 1] if self._is_flexible else _int16.pack(len(topic))) + topic

    def _aborted(self, aborted: Sequence[tuple[int, int]]) -> bytes:
        rows = [_two_int64.pack(*row) + self._tags for row in aborted]
        return self._length(len(aborted)) + b"".join(rows) + self._preferred


def partition_format(version: int) -> str:
    if version >= FLEXIBLE_SINCE:
        return ">iiq4x8xib"
    if version >= LEADER_EPOCH_SINCE:
        return ">iiq8xi"
    return ">iq8xi" if version >= LOG_START_SINCE else ">iqi"

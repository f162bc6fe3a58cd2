"""Where a partition can be read again behind records that cannot.

Two kinds of damage look different from here. A broker that knows of it answers CORRUPT_MESSAGE for every offset in the hole, and has no
field for where the hole ends. One that does not know sends the bytes as they are, and what lies behind the damage often came with
them. So, in this order:

    what came      the first valid batch behind the damage, in the bytes at hand
    the header     a changed record leaves the header alone: the offset behind its last one is tried
    each offset    one fetch each, for the first thousand; then in steps that double, and back by halves

The last is exact for holes of up to a thousand offsets. Behind a larger one a second hole could hide sound records between the two.
"""

from __future__ import annotations

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.codec.buffer import Buffer
from milepost.errors import MilepostError, RequestFailed
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest
from milepost.record.batch import HEADER_SIZE, RecordBatch
from milepost.record.batches import AnyBatch, iter_batches
from milepost.record.kernel import find_batch
from milepost.topic_partition import TopicPartition

FETCH_BY_NAME = 12
"""The last version of Fetch that names topics by name."""
ONE_BY_ONE = 1000
MOST_IN_BATCH = 1 << 31


class DamagedRecords(RequestFailed):
    """A partition cannot be read at one place; `next_offset` is where it can be again, None when that is nowhere."""

    def __init__(self, message: str, partition: TopicPartition, next_offset: int | None):
        super().__init__(message, ErrorCode.CORRUPT_MESSAGE)
        self.partition = partition
        self.next_offset = next_offset


def next_readable(
    cluster: Cluster, connection: Connection, partition: TopicPartition, offset: int, end: int, data: Buffer, isolation: int
) -> int | None:
    """The first offset behind `offset` that can be read, up to the high watermark `end`; `data` is what came for `offset`."""
    found = _in(data, offset, end)
    if found is not None:
        return found
    with cluster.dial(connection.address) as asking:
        probe = _Probe(asking, partition, end, isolation)
        hint = _behind_header(data, offset, end)
        if hint is not None and (found := probe.first_at(hint)) is not None and found >= hint:
            return found
        return _search(probe, offset + 1, end)


def from_batch_with(data: Buffer, offset: int) -> Buffer | None:
    """The bytes from the batch on that holds `offset`, where damage in front of it came along: that costs this reader nothing."""
    at = find_batch(data, 1, len(data), 0, offset + MOST_IN_BATCH) if len(data) > 1 else -1
    if at < 0:
        return None
    sound = memoryview(data)[at:]
    return sound if _first_offset(next(iter_batches(sound)), 0) <= offset else None


def _in(data: Buffer, offset: int, end: int) -> int | None:
    at = find_batch(data, 1, len(data), offset, end - 1) if len(data) > 1 else -1
    return None if at < 0 else _first_offset(next(iter_batches(memoryview(data)[at:])), offset)


def _first_offset(batch: AnyBatch, least: int) -> int:
    return max(batch.base_offset, least)


def _behind_header(data: Buffer, offset: int, end: int) -> int | None:
    if len(data) < HEADER_SIZE:
        return None
    header = RecordBatch(data)
    behind = header.base_offset + header.last_offset_delta + 1
    return behind if header.magic == 2 and header.base_offset <= offset < behind < end else None


def _search(probe: _Probe, start: int, end: int) -> int | None:
    for offset in range(start, min(start + ONE_BY_ONE, end)):
        if (found := probe.first_at(offset)) is not None:
            return found
    unreadable, step = start + ONE_BY_ONE - 1, 1
    while (offset := unreadable + step) < end:
        if probe.first_at(offset) is not None:
            return _first_between(probe, unreadable, offset)
        unreadable, step = offset, 2 * step
    return _first_between(probe, unreadable, end - 1) if unreadable < end - 1 and probe.first_at(end - 1) is not None else None


def _first_between(probe: _Probe, unreadable: int, readable: int) -> int:
    while readable - unreadable > 1:
        middle = (unreadable + readable) // 2
        if probe.first_at(middle) is None:
            unreadable = middle
        else:
            readable = middle
    return probe.first_at(readable) or readable


class _Probe:
    def __init__(self, connection: Connection, partition: TopicPartition, end: int, isolation: int):
        self.connection = connection
        self.partition = partition
        self.end = end
        self.isolation = isolation

    def first_at(self, offset: int) -> int | None:
        """The offset that a reader gets who asks for `offset`; None when what comes is an error, damaged, or nothing."""
        Topic = FetchRequest.Topic
        wanted = Topic.Partition(partition=self.partition.partition, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=self.isolation,
            session_epoch=-1,
            topics=[Topic(topic=self.partition.topic, partitions=[wanted])],
        )
        response = self.connection.ask(request, highest=FETCH_BY_NAME)
        rows = [row for topic in response.responses for row in topic.partitions]
        if response.error_code or not rows or rows[0].error_code or not rows[0].records:
            return None
        try:
            batch = next(iter_batches(rows[0].records), None)
            if batch is None:
                return None
            batch.ensure_valid()
            return _first_offset(batch, offset) if offset <= batch.last_offset < self.end else None
        except MilepostError:
            return None

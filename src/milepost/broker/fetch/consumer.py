"""Fetch (key 1): batches from some partitions, now or as soon as there are enough.

The answer waits until `min_bytes` are there or `max_wait_ms` is over; an error, or nothing asked for, is answered at
once. The first partition with data gives at least one whole batch, however large.

A client that says where it stands (rack, version 11) may be sent to a replica that is nearer than the leader (KIP-392).

From version 7 a client may keep a session and name only what changed; see `broker/fetch/session_cache`. Requests that repeat go a shorter
way to the same reading, waiting and counting: `broker/fetch/repeated_consumer`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from milepost.broker.fetch.interfaces import FetchBroker, FetchContext
from milepost.broker.fetch.partition_read import (
    MAX_WAIT_SECONDS,
    FetchPartition,
    PartitionReader,
    Result,
    is_enough,
    loaded,
    refuse,
    refuse_read,
    size_of,
)
from milepost.broker.fetch.session_cache import Answer, FetchSessions, Sessionless, responding
from milepost.broker.slices import Work
from milepost.log.cached_position import CachedPosition
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.partition import Partition
from milepost.segment.txn_index import AbortedTransaction

NO_REPLICA = -1
LIMITS_SINCE = 3


class ConsumerBroker(FetchBroker, Protocol):
    @property
    def fetch_sessions(self) -> FetchSessions: ...


class Consumer(PartitionReader):
    """Reads up to the high watermark, or to the last stable offset."""

    def read(self, each: FetchPartition, left: int, must_have_one: bool) -> Result | None:
        if each.is_denied:
            return refuse(each.part.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        # Most of many partitions: nothing new.
        return None if each.is_caught_up(self.isolation) else super().read(each, left, must_have_one)

    def check(self, each: FetchPartition, partition: Partition) -> Result | None:
        """A client that says where it stands may be sent to a nearer replica."""
        nearer = self.broker.nearer_replica(partition, each.rack, each.part.fetch_offset) if each.rack else NO_REPLICA
        if nearer == NO_REPLICA:
            return None
        result = refuse_read(each.part.partition, ErrorCode.NONE, partition.log)
        result.preferred_read_replica = nearer
        return result

    def read_log(self, each: FetchPartition, partition: Partition, limit: int, must_have_one: bool) -> Result:
        part, log = each.part, partition.log
        offset, cached = part.fetch_offset, each.cached_position
        records = None if cached is None else cached.read(log, offset, log.bound_for(self.isolation), limit)
        if records is None:
            fetched = log.read(offset, limit, self.isolation, must_have_one)
            records, aborted = fetched.records, fetched.aborted
        else:
            is_committed = self.isolation is Isolation.COMMITTED
            aborted = log.segments.active.txn_index.collect(offset, log.end_offset).transactions if is_committed else None
        if records is not None:
            each.cached_position = CachedPosition.after_read(log, offset, records)
        return Result(
            partition_index=part.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=None if aborted is None else aborted_list(aborted),
            records=loaded(records) if records is not None and records.size else b"",
        )

    def count_bytes(self, partition: Partition, size: int) -> None:
        partition.topic_metrics.bytes_out += size


class ConsumerFetch:
    """A fetch of a consumer, from its first look at the partitions to its answer."""

    def __init__(self, request: FetchRequest, version: int, broker: ConsumerBroker, session: Sessionless):
        self._broker = broker
        self.session = session
        self.isolation = Isolation.COMMITTED if request.isolation_level == 1 else Isolation.UNCOMMITTED
        self._consumer = Consumer(broker, request.max_bytes, self.isolation, gives_one=version >= LIMITS_SINCE)
        self._min_bytes = request.min_bytes
        self._seconds = min(request.max_wait_ms / 1000, MAX_WAIT_SECONDS)
        self.partitions: Sequence[FetchPartition] = session.partitions()
        if request.rack_id and broker.config.replica_selector_class is not None:
            for each in self.partitions:
                each.rack = request.rack_id

    def reading(self) -> Work[list[Result | None]]:
        return self._consumer.reading(self.partitions)

    def is_complete(self, results: Sequence[Result | None]) -> bool:
        return self._seconds <= 0 or not results or is_enough(results, self._min_bytes)

    def answering(self, results: Sequence[Result | None]) -> Work[Answer]:
        """What to answer, counted."""
        yield from self._consumer.counting(self.partitions, results)
        return (yield from self.session.naming(self.partitions, results))

    def responding(self, results: Sequence[Result | None]) -> Work[FetchResponse]:
        return (yield from responding((yield from self.answering(results)), self.isolation))

    def wait(self, context: FetchContext, results: Sequence[Result | None], finish: Callable[[], object]) -> None:
        """Read again and answer (`finish`) when there is enough, or when the time is up."""
        partitions = self.partitions
        watched = {each.key: number for number, each in enumerate(partitions)}
        sizes = [size_of(result) for result in results]

        def try_complete(key: Hashable) -> bool:
            """Only one partition has changed: the others have what they had."""
            number = watched[key]
            result = self._consumer.read(partitions[number], self._consumer.max_bytes, True)
            sizes[number] = size_of(result)
            return (result is not None and result.error_code != ErrorCode.NONE) or sum(sizes) >= self._min_bytes

        def complete() -> None:
            if context.is_connected:
                finish()

        guarded = context.guarded
        self._broker.replicas.purgatory.wait(list(watched), guarded(try_complete), guarded(complete), self._seconds)


def aborted_list(found: Sequence[AbortedTransaction]) -> list[Result.AbortedTransaction]:
    rows = sorted((aborted.first_offset, aborted.producer_id) for aborted in found)
    return [Result.AbortedTransaction(producer_id=producer_id, first_offset=first_offset) for first_offset, producer_id in rows]

"""Fetches of followers: what they ask for says what they have, so the answer reads the log and moves the high watermark.

Replicas read to the end of the log. Before anything is read the follower's log is compared by epochs (since 2.7): one that went another way
is told where, and gets no records. An answer waits for new records as a consumer's does; whoever waits for followers is told at once.

One that is waiting is answered at the end of the loop's turn in which records came: everything that came in that turn goes with it, so
followers of a busy partition ask once for several batches. Where a follower's next records are in the file is remembered, because it is
nearly always right behind the last ones; few of them go with the head of the answer and not by way of sendfile.

A partition whose move is throttled has no records for replicas that are not in sync while more went out than its rate allows
(`replica/replication_quota`); a fetch that gets nothing else waits as if there were none.

Taken from brokers that the controller named as alive; anybody else gets 31.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from milepost.broker.fetch.interfaces import FetchBroker, FetchContext
from milepost.broker.fetch.partition_read import (
    MAX_WAIT_SECONDS,
    FetchPartition,
    Result,
    check_epoch,
    empty,
    fetch_partition,
    is_diverging,
    is_enough,
    refuse,
    size_of,
)
from milepost.broker.fetch.replica_id import broker_epoch_of, refuse_follower, replica_id_of
from milepost.broker.fetch.session_cache import FetchSessions
from milepost.clock import Clock
from milepost.cluster.told import ToldCluster
from milepost.errors import MilepostError
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.partition import Partition
from milepost.replica.purgatory import start_key
from milepost.replica.remote_replica import CachedPosition, RemoteReplica
from milepost.replica.replicated import ReplicatedPartition
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.segment.file_records import FileSlice

SMALL = 16_384


class LeaderBroker(FetchBroker, Protocol):
    """A broker of several: it knows who is alive, keeps fetch sessions and limits what goes to replicas that are behind."""

    @property
    def cluster(self) -> ToldCluster: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def replication_quotas(self) -> ReplicationQuotas: ...


def answer(request: FetchRequest, context: FetchContext, broker: LeaderBroker) -> FetchResponse | None:
    replica_id = replica_id_of(request)
    if replica_id not in broker.cluster.brokers and broker.cluster.brokers:
        return refuse_follower(request, context.version)
    session = broker.fetch_sessions.open(request, context.version, fetch_partition, is_followers=True)
    if session.error_code:
        return FetchResponse(error_code=session.error_code)
    partitions = session.partitions()
    follower = Follower(broker, replica_id, broker_epoch_of(request), request.max_bytes)
    results = follower.read_all(partitions)
    if request.max_wait_ms <= 0 or not partitions or is_enough(results, request.min_bytes) or any(map(is_diverging, results)):
        follower.count_sent(partitions, results)
        return session.answer(partitions, results, Isolation.UNCOMMITTED)
    watched: dict[Hashable, FetchPartition] = {each.partition.name: each for each in partitions if each.partition is not None}

    def try_complete(key: Hashable) -> bool:
        return follower.is_due(watched[key])

    def complete() -> None:
        broker.loop.post(context.guarded(send))

    def send() -> None:
        if context.is_connected:
            follower.is_new = False
            results = follower.read_all(partitions)
            follower.count_sent(partitions, results)
            context.answer(session.answer(partitions, results, Isolation.UNCOMMITTED))

    seconds = min(request.max_wait_ms / 1000, MAX_WAIT_SECONDS)
    broker.replicas.purgatory.wait(list(watched), context.guarded(try_complete), complete, seconds)
    return None


class Follower:
    """One that fetches, for one request."""

    def __init__(self, broker: LeaderBroker, replica_id: int, broker_epoch: int, max_bytes: int):
        self.broker = broker
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.max_bytes = min(max_bytes, broker.config.fetch_max_bytes)
        self.quota = broker.replication_quotas.leader
        self.size = 0
        """Bytes of what was read last."""
        self.is_new = True
        """Whether what it asks for is news about it; not any more when its request has waited."""

    def read_all(self, partitions: Sequence[FetchPartition]) -> list[Result | None]:
        left, must_have_one = self.max_bytes, True
        self.size = 0
        results: list[Result | None] = []
        for each in partitions:
            result = self.read(each, left, must_have_one)
            size = size_of(result)
            if size:
                must_have_one = False
                self.size += size
                left = max(0, left - size)
            results.append(result)
        return results

    def read(self, each: FetchPartition, left: int, must_have_one: bool) -> Result | None:
        """None where there is nothing new."""
        part = each.part
        code = each.find(self.broker)
        if code:
            return refuse(part.partition, code)
        partition = each.partition
        assert isinstance(partition, ReplicatedPartition), "in a cluster every partition is one"
        code = partition.fault() or check_epoch(partition, part.current_leader_epoch)
        leadership = partition.leadership
        if code or leadership is None:
            return refuse(part.partition, code or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica = leadership.remote.get(self.replica_id)
        if replica is None:
            return refuse(part.partition, ErrorCode.UNKNOWN_LEADER_EPOCH)
        if replica.has_stale_broker_epoch(self.broker_epoch):
            return refuse(part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = partition.log
        if part.last_fetched_epoch >= 0:
            epoch, end = log.epochs.end_offset_for(part.last_fetched_epoch, log.end_offset)
            if epoch < 0 or end < 0:
                return refuse(
                    part.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log.high_watermark, log.last_stable_offset, log.start_offset
                )
            if epoch < part.last_fetched_epoch or end < part.fetch_offset:
                result = empty(each, Isolation.UNCOMMITTED)
                result.diverging_epoch = Result.DivergingEpoch(epoch=epoch, end_offset=end)
                return result
        if not log.start_offset <= part.fetch_offset <= log.end_offset:
            return refuse(
                part.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log.high_watermark, log.last_stable_offset, log.start_offset
            )
        if self.is_new:
            self.record_fetch(partition, part)
        if part.fetch_offset == log.end_offset or self.must_wait_for(partition):
            return None
        try:
            records = self.records(log, replica, part.fetch_offset, min(part.partition_max_bytes, left), must_have_one)
        except (MilepostError, OSError) as error:
            code = error.code if isinstance(error, MilepostError) else ErrorCode.KAFKA_STORAGE_ERROR
            return refuse(part.partition, code, log.high_watermark, log.last_stable_offset, log.start_offset)
        if records is None or not len(records):
            return None
        result = empty(each, Isolation.UNCOMMITTED)
        result.records = records
        return result

    def is_due(self, each: FetchPartition) -> bool:
        """Whether to answer, when it has waited for this partition."""
        partition = each.partition
        assert partition is not None
        return (
            not partition.is_hosted
            or partition.fault() != 0
            or check_epoch(partition, each.part.current_leader_epoch) != 0
            or (partition.log.end_offset > each.part.fetch_offset and not self.must_wait_for(partition))
        )

    def must_wait_for(self, partition: Partition) -> bool:
        quota = self.quota
        return quota.is_throttled(partition.name) and self.replica_id not in partition.in_sync_replicas and quota.is_exceeded

    def count_sent(self, partitions: Sequence[FetchPartition], results: Sequence[Result | None]) -> None:
        """Count what goes out, and apart from that what is of partitions that are throttled, to whomever."""
        self.counts(self.size)
        if not self.quota.is_in_use:
            return
        size = sum(
            size_of(result)
            for each, result in zip(partitions, results, strict=True)
            if each.partition is not None and self.quota.is_throttled(each.partition.name)
        )
        if size:
            self.quota.record(size)

    def counts(self, size: int) -> None:
        self.broker.replicas.topic_metrics.replication_bytes_out += size

    def records(self, log: Log, replica: RemoteReplica, offset: int, limit: int, must_have_one: bool) -> FileSlice | bytes | None:
        active = log.segments.active.log
        cached = replica.cached_position
        if (
            cached is not None
            and cached.offset == offset
            and cached.records is active
            and 0 < active.size_in_bytes - cached.position <= limit
            and not log.is_failed
        ):
            found: FileSlice | None = active.slice(cached.position, limit)
        else:
            found = log.read(offset, limit, Isolation.LOG_END, must_have_one).records
        if found is None:
            return None
        end = found.position + found.size
        is_all = found.records is active and end == active.size_in_bytes
        replica.cached_position = CachedPosition(log.end_offset, active, end) if is_all else None
        return found.records.read(found.position, found.size) if found.size <= SMALL else found

    def record_fetch(self, partition: ReplicatedPartition, part: FetchRequest.Topic.Partition) -> None:
        """The follower has everything before the offset it asks for."""
        leadership = partition.leadership
        assert leadership is not None
        moved = leadership.fetched(
            self.replica_id, part.fetch_offset, part.log_start_offset, self.broker.clock.now_ms(), self.broker_epoch
        )
        purgatory = self.broker.replicas.purgatory
        if moved:
            purgatory.check(partition.committed_key)
        purgatory.check(start_key(partition.name))

"""Fetches of followers: what they ask for says what they have, so the answer reads the log and moves the high watermark.

Replicas read to the end of the log. Before anything is read the follower's log is compared by epochs (since 2.7): a diverged follower
is sent the divergence point, and no records. An answer waits for new records as a consumer's does; requests that wait for followers are
completed at once.

One that is waiting is answered at the end of the loop's turn in which records came: everything that came in that turn goes with it, so
followers of a busy partition ask once for several batches. Where a follower's next records are in the file is remembered, because it is
nearly always right behind the last ones.

A partition whose move is throttled has no records for replicas that are not in sync while more went out than its rate allows
(`replica/replication_quota`); a fetch that gets nothing else waits as if there were none.

Accepted from brokers that the controller lists as alive; other senders get CLUSTER_AUTHORIZATION_FAILED (31).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from milepost.broker.fetch.interfaces import FetchBroker, FetchContext
from milepost.broker.fetch.partition_read import (
    MAX_WAIT_SECONDS,
    FetchPartition,
    PartitionReader,
    Result,
    check_epoch,
    empty,
    fetch_partition,
    is_diverging,
    is_enough,
    loaded,
    refuse,
    refuse_read,
)
from milepost.broker.fetch.replica_id import broker_epoch_of, refuse_follower, replica_id_of
from milepost.broker.fetch.session_cache import FetchSessions, Sessionless
from milepost.broker.parts import Dispatching
from milepost.clock import Clock
from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.log.cached_position import CachedPosition
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.partition import Partition
from milepost.replica.purgatory import start_key
from milepost.replica.remote_replica import RemoteReplica
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.segment.file_records import FileSlice
from milepost.work import at_once


class LeaderBroker(FetchBroker, Protocol):
    """A broker of several: it knows who is alive, keeps fetch sessions and limits what goes to replicas that are behind."""

    @property
    def cluster(self) -> ControllerMetadata: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def dispatcher(self) -> Dispatching: ...

    @property
    def replication_quotas(self) -> ReplicationQuotas: ...


class Follower(PartitionReader):
    """Reads to the end of the log for one replica, whose fetch says what it has."""

    broker: LeaderBroker

    def __init__(self, broker: LeaderBroker, request: FetchRequest):
        super().__init__(broker, request.max_bytes, Isolation.LOG_END)
        self.replica_id = replica_id_of(request)
        self.broker_epoch = broker_epoch_of(request)
        self.quota = broker.replication_quotas.leader
        self.is_new = True
        """Whether what it asks for is news about it; not any more when its request has waited."""

    def check(self, each: FetchPartition, partition: Partition) -> Result | None:
        """Whether this leader knows the replica, and the replica's log is the beginning of its own. If so the fetch is recorded."""
        part, log = each.part, partition.log
        leadership = partition.leadership
        if leadership is None:
            return refuse(part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        replica = leadership.remote.get(self.replica_id)
        if replica is None:
            return refuse(part.partition, ErrorCode.UNKNOWN_LEADER_EPOCH)
        if replica.has_stale_broker_epoch(self.broker_epoch):
            return refuse(part.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if part.last_fetched_epoch >= 0:
            epoch, end = log.epochs.end_offset_for(part.last_fetched_epoch, log.end_offset)
            if epoch < 0 or end < 0:
                return refuse_read(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log)
            if epoch < part.last_fetched_epoch or end < part.fetch_offset:
                result = empty(each, Isolation.UNCOMMITTED)
                result.diverging_epoch = Result.DivergingEpoch(epoch=epoch, end_offset=end)
                return result
        if not log.start_offset <= part.fetch_offset <= log.end_offset:
            return refuse_read(part.partition, ErrorCode.OFFSET_OUT_OF_RANGE, log)
        if self.is_new:
            self.record_fetch(partition, part)
        return None

    def read_log(self, each: FetchPartition, partition: Partition, limit: int, must_have_one: bool) -> Result | None:
        part, log = each.part, partition.log
        if part.fetch_offset == log.end_offset or self.must_wait_for(partition):
            return None
        assert partition.leadership is not None, "it was checked"
        replica = partition.leadership.remote[self.replica_id]
        records = self.records(log, replica, part.fetch_offset, limit, must_have_one)
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
            not partition.is_online
            or partition.unavailable_error() != 0
            or check_epoch(partition, each.part.current_leader_epoch) != 0
            or (partition.log.end_offset > each.part.fetch_offset and not self.must_wait_for(partition))
        )

    def must_wait_for(self, partition: Partition) -> bool:
        quota = self.quota
        return quota.is_throttled(partition.name) and self.replica_id not in partition.in_sync_replicas and quota.is_exceeded

    def count_bytes(self, partition: Partition, size: int) -> None:
        """And apart from that what is of partitions that are throttled, to whomever."""
        self.broker.replicas.topic_metrics.replication_bytes_out += size
        if self.quota.is_in_use and self.quota.is_throttled(partition.name):
            self.quota.record(size)

    def records(self, log: Log, replica: RemoteReplica, offset: int, limit: int, must_have_one: bool) -> FileSlice | bytes | None:
        cached = replica.cached_position
        found = None if cached is None else cached.read(log, offset, log.end_offset, limit)
        if found is None:
            found = log.read(offset, limit, Isolation.LOG_END, must_have_one).records
            if found is None:
                return None
        replica.cached_position = CachedPosition.after_read(log, offset, found)
        return loaded(found)

    def record_fetch(self, partition: Partition, part: FetchRequest.Topic.Partition) -> None:
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


class FollowerFetch:
    """A fetch of a follower, from its first look at the partitions to its answer."""

    def __init__(self, request: FetchRequest, broker: LeaderBroker, session: Sessionless):
        self.broker = broker
        self.session = session
        self.follower = Follower(broker, request)
        self.min_bytes = request.min_bytes
        self.seconds = min(request.max_wait_ms / 1000, MAX_WAIT_SECONDS)
        self.partitions = session.partitions()

    def read(self) -> list[Result | None]:
        return at_once(self.follower.reading(self.partitions))

    def is_complete(self, results: Sequence[Result | None]) -> bool:
        is_over = self.seconds <= 0 or not results
        return is_over or is_enough(results, self.min_bytes) or any(map(is_diverging, results))

    def answer(self, results: Sequence[Result | None]) -> FetchResponse:
        at_once(self.follower.counting(self.partitions, results))
        return self.session.answer(self.partitions, results, Isolation.UNCOMMITTED)

    def wait(self, context: FetchContext) -> None:
        follower = self.follower
        watched: dict[Hashable, FetchPartition] = {
            each.partition.name: each for each in self.partitions if each.partition is not None
        }

        def try_complete(key: Hashable) -> bool:
            return follower.is_due(watched[key])

        def complete() -> None:
            self.broker.loop.post(context.guarded(send))

        def send() -> None:
            if context.is_connected:
                follower.is_new = False
                context.answer(self.answer(self.read()))

        self.broker.replicas.purgatory.wait(list(watched), context.guarded(try_complete), complete, self.seconds)


def followers_partition(topic: FetchRequest.Topic, part: FetchRequest.Topic.Partition, version: int) -> FetchPartition:
    """Whatever the version, only the leader has what a follower asks for."""
    each = fetch_partition(topic, part, version)
    each.only_leader = True
    return each


def answer(request: FetchRequest, context: FetchContext, broker: LeaderBroker) -> FetchResponse | None:
    replica_id = replica_id_of(request)
    if replica_id not in broker.cluster.brokers and broker.cluster.brokers:
        return refuse_follower(request, context.version)
    session = broker.fetch_sessions.open(
        request, context.version, followers_partition, is_followers=True, owner=context.principal
    )
    if session.error_code:
        return FetchResponse(error_code=session.error_code)
    fetch = FollowerFetch(request, broker, session)
    results = fetch.read()
    if fetch.is_complete(results):
        return fetch.answer(results)
    fetch.wait(context)
    return None

"""Fetch (key 1): batches from some partitions, now or as soon as there are enough.

The answer waits until `min_bytes` are there or `max_wait_ms` is over; an error, or nothing asked for, is answered at
once. The first partition with data gives at least one whole batch, however large. Records are not read here: the
answer holds stretches of log files that go from disk to socket.

A client that says where it stands (rack, version 11) may be sent to a replica that is nearer than the leader (KIP-392).

From version 7 a client may keep a session and name only what changed; see `broker/fetch_sessions`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.broker.fetch_sessions import grouped
from milepost.errors import MilepostError
from milepost.log.reading import FetchData, Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts as Broker
    from milepost.broker.slices import Work

KEY = 1
Result = FetchResponse.Response.Partition
MAX_WAIT_SECONDS = 30.0
TOP_ERROR_SINCE = 7
BY_ID_SINCE = 13
NO_REPLICA = -1
ANY_REPLICA_SINCE = 11  # with a rack, or without one
# Errors that tell the client something and leave the broker untroubled: Kafka does not count them as failed fetches.
NEWS = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)


@dataclass(slots=True, eq=False)
class Wanted:
    """One partition of a fetch, as asked for. A session keeps it, with what the client was told about it last."""

    topic: str
    topic_id: bytes
    part: FetchRequest.Topic.Partition
    is_by_id: bool
    partition: Partition | None = None
    was_here: bool = False
    """Whether the partition was found once; its topic may be gone by now."""
    told: tuple[int, int, int] | None = None
    only_leader: bool = False
    rack: str = ""
    """Where the client stands, if that decides which replica it reads from."""

    def find(self, broker: Broker) -> int:
        """Look the partition up, if that has not been done or it is gone; an error code when it is not here."""
        partition = self.partition
        if partition is not None and partition.is_hosted:
            return ErrorCode.NONE
        if self.is_by_id:
            known = broker.cluster.topic_by_id(self.topic_id)
            if known is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            self.topic = known.name
        self.partition = broker.replicas.partition(TopicPartition(self.topic, self.part.partition))
        if self.partition is None:
            return broker.missing_partition(TopicPartition(self.topic, self.part.partition))
        self.was_here = True
        return ErrorCode.NONE

    def is_quiet(self, isolation: Isolation) -> bool:
        """Whether there is nothing to read and nothing wrong: a consumer with a thousand partitions has news from a few."""
        partition, part = self.partition, self.part
        if partition is None or not partition.is_hosted:
            return False
        log = partition.log
        bound = log.high_watermark if isolation is Isolation.UNCOMMITTED else log.last_stable_offset
        epoch = part.current_leader_epoch
        return (
            part.fetch_offset == bound >= log.start_offset
            and (epoch < 0 or epoch == partition.leader_epoch)
            and not log.is_failed
            and (partition.is_solo or not partition.fault(only_leader=self.only_leader))
        )

    @property
    def key(self) -> Hashable:
        """What to wait for when there is not enough."""
        return TopicPartition(self.topic, self.part.partition) if self.partition is None else self.partition.committed_key


def handle(request: FetchRequest, context: Context) -> FetchResponse | Work[FetchResponse | None] | None:
    if is_follower(request):
        return context.broker.answer_follower(request, context)
    return consume(request, context)


def consume(request: FetchRequest, context: Context) -> Work[FetchResponse | None]:
    broker = context.broker
    session = yield from broker.fetch_sessions.opening(request, context.version, want)
    if session.error_code:
        return FetchResponse(error_code=session.error_code)
    wanted = session.wanted()
    if request.rack_id and broker.config.replica_selector_class is not None:
        for each in wanted:
            each.rack = request.rack_id
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    isolation = Isolation.COMMITTED if request.isolation_level == 1 else Isolation.UNCOMMITTED

    def reading() -> Work[list[Result | None]]:
        return read_all(wanted, broker, max_bytes, isolation, with_limits=context.version >= 3)

    def answering(results: Sequence[Result | None]) -> Work[FetchResponse]:
        yield from count(wanted, results)
        return (yield from session.answering(wanted, results, isolation))

    results = yield from reading()
    if request.max_wait_ms <= 0 or not wanted or is_enough(results, request.min_bytes):
        return (yield from answering(results))

    watched = {each.key: number for number, each in enumerate(wanted)}
    sizes = [size_of(result) for result in results]

    def try_complete(name: Hashable) -> bool:
        """Only one partition has changed: the others have what they had."""
        number = watched[name]
        result = read_one(wanted[number], broker, max_bytes, isolation, True)
        sizes[number] = size_of(result)
        return result.error_code != ErrorCode.NONE or sum(sizes) >= request.min_bytes

    def finishing() -> Work[None]:
        results = yield from reading()
        context.answer((yield from answering(results)))

    def complete() -> None:
        if context.is_connected:
            broker.dispatcher.slices.run(finishing(), context)

    guarded, seconds = context.guarded, min(request.max_wait_ms / 1000, MAX_WAIT_SECONDS)
    broker.replicas.purgatory.wait(list(watched), guarded(try_complete), guarded(complete), seconds)
    return None


def want(topic: FetchRequest.Topic, part: FetchRequest.Topic.Partition, version: int) -> Wanted:
    return Wanted(topic.topic, topic.topic_id, part, version >= BY_ID_SINCE, only_leader=version < ANY_REPLICA_SINCE)


def is_follower(request: FetchRequest) -> bool:
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def refuse_follower(request: FetchRequest, version: int) -> FetchResponse:
    """No other broker is part of a cluster of one. Old versions have no place for an error but the partitions."""
    if version >= TOP_ERROR_SINCE:
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = [want(topic, part, version) for topic in request.topics for part in topic.partitions]
    results = [refuse(each.part.partition, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) for each in wanted]
    return FetchResponse(responses=grouped(wanted, results))


def size_of(result: Result | None) -> int:
    return 0 if result is None else len(result.records or b"")


def is_enough(results: Sequence[Result | None], min_bytes: int) -> bool:
    news = [result for result in results if result is not None]
    is_news = any(result.error_code or result.preferred_read_replica >= 0 for result in news)
    return is_news or sum(map(size_of, news)) >= min_bytes


def read_all(
    wanted: Sequence[Wanted], broker: Broker, max_bytes: int, isolation: Isolation, with_limits: bool
) -> Work[list[Result | None]]:
    """None for a partition that has nothing: `empty` says the rest about it, if somebody wants to know."""
    left = max_bytes
    results: list[Result | None] = []
    must_have_one = with_limits
    for each in wanted:
        yield None
        if each.is_quiet(isolation):
            results.append(None)
            continue
        result = read_one(each, broker, left, isolation, must_have_one)
        size = size_of(result)
        if size:
            must_have_one = False
        left = max(0, left - size)
        results.append(result)
    return results


def read_one(want: Wanted, broker: Broker, left: int, isolation: Isolation, must_have_one: bool) -> Result:
    part = want.part
    error_code = want.find(broker)
    if error_code:
        return refuse(part.partition, error_code)
    partition = want.partition
    assert partition is not None, "it was found"
    error_code = partition.fault(only_leader=want.only_leader) or check_epoch(partition, part.current_leader_epoch)
    if error_code:
        return refuse(part.partition, error_code)
    log = partition.log
    nearer = broker.nearer_replica(partition, want.rack, part.fetch_offset) if want.rack else NO_REPLICA
    if nearer != NO_REPLICA:
        result = refuse(part.partition, ErrorCode.NONE, log.high_watermark, log.last_stable_offset, log.start_offset)
        result.preferred_read_replica = nearer
        return result
    try:
        fetched = log.read(part.fetch_offset, min(part.partition_max_bytes, left), isolation, must_have_one)
    except (MilepostError, OSError) as error:
        code = error.code if isinstance(error, MilepostError) else ErrorCode.KAFKA_STORAGE_ERROR
        return refuse(part.partition, code, log.high_watermark, log.last_stable_offset, log.start_offset)
    return Result(
        partition_index=part.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=aborted_list(fetched),
        records=fetched.records if fetched.records is not None and fetched.size else b"",
    )


def count(wanted: Sequence[Wanted], results: Sequence[Result | None]) -> Work[None]:
    """What goes out, in the metrics of the topics that are here."""
    for want, result in zip(wanted, results, strict=True):
        yield None
        if want.partition is not None:
            topic = want.partition.topic_metrics
            topic.fetch_requests += 1
            if result is not None:
                topic.bytes_out += size_of(result)
                topic.failed_fetch_requests += result.error_code not in NEWS


def aborted_list(fetched: FetchData) -> list[Result.AbortedTransaction] | None:
    if fetched.aborted is None:
        return None
    rows = sorted((aborted.first_offset, aborted.producer_id) for aborted in fetched.aborted)
    return [Result.AbortedTransaction(producer_id=producer_id, first_offset=first_offset) for first_offset, producer_id in rows]


def refuse(
    partition: int, error_code: int, high_watermark: int = -1, last_stable_offset: int = -1, start_offset: int = -1
) -> Result:
    return Result(
        partition_index=partition,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=start_offset,
        aborted_transactions=[],
        records=b"",
    )


def check_epoch(partition: Partition, epoch: int) -> int:
    if epoch < 0 or epoch == partition.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

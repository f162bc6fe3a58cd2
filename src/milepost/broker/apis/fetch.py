"""Fetch (key 1): batches from some partitions, now or as soon as there are enough.

The answer waits until `min_bytes` are there or `max_wait_ms` is over; an error, or nothing asked for, is answered at
once. The first partition with data gives at least one whole batch, however large. Records are not read here: the
answer holds stretches of log files that go from disk to socket.

From version 7 a client may keep a session and name only what changed; see `broker/fetch_sessions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.log.partition_name import TopicPartition
from milepost.log.reading import FetchData, Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.partition import Partition

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context

KEY = 1
Result = FetchResponse.Response.Partition
MAX_WAIT_SECONDS = 30.0


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch, as asked for."""

    topic: str
    topic_id: bytes
    part: FetchRequest.Topic.Partition
    error_code: int = ErrorCode.NONE


def handle(request: FetchRequest, context: Context) -> FetchResponse | None:
    broker = context.broker
    if is_follower(request):
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    session = broker.fetch_sessions.open(request, context.version)
    if session.error_code:
        return FetchResponse(error_code=session.error_code)
    wanted = resolve(session.topics(), broker, context.version)
    max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    isolation = Isolation.COMMITTED if request.isolation_level == 1 else Isolation.UNCOMMITTED

    def read() -> list[Result]:
        return read_all(wanted, broker, max_bytes, isolation, with_limits=context.version >= 3)

    def answer(results: Sequence[Result]) -> FetchResponse:
        return session.answer(wanted, results)

    results = read()
    if request.max_wait_ms <= 0 or not wanted or is_enough(results, request.min_bytes):
        return answer(results)

    latest = [results]

    def try_complete() -> bool:
        latest[0] = read()
        return is_enough(latest[0], request.min_bytes)

    def complete() -> None:
        if context.is_connected:
            context.answer(answer(latest[0]))

    names = [TopicPartition(want.topic, want.part.partition) for want in wanted]
    broker.replicas.purgatory.wait(names, try_complete, complete, min(request.max_wait_ms / 1000, MAX_WAIT_SECONDS))
    return None


def is_follower(request: FetchRequest) -> bool:
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def resolve(topics: Sequence[FetchRequest.Topic], broker: Broker, version: int) -> list[Wanted]:
    """Names for topic ids, and what cannot be found."""
    wanted = []
    for topic in topics:
        name, error_code = topic.topic, int(ErrorCode.NONE)
        if version >= 13:
            known = broker.cluster.topic_by_id(topic.topic_id)
            name, error_code = (known.name, error_code) if known else ("", ErrorCode.UNKNOWN_TOPIC_ID)
        wanted += [Wanted(name, topic.topic_id, part, error_code) for part in topic.partitions]
    return wanted


def is_enough(results: Sequence[Result], min_bytes: int) -> bool:
    return any(result.error_code for result in results) or sum(len(result.records or b"") for result in results) >= min_bytes


def read_all(wanted: Sequence[Wanted], broker: Broker, max_bytes: int, isolation: Isolation, with_limits: bool) -> list[Result]:
    left, results = max_bytes, []
    must_have_one = with_limits
    for want in wanted:
        result = read_one(want, broker, left, isolation, must_have_one)
        size = len(result.records or b"")
        if size:
            must_have_one = False
        left = max(0, left - size)
        results.append(result)
    return results


def read_one(want: Wanted, broker: Broker, left: int, isolation: Isolation, must_have_one: bool) -> Result:
    part = want.part
    partition = None if want.error_code else broker.replicas.partition(TopicPartition(want.topic, part.partition))
    if partition is None:
        return refuse(part.partition, want.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error_code = check_epoch(partition, part.current_leader_epoch)
    if error_code:
        return refuse(part.partition, error_code)
    log = partition.log
    try:
        fetched = log.read(part.fetch_offset, min(part.partition_max_bytes, left), isolation, must_have_one)
    except MilepostError as error:
        return refuse(part.partition, error.code, log.high_watermark, log.last_stable_offset, log.start_offset)
    return Result(
        partition_index=part.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=aborted_list(fetched),
        records=fetched.records if fetched.records is not None and fetched.size else b"",
    )


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

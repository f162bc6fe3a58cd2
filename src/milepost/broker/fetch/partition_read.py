"""One partition of a fetch: what is asked for, whether it may be read here, and what comes of it.

    found        a partition that is not here, is not led here, or is asked for in another leader epoch is answered with an error
    read         as many batches as the limits allow; the first partition with data gives at least one whole batch, however large
    counted      in the metrics of its topic

Few records are read here and go with the head of the answer. Of more, a result holds a stretch of a log file that goes from disk to socket.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from milepost.broker.fetch.interfaces import FetchBroker
from milepost.broker.slices import Work
from milepost.cluster.view import ClusterView
from milepost.errors import MilepostError
from milepost.log.cached_position import CachedPosition
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.partition import Partition
from milepost.segment.file_records import FileSlice
from milepost.topic_partition import TopicPartition

Result = FetchResponse.Response.Partition
MAX_WAIT_SECONDS = 30.0
SMALL = 16_384
BY_ID_SINCE = 13
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
ANY_REPLICA_SINCE = 11  # with a rack, or without one
# Expected errors, which are no trouble for the broker: Kafka does not count them as failed fetches.
EXPECTED_ERRORS = frozenset(
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
class FetchPartition:
    """One partition of a fetch, as asked for. A session keeps it, with what the client was sent about it last."""

    topic: str
    topic_id: bytes
    part: FetchRequest.Topic.Partition
    is_by_id: bool
    partition: Partition | None = None
    was_here: bool = False
    """Whether the partition was found once; its topic may be gone by now."""
    last_sent: tuple[int, int, int] | None = None
    cached_position: CachedPosition | None = None
    """Where a consumer's last read of it was."""
    only_leader: bool = False
    rack: str = ""
    """Where the client stands, if that decides which replica it reads from."""
    is_denied: bool = False
    """Whether the client may not read it, by the rules of when it was asked for last."""

    def name_in(self, cluster: ClusterView) -> str | None:
        """Of its topic; None for an id that is not known."""
        return cluster.name_of(self.topic_id) if self.is_by_id else self.topic

    def find(self, broker: FetchBroker) -> int:
        """Look the partition up, if that has not been done or it is gone; an error code when it is not here."""
        partition = self.partition
        if partition is not None and partition.is_online:
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

    def is_caught_up(self, isolation: Isolation) -> bool:
        """Whether there is nothing to read and nothing wrong: a consumer with a thousand partitions has news from a few."""
        partition, part = self.partition, self.part
        if partition is None or not partition.is_online:
            return False
        log = partition.log
        bound = log.high_watermark if isolation is Isolation.UNCOMMITTED else log.last_stable_offset
        epoch = part.current_leader_epoch
        return (
            part.fetch_offset == bound >= log.start_offset
            and (epoch < 0 or epoch == partition.leader_epoch)
            and not log.is_failed
            and (partition.has_one_replica or not partition.unavailable_error(only_leader=self.only_leader))
        )

    @property
    def key(self) -> Hashable:
        """What to wait for when there is not enough."""
        return TopicPartition(self.topic, self.part.partition) if self.partition is None else self.partition.committed_key


def fetch_partition(topic: FetchRequest.Topic, part: FetchRequest.Topic.Partition, version: int) -> FetchPartition:
    return FetchPartition(topic.topic, topic.topic_id, part, version >= BY_ID_SINCE, only_leader=version < ANY_REPLICA_SINCE)


def size_of(result: Result | None) -> int:
    return 0 if result is None else len(result.records or b"")


def is_enough(results: Sequence[Result | None], min_bytes: int) -> bool:
    size = 0
    for result in results:
        if result is not None:
            if result.error_code or result.preferred_read_replica >= 0:
                return True
            size += size_of(result)
    return size >= min_bytes


class PartitionReader(ABC):
    """Reads partitions for one client, a consumer or a follower: the same limits, errors and counts for both."""

    def __init__(self, broker: FetchBroker, max_bytes: int, isolation: Isolation, *, gives_one: bool = True):
        self.broker = broker
        self.isolation = isolation
        self._max_bytes = max_bytes
        self._gives_one = gives_one
        """Whether the first batch is given whole, however large it is."""

    @property
    def max_bytes(self) -> int:
        return min(self._max_bytes, self.broker.config.fetch_max_bytes)

    def reading(self, partitions: Sequence[FetchPartition]) -> Work[list[Result | None]]:
        """None for a partition that has nothing: `empty` says the rest about it, if it has to be said."""
        left, must_have_one = self.max_bytes, self._gives_one
        results: list[Result | None] = []
        for each in partitions:
            yield None
            result = self.read(each, left, must_have_one)
            size = 0 if result is None else size_of(result)
            if size:
                must_have_one = False
                left = max(0, left - size)
            results.append(result)
        return results

    def read(self, each: FetchPartition, left: int, must_have_one: bool) -> Result | None:
        """None where there is nothing to read and nothing wrong."""
        part = each.part
        error_code = each.find(self.broker)
        if error_code:
            return refuse(part.partition, error_code)
        partition = each.partition
        assert partition is not None, "it was found"
        error_code = partition.unavailable_error(only_leader=each.only_leader) or check_epoch(
            partition, part.current_leader_epoch
        )
        if error_code:
            return refuse(part.partition, error_code)
        result = self.check(each, partition)
        if result is not None:
            return result
        try:
            return self.read_log(each, partition, min(part.partition_max_bytes, left), must_have_one)
        except (MilepostError, OSError) as error:
            return refuse_read(part.partition, error.code if isinstance(error, MilepostError) else STORAGE_ERROR, partition.log)

    @abstractmethod
    def check(self, each: FetchPartition, partition: Partition) -> Result | None:
        """What there is to say instead of records about a partition that is led here, in the epoch asked for."""

    @abstractmethod
    def read_log(self, each: FetchPartition, partition: Partition, limit: int, must_have_one: bool) -> Result | None:
        """The records. An error of ours or of the disk becomes the error code of the partition."""

    def counting(self, partitions: Sequence[FetchPartition], results: Sequence[Result | None]) -> Work[None]:
        """What goes out, in the metrics of the topics that are here."""
        for each, result in zip(partitions, results, strict=True):
            yield None
            if each.partition is not None:
                topic = each.partition.topic_metrics
                topic.fetch_requests += 1
                if result is not None:
                    topic.failed_fetch_requests += result.error_code not in EXPECTED_ERRORS
                    if result.records:
                        self.count_bytes(each.partition, len(result.records))

    @abstractmethod
    def count_bytes(self, partition: Partition, size: int) -> None: ...


def loaded(found: FileSlice) -> FileSlice | bytes:
    """Few records cost less as bytes, and if they cannot be read, it is said of their partition and ends no connection."""
    return found.read() if found.size <= SMALL else found


def is_diverging(result: Result | None) -> bool:
    return result is not None and result.diverging_epoch is not None and result.diverging_epoch.end_offset >= 0


def offsets_of(each: FetchPartition) -> tuple[int, int, int]:
    """What the client is to know of a partition besides its records."""
    assert each.partition is not None, "a partition that has nothing to read is there"
    log = each.partition.log
    return log.high_watermark, log.last_stable_offset, log.start_offset


def empty(each: FetchPartition, isolation: Isolation) -> Result:
    """The result of a partition that has nothing to read."""
    high_watermark, last_stable_offset, start_offset = offsets_of(each)
    return FetchResponse.Response.Partition(
        partition_index=each.part.partition,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=start_offset,
        aborted_transactions=[] if isolation is Isolation.COMMITTED else None,
        records=b"",
    )


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


def refuse_read(partition: int, error_code: int, log: Log) -> Result:
    """The error, and which offsets there are."""
    return refuse(partition, error_code, log.high_watermark, log.last_stable_offset, log.start_offset)


def check_epoch(partition: Partition, epoch: int) -> int:
    if epoch < 0 or epoch == partition.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

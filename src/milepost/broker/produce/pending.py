"""Kafka's DelayedProduce: a produce request that was appended, until it may be answered.

    1  acks=all   until all in-sync replicas have what was appended, or the time that the request gave is over (REQUEST_TIMED_OUT)
    2  fsync      until what topics with `flush.messages` got is durable; or its log has failed (KAFKA_STORAGE_ERROR)
    3  answer     with the error code of each partition that did not make it

What needs no waiting is answered before `wait` returns. An exception in the answer is handled as in a handler, no matter what completes the
wait: another client's request, a fetch of a follower, a timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from milepost.net.request import Request
    from milepost.replica.manager import ReplicaManager
    from milepost.replica.partition import Partition
    from milepost.topic_partition import TopicPartition


def has_to_wait(replicas: ReplicaManager, appended: Iterable[Partition], for_all: bool) -> bool:
    """Whether a request whose batches these took may have to wait; `for_all`: for the in-sync replicas too."""
    return bool(replicas.unflushed) or (for_all and any(partition.has_followers for partition in appended))


class PendingProduce:
    __slots__ = ("_answer", "_appended", "_errors", "_failed", "_replicas", "_request", "_unflushed")

    def __init__(
        self,
        request: Request,
        replicas: ReplicaManager,
        appended: Sequence[tuple[Partition, int]],
        answer: Callable[[dict[TopicPartition, int]], object],
        failed: Callable[[], object],
    ):
        """`appended`: the partitions, and where what they got ends. `answer` is called once, with the codes of those partitions that are
        not to be acknowledged. `failed` is called inside of the `except` when that raises something."""
        self._request = request
        self._replicas = replicas
        self._appended = appended
        self._answer = answer
        self._failed = failed
        self._errors: dict[TopicPartition, int] = {}
        self._unflushed: list[Partition] = []

    def wait(self, for_all: bool, seconds: float) -> None:
        """`for_all`: for the in-sync replicas, at most so many seconds."""
        if not for_all:
            self._replicated(self._errors)
            return
        self._replicas.when_committed(self._appended, seconds, self._replicated)
        # What follows on the connection need not wait: batches that were sent ahead are replicated together.
        self._request.read_ahead()

    def _replicated(self, codes: dict[TopicPartition, int]) -> None:
        self._errors = {name: code for name, code in codes.items() if code}
        unflushed = self._replicas.unflushed
        if unflushed:
            self._unflushed = [each for each, _ in self._appended if each in unflushed and each.name not in self._errors]
        if self._unflushed:
            self._replicas.when_durable(self._unflushed, self._flushed)
        else:
            self._finish()

    def _flushed(self) -> None:
        for partition in self._unflushed:
            if partition.log.is_failed:
                self._errors[partition.name] = ErrorCode.KAFKA_STORAGE_ERROR
        self._finish()

    def _finish(self) -> None:
        if not self._request.channel.is_open:
            return
        try:
            self._answer(self._errors)
        except Exception:
            self._failed()

"""Responses to what `frames` has handled, where that takes more than filling in numbers.

`frames` writes each answer as if every partition had taken its batch. Where one has not, or waits, that answer is decoded again, and the
encoder of messages writes what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from milepost.broker.produce.partition_answers import (
    NOT_ANSWERED,
    PartitionResponse,
    missing_partition,
    refused_partition,
    unacknowledged,
)
from milepost.broker.produce.pending import PendingProduce, has_to_wait
from milepost.broker.response_errors import count_errors
from milepost.errors import MilepostError
from milepost.frozen_dataclass import frozen_dataclass
from milepost.protocol import frames
from milepost.protocol.apis import BY_KEY, PRODUCE

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.log.append_info import AppendInfo
    from milepost.net.request import Request
    from milepost.net.request_metrics import RequestMeter
    from milepost.protocol.error_codes import ErrorCode
    from milepost.replica.partition import Partition
    from milepost.topic_partition import TopicPartition

ALL = -1
Failed = Callable[["Request", str], object]
"""Called inside of the `except` with a request and what it was: it ends as in its handler."""


@frozen_dataclass
class Answering:
    """What all answers of one version need."""

    broker: Parts
    meter: RequestMeter
    failed: Failed

    def give_up(self, request: Request) -> None:
        self.failed(request, f"{BY_KEY[PRODUCE].name} {self.meter.version}")


class FrameAnswer:
    """The answer to one request."""

    __slots__ = ("_acks", "_answering", "_appended", "_encoded", "_has_to_wait", "_partitions", "_refused", "_seconds", "size")

    def __init__(
        self,
        answering: Answering,
        size: int,
        acks: int,
        timeout_ms: int,
        partitions: Sequence[Partition],
        outcomes: Sequence[AppendInfo | MilepostError | None],
        encoded: bytes,
    ):
        """`partitions`: what the request names, in its order; `outcomes`: what became of each, None if it is not here any more. `encoded`:
        the answer if all of them took their batches."""
        self._answering = answering
        self.size = size
        self._acks = acks
        self._seconds = timeout_ms / 1000
        self._partitions = partitions
        self._encoded = encoded
        self._appended: list[tuple[Partition, int]] = []
        self._refused: dict[int, PartitionResponse] = {}
        for place, (partition, outcome) in enumerate(zip(partitions, outcomes, strict=True)):
            if outcome is None:
                self._refused[place] = missing_partition(partition.name, answering.broker)
            elif isinstance(outcome, MilepostError):
                self._refused[place] = refused_partition(partition.name.partition, outcome)
            else:
                self._appended.append((partition, outcome.last_offset + 1))
        self._has_to_wait = has_to_wait(answering.broker.replicas, [partition for partition, _ in self._appended], acks == ALL)

    @property
    def is_last(self) -> bool:
        """Whether it has to be answered by itself."""
        return bool(self._refused) if self._acks == 0 else self._has_to_wait

    def counted(self) -> bytes:
        """The frame that is to be sent, with its error codes counted."""
        return self._with_errors({})

    def finish(self, request: Request) -> None:
        request.meter = self._answering.meter
        try:
            if self._acks == 0:
                self._finish_silently(request)
            elif self._has_to_wait:
                self._wait(request)
            else:
                request.send((self.counted(),))
        except Exception:
            self._answering.give_up(request)

    def _finish_silently(self, request: Request) -> None:
        if self._refused:
            request.close(NOT_ANSWERED.format(next(iter(self._refused.values())).error_code))
        else:
            request.no_response()

    def _wait(self, request: Request) -> None:
        pending = PendingProduce(
            request,
            self._answering.broker.replicas,
            self._appended,
            lambda errors: request.send((self._with_errors(errors),)),
            lambda: self._answering.give_up(request),
        )
        pending.wait(self._acks == ALL, self._seconds)
        if not request.answered_at:
            request.handled_at = self._answering.broker.loop.monotonic()  # the rest is waiting

    def _with_errors(self, errors: Mapping[TopicPartition, ErrorCode | int]) -> bytes:
        """`errors`: why partitions that took their batch do not acknowledge it."""
        if not errors and not self._refused:
            self._answering.meter.successes += len(self._partitions)
            return self._encoded
        meter = self._answering.meter
        correlation_id, response = frames.decode_response(PRODUCE, meter.version, self._encoded[4:])
        place = 0
        for topic in response.responses:
            told: list[PartitionResponse] = []
            for part in topic.partition_responses:
                code = errors.get(self._partitions[place].name, 0)
                told.append(self._refused.get(place) or (unacknowledged(part, code) if code else part))
                place += 1
            topic.partition_responses = told
        count_errors(response, meter.errors)
        return frames.encode_response(PRODUCE, meter.version, correlation_id, response)


class FailedFrame:
    """A request whose handling raised what it should not."""

    __slots__ = ("_answering", "_error", "size")

    def __init__(self, answering: Answering, size: int, error: Exception):
        self._answering = answering
        self.size = size
        self._error = error

    def finish(self, request: Request) -> None:
        request.meter = self._answering.meter
        try:
            raise self._error
        except Exception:
            self._answering.give_up(request)

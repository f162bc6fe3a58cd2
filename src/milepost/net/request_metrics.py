"""What requests cost, by API: how many, of which version, with which errors, and how long each part of their way took.

    RequestQueueTimeMs     received -> taken by a handler
    LocalTimeMs            taken -> handled; for most requests that is when they are answered
    RemoteTimeMs           handled -> answered: waiting for data or for others
    ResponseQueueTimeMs    answered -> taken by the processor
    ResponseSendTimeMs     taken -> the last byte given to the kernel
    TotalTimeMs            received -> the last byte given to the kernel
    ThrottleTimeMs         how long the connection stays unread for its quota

Requests are counted one by one. Measured is each of an API that is asked now and then; of one that is asked hundreds of times
a second one request stands for up to sixteen, and so costs next to nothing. Those that took long are always measured.

A fetch counts as `Fetch`, and as `FetchConsumer` or `FetchFollower`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import sub
from typing import Protocol

from milepost.metrics.histogram import Histogram
from milepost.metrics.names import Kind, MetricName
from milepost.metrics.registry import Registry, Sample
from milepost.protocol.error_codes import ErrorCode

MOST_WAITING = 1024
MEASURED_PER_SECOND = 250
MOST_STANDS_FOR = 16
LONG_SECONDS = 0.001
# Attribute of RequestMetrics -> what it says.
TIMES = {
    "RequestQueueTimeMs": "Time a request waited for a handler",
    "LocalTimeMs": "Time a request was handled",
    "RemoteTimeMs": "Time a request waited for data or for other replicas",
    "ThrottleTimeMs": "Time a connection stayed unread because of a quota",
    "ResponseQueueTimeMs": "Time an answer waited for its processor",
    "ResponseSendTimeMs": "Time it took to send an answer",
    "TotalTimeMs": "Time from receiving a request to having sent its answer",
}


class MeasuredRequest(Protocol):
    """The stamps of a request, in the order in which it gets them, and its size."""

    received_at: float
    dequeued_at: float
    handled_at: float
    answered_at: float
    taken_at: float
    size: int
    throttle_seconds: float


class RequestMetrics:
    """The requests of one name: all of an API, or those of consumers."""

    def __init__(self, name: str):
        self.name = name
        self.times = {time: Histogram(scale=1000.0) for time in TIMES}
        self.sizes = Histogram()


class RequestMeter:
    """The requests of one API in one version: what a request carries, to be counted when its answer has gone."""

    __slots__ = (
        "_lock",
        "_measured",
        "_monotonic",
        "_settled_at",
        "_stands_for",
        "_uncounted",
        "errors",
        "groups",
        "settled",
        "successes",
        "version",
    )

    def __init__(self, version: int, groups: tuple[RequestMetrics, ...], monotonic: Callable[[], float] = time.monotonic):
        self.version = version
        self.groups = groups
        self.settled = 0
        # Error codes in answers. Where there is only one code and it is known to be 0, counting `successes` is cheaper.
        self.errors: Counter[int] = Counter()
        self.successes = 0
        self._monotonic = monotonic
        self._uncounted = 0
        self._stands_for = 1
        self._settled_at = monotonic()
        self._measured: list[tuple[int, float, float, float, float, float, float, int]] = []
        self._lock = threading.Lock()

    def count(self, request: MeasuredRequest, sent_at: float) -> None:
        """The answer has gone. Runs for every request: what it costs, everybody pays."""
        self._uncounted = uncounted = self._uncounted + 1
        if uncounted >= self._stands_for:
            self._uncounted = 0
            self._measure(request, sent_at, uncounted)
        elif request.answered_at - request.received_at > LONG_SECONDS:
            self._uncounted = uncounted - 1
            self._measure(request, sent_at, 1)

    def count_pipelined(self, count: int, size: int, received_at: float, handled_at: float, sent_at: float) -> None:
        """The answers to several requests of `size` bytes in all have gone, which were handled in one go."""
        stands_for = count
        if handled_at - received_at <= LONG_SECONDS:
            stands_for += self._uncounted
            if stands_for < self._stands_for:
                self._uncounted = stands_for
                return
            self._uncounted = 0
        handled = received_at + (handled_at - received_at) / count
        self._measured.append((stands_for, received_at, received_at, handled, handled, handled, sent_at, size // count))
        if len(self._measured) >= MOST_WAITING:
            self.settle()

    def _measure(self, request: MeasuredRequest, sent_at: float, stands_for: int) -> None:
        self._measured.append(
            (
                stands_for,
                request.received_at,
                request.dequeued_at,
                request.handled_at or request.answered_at,
                request.answered_at,
                request.taken_at,
                sent_at,
                request.size,
            )
        )
        if request.throttle_seconds:
            for group in self.groups:
                group.times["ThrottleTimeMs"].add(request.throttle_seconds)
        if len(self._measured) >= MOST_WAITING:
            self.settle()

    def settle(self) -> None:
        """Put what was measured into the histograms, and decide how much to measure next."""
        with self._lock:
            measured, self._measured = self._measured, []
            if not measured:
                return
            now = self._monotonic()
            elapsed, self._settled_at = now - self._settled_at, now
            weights, received, dequeued, handled, answered, taken, sent, sizes = zip(*measured, strict=True)
            count = sum(weights)
            self.settled += count
            if elapsed > 0:
                self._stands_for = max(1, min(MOST_STANDS_FOR, int(count / elapsed / MEASURED_PER_SECOND)))
            parts = {
                "RequestQueueTimeMs": list(map(sub, dequeued, received)),
                "LocalTimeMs": list(map(sub, handled, dequeued)),
                "RemoteTimeMs": list(map(sub, answered, handled)),
                "ResponseQueueTimeMs": list(map(sub, taken, answered)),
                "ResponseSendTimeMs": list(map(sub, sent, taken)),
                "TotalTimeMs": list(map(sub, sent, received)),
            }
            for group in self.groups:
                for part, values in parts.items():
                    group.times[part].add_all(values, weights)
                group.sizes.add_all(sizes, weights)

    @property
    def requests(self) -> int:
        """How many there were."""
        return self.settled + self._uncounted + sum(measured[0] for measured in self._measured)


class RequestMetricsTable:
    """The meters of one server."""

    def __init__(self) -> None:
        self._groups: dict[str, RequestMetrics] = {}
        self._meters: dict[tuple[str, int], RequestMeter] = {}

    def meter(self, name: str, version: int, *also: str) -> RequestMeter:
        """The meter of an API's requests in one version, which count under other names as well."""
        key = (also[0] if also else name, version)
        meter = self._meters.get(key)
        if meter is None:
            groups = tuple(self._groups.setdefault(each, RequestMetrics(each)) for each in (name, *also))
            meter = self._meters[key] = RequestMeter(version, groups)
        return meter

    def register(self, registry: Registry) -> None:
        def name(metric: str) -> MetricName:
            return MetricName("kafka.network", "RequestMetrics", metric)

        registry.add(name("RequestsPerSec"), Kind.COUNTER, "Requests that were answered", self._requests)
        registry.add(name("ErrorsPerSec"), Kind.COUNTER, "Error codes in answers, 0 (NONE) among them", self._errors)
        registry.add(name("RequestBytes"), Kind.SUMMARY, "Size of requests", self._sizes)
        for part, help in TIMES.items():
            registry.add(name(part), Kind.SUMMARY, f"{help}, in milliseconds", lambda part=part: self._times(part))  # type: ignore[misc]

    def _requests(self) -> Iterator[Sample]:
        counts: Counter[tuple[str, int]] = Counter()
        for meter in list(self._meters.values()):
            for group in meter.groups:
                counts[group.name, meter.version] += meter.requests
        for (name, version), count in sorted(counts.items()):
            yield (("request", name), ("version", str(version))), count

    def _errors(self) -> Iterator[Sample]:
        counts: Counter[tuple[str, int]] = Counter()
        for meter in list(self._meters.values()):
            for group in meter.groups:
                counts.update({(group.name, code): count for code, count in meter.errors.items()})
                if meter.successes:
                    counts[group.name, 0] += meter.successes
        for (name, code), count in sorted(counts.items()):
            yield (("request", name), ("error", error_name(code))), count

    def _sizes(self) -> Iterator[Sample]:
        for group in self._settled():
            yield (("request", group.name),), group.sizes

    def _times(self, part: str) -> Iterator[Sample]:
        for group in self._settled():
            yield (("request", group.name),), group.times[part]

    def _settled(self) -> Iterable[RequestMetrics]:
        for meter in list(self._meters.values()):
            meter.settle()
        return list(self._groups.values())


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# For requests of unknown APIs.
UNNAMED = RequestMeter(-1, ())

"""What can be asked of a process: metrics by name, each with a function that gives its values when somebody asks.

Whoever counts keeps the numbers in plain attributes, where counting is cheapest; nothing is computed until a metric is
read. A metric with labels (topic, partition, request) gives one value for each set of them, and whatever no longer exists is
simply not given any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from milepost.errors import InvalidArgument
from milepost.frozen_dataclass import frozen_dataclass
from milepost.metrics.histogram import Histogram
from milepost.metrics.names import Kind, MetricName

Labels = tuple[tuple[str, str], ...]
Value = float | Histogram
Sample = tuple[Labels, Value]
NO_LABELS: Labels = ()


@frozen_dataclass
class Metric:
    name: MetricName
    kind: Kind
    help: str
    samples: Callable[[], Iterable[Sample]]


class Registry:
    def __init__(self) -> None:
        self._metrics: dict[MetricName, Metric] = {}

    def __iter__(self) -> Iterator[Metric]:
        return iter(list(self._metrics.values()))

    def add(self, name: MetricName, kind: Kind, help: str, samples: Callable[[], Iterable[Sample]]) -> None:
        if name in self._metrics:
            raise InvalidArgument(f"{name.domain}:type={name.type},name={name.name} is registered already")
        self._metrics[name] = Metric(name, kind, help, samples)

    def counter(self, name: MetricName, help: str, count: Callable[[], float]) -> None:
        """A number that only grows."""
        self.add(name, Kind.COUNTER, help, lambda: ((NO_LABELS, count()),))

    def gauge(self, name: MetricName, help: str, value: Callable[[], float]) -> None:
        """A number as it is now."""
        self.add(name, Kind.GAUGE, help, lambda: ((NO_LABELS, value()),))

    def summary(self, name: MetricName, help: str, histogram: Histogram) -> None:
        self.add(name, Kind.SUMMARY, help, lambda: ((NO_LABELS, histogram),))

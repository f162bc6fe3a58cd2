"""How long elections take, as Kafka counts it: the time of each change of brokers, from its turn in the controller's queue to its end.

It outlives a term: a broker that is controller again goes on counting.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.cluster.zookeeper.session import Steps
from milepost.metrics.histogram import Histogram


class ElectionTimes:
    def __init__(self, monotonic: Callable[[], float]):
        self.histogram = Histogram(scale=1000, monotonic=monotonic)
        self._monotonic = monotonic

    def of(self, change: Steps[None]) -> Steps[None]:
        began = self._monotonic()
        yield from change
        self.histogram.add(self._monotonic() - began)

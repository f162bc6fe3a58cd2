"""Producer state and transactions read from a list of batches, from the first to the last: the plain way, for comparison.

It is written from the rules (storage: five batches per producer and epoch, a marker ends a transaction, the last
stable offset is the first offset of the oldest open transaction), and shares nothing with `milepost.log`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.crash.history import Facts

WINDOW = 5


@dataclass(slots=True)
class ProducerFacts:
    epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    open_from: int | None = None
    batches: list[Facts] = field(default_factory=list)

    def comparable(self) -> tuple[object, ...]:
        window = tuple((batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset) for batch in self.batches)
        return (self.epoch, self.coordinator_epoch, self.last_timestamp, self.open_from, window)


@dataclass(slots=True)
class Replay:
    producers: dict[int, ProducerFacts] = field(default_factory=dict)
    aborted: list[tuple[int, int, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, batches: Iterable[Facts]) -> Replay:
        replay = cls()
        for batch in batches:
            # A control batch without records is what the cleaner leaves of a marker: it says nothing any more.
            if batch.producer_id >= 0 and (batch.marker or not batch.is_control):
                replay.add(batch)
        return replay

    def add(self, batch: Facts) -> None:
        producer = self.producers.setdefault(batch.producer_id, ProducerFacts())
        if batch.producer_epoch != producer.epoch:
            producer.epoch = batch.producer_epoch
            producer.batches = []
        producer.last_timestamp = batch.max_timestamp
        if batch.marker:
            self._end(producer, batch)
            return
        producer.batches = [*producer.batches, batch][-WINDOW:]
        if batch.is_transactional and producer.open_from is None:
            producer.open_from = batch.base_offset

    def _end(self, producer: ProducerFacts, batch: Facts) -> None:
        producer.coordinator_epoch = batch.coordinator_epoch
        first, producer.open_from = producer.open_from, None
        if first is not None and batch.marker == "ABORT":
            stable = self.first_open(batch.last_offset + 1)
            self.aborted.append((batch.producer_id, first, batch.last_offset, stable))

    def first_open(self, otherwise: int) -> int:
        return min(
            (producer.open_from for producer in self.producers.values() if producer.open_from is not None), default=otherwise
        )

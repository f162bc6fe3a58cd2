"""A transaction coordinator with nothing behind it: a log in memory, timers that are moved by hand, markers that are written down."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from milepost.clock import ManualClock
from milepost.coordinator.transactions.pending_markers import Markers
from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_coordinator import ProducerAnswer, TransactionCoordinator
from milepost.coordinator.transactions.transaction_settings import TransactionSettings
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batches import AnyBatch, iter_batches
from milepost.record.builder import build_batch
from milepost.record.internal_topics import transaction_state
from milepost.record.internal_topics.transaction_state import TransactionLogKey, TransactionLogValue
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
START_MS = 1_700_000_000_000


class MemoryLog:
    """`held` keeps appends back until they are released; `error` refuses them."""

    partition_count = 50

    def __init__(self) -> None:
        self.partitions: dict[int, list[bytes]] = {}
        self.error = 0
        self.is_holding = False
        self.held: list[Callable[[], None]] = []

    def append(self, partition: int, records: Sequence[Record], done: Callable[[int], None]) -> None:
        def commit() -> None:
            if not self.error:
                numbered = [Record(offset, r.timestamp, r.key, r.value) for offset, r in enumerate(records)]
                self.partitions.setdefault(partition, []).append(build_batch(numbered, base_offset=0))
            done(self.error)

        if self.is_holding:
            self.held.append(commit)
        else:
            commit()

    def append_batch(self, *_: object) -> None:
        raise AssertionError("the transaction coordinator writes record by record")

    def largest_batch(self, partition: int) -> int:
        return 1 << 20

    def release(self) -> None:
        held, self.held = self.held, []
        for commit in held:
            commit()

    def batches(self, partition: int) -> Iterator[AnyBatch]:
        for data in self.partitions.get(partition, ()):
            yield from iter_batches(data)

    def values(self, transactional_id: str) -> list[TransactionLogValue | None]:
        """All that was ever written about an id."""
        found: list[TransactionLogValue | None] = []
        for partition in sorted(self.partitions):
            for batch in self.batches(partition):
                for record in batch.records():
                    key = transaction_state.decode_key(record.key or b"")
                    if key == TransactionLogKey(transactional_id):
                        value = transaction_state.decode_value(key, record.value)
                        assert value is None or isinstance(value, TransactionLogValue)
                        found.append(value)
        return found

    def states(self, transactional_id: str) -> list[tuple[str, int]]:
        """State and epoch of each record."""
        return [
            ("gone", -1) if value is None else (transaction_state.state_name(value.transaction_status), value.producer_epoch)
            for value in self.values(transactional_id)
        ]


class ManualTimers:
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._order = itertools.count()

    def later(self, seconds: float, task: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(task)
        self._timers.append((self._clock.now_ms() + round(seconds * 1000), next(self._order), timer))
        return timer

    def advance(self, milliseconds: int) -> None:
        until = self._clock.now_ms() + milliseconds
        while self._timers and min(self._timers)[0] <= until:
            first = min(self._timers, key=lambda entry: entry[:2])
            self._timers.remove(first)
            self._clock.advance(max(0, first[0] - self._clock.now_ms()))
            if first[2].task is not None:
                first[2].task()
        self._clock.advance(until - self._clock.now_ms())


class ManualTimer:
    def __init__(self, task: Callable[[], None]) -> None:
        self.task: Callable[[], None] | None = task

    def cancel(self) -> None:
        self.task = None

    def __lt__(self, other: ManualTimer) -> bool:
        return False


@dataclass(frozen=True)
class Marker:
    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int = 0


@dataclass
class WrittenMarkers:
    """`errors` is what partitions answer; while `is_holding`, nobody answers."""

    written: list[Marker] = field(default_factory=list)
    errors: dict[TopicPartition, int] = field(default_factory=dict)
    is_holding: bool = False
    held: list[Callable[[], None]] = field(default_factory=list)

    def write(self, markers: Markers, done: Callable[[dict[TopicPartition, int]], None]) -> None:
        def commit() -> None:
            answers = {name: self.errors.get(name, 0) for name in markers.partitions}
            self.written += [Marker(name, *markers[1:]) for name, error in answers.items() if not error]
            done(answers)

        if self.is_holding:
            self.held.append(commit)
        else:
            commit()

    def release(self) -> None:
        held, self.held = self.held, []
        for commit in held:
            commit()


class Bench:
    """The coordinator with all that it needs, and its requests as plain calls."""

    def __init__(self, settings: TransactionSettings | None = None, first_producer_id: int = 1000) -> None:
        self.clock = ManualClock(START_MS)
        self.timers = ManualTimers(self.clock)
        self.log = MemoryLog()
        self.markers = WrittenMarkers()
        self.settings = settings or TransactionSettings()
        self.producer_ids = itertools.count(first_producer_id)
        self.start()

    def start(self) -> None:
        """Also what a restart does after kill -9: everything but the log is gone."""
        self.coordinator = TransactionCoordinator(
            self.log, self.timers, self.clock, self.markers.write, lambda: next(self.producer_ids), self.settings
        )
        for partition in range(self.log.partition_count):
            self.coordinator.load(partition)
        self.coordinator.start()

    def restart(self) -> None:
        self.coordinator.close()
        self.markers.is_holding = False
        self.markers.held.clear()
        self.start()

    def init(
        self, transactional_id: str | None = "tx", timeout_ms: int = 60_000, known: Producer | None = None
    ) -> ProducerAnswer:
        return self._one(lambda answer: self.coordinator.init_producer_id(transactional_id, timeout_ms, known, answer))

    def producer(self, transactional_id: str = "tx", timeout_ms: int = 60_000) -> Producer:
        answer = self.init(transactional_id, timeout_ms)
        assert answer.error == ErrorCode.NONE
        return answer.producer

    def add(self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "tx", version: int = 0) -> ErrorCode:
        return self._one(lambda answer: self.coordinator.add_partitions(transactional_id, producer, partitions, answer, version))

    def end(self, producer: Producer, committed: bool = True, transactional_id: str = "tx", version: int = 0) -> ProducerAnswer:
        return self._one(lambda answer: self.coordinator.end(transactional_id, producer, committed, answer, version))

    def state(self, transactional_id: str = "tx") -> str:
        found = self.coordinator.describe(transactional_id)
        return found.name if isinstance(found, ErrorCode) else found.state.kafka_name

    @staticmethod
    def _one(call: Callable[[Callable[[object], None]], None]):  # type: ignore[no-untyped-def]
        answers: list[object] = []
        call(answers.append)
        assert len(answers) == 1, f"{len(answers)} answers"
        return answers[0]

"""What lies around a group coordinator, in memory: its log, timers, topics and transactions."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from milepost.clock import ManualClock
from milepost.coordinator.transactions.transaction import Producer
from milepost.log.producer_state.verification import VerificationGuard
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batches import AnyBatch, batch_at
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.internal_topics import consumer_offsets
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition

START_MS = 1_700_000_000_000


class MemoryLog:
    """`is_holding` keeps appends back until `release`; `error` refuses them."""

    def __init__(self, partition_count: int = 50) -> None:
        self.partition_count = partition_count
        self.partitions: dict[int, list[bytes]] = {}
        self.error = 0
        self.is_holding = False
        self.held: list[Callable[[], None]] = []

    def append(self, partition: int, records: Sequence[Record], done: Callable[[int], None]) -> None:
        self._append(partition, lambda start: build_batch(numbered(records, start)), done)

    def append_batch(self, partition: int, batch: bytes, done: Callable[[int], None], guard: object = None) -> None:
        self._append(partition, lambda start: struct.pack(">q", start) + batch[8:], done)

    def largest_batch(self, partition: int) -> int:
        return 1 << 20

    def start_verification(self, partition: int, producer: Producer) -> VerificationGuard:
        return VerificationGuard()

    def end_verification(self, partition: int, producer: Producer, guard: VerificationGuard) -> None: ...

    def append_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        marker = EndTransactionMarker(ControlType.COMMIT if committed else ControlType.ABORT, 0)
        start = self.end_of(partition)
        data = end_transaction_batch(marker, offset=start, timestamp=START_MS, producer_id=producer_id, producer_epoch=0)
        self.partitions.setdefault(partition, []).append(data)

    def _append(self, partition: int, build: Callable[[int], bytes], done: Callable[[int], None]) -> None:
        def commit() -> None:
            if not self.error:
                self.partitions.setdefault(partition, []).append(build(self.end_of(partition)))
            done(self.error)

        if self.is_holding:
            self.held.append(commit)
        else:
            commit()

    def end_of(self, partition: int) -> int:
        batches = self.partitions.get(partition)
        return batch_at(batches[-1], 0).next_offset if batches else 0

    def release(self) -> None:
        held, self.held = self.held, []
        for commit in held:
            commit()

    def batches(self, partition: int) -> Iterator[AnyBatch]:
        for data in list(self.partitions.get(partition, ())):
            yield batch_at(data, 0)

    def written(self) -> list[tuple[str, str]]:
        """Keys and values of everything, as Kafka's dump tool shows them."""
        found = []
        for partition in sorted(self.partitions):
            for batch in self.batches(partition):
                for record in batch.records():
                    if not batch.is_control:
                        key = consumer_offsets.decode_key(record.key or b"")
                        value = consumer_offsets.decode_value(key, record.value)
                        found.append((consumer_offsets.describe_key(key), consumer_offsets.describe_value(value)))
        return found


def numbered(records: Sequence[Record], start: int) -> list[Record]:
    return [Record(start + index, record.timestamp, record.key, record.value) for index, record in enumerate(records)]


class ManualTimers:
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._order = itertools.count()
        self.made = 0

    def later(self, seconds: float, task: Callable[[], None]) -> ManualTimer:
        self.made += 1
        timer = ManualTimer(task)
        self._timers.append((self._clock.now_ms() + round(seconds * 1000), next(self._order), timer))
        return timer

    def advance(self, milliseconds: int) -> None:
        until = self._clock.now_ms() + milliseconds
        while True:
            self._timers = [entry for entry in self._timers if entry[2].task is not None]
            first = min(self._timers, key=lambda entry: entry[:2], default=None)
            if first is None or first[0] > until:
                break
            self._timers.remove(first)
            self._clock.advance(first[0] - self._clock.now_ms())
            assert first[2].task is not None
            first[2].task()
        self._clock.advance(until - self._clock.now_ms())

    @property
    def waiting(self) -> int:
        return sum(timer.task is not None for _, _, timer in self._timers)


class ManualTimer:
    def __init__(self, task: Callable[[], None]) -> None:
        self.task: Callable[[], None] | None = task

    def cancel(self) -> None:
        self.task = None


@dataclass
class Topics:
    """Partition counts by name; the id of a topic is its name in 16 bytes."""

    partitions: dict[str, int] = field(default_factory=lambda: {"visits": 4, "orders": 2})

    def name_of(self, topic_id: bytes) -> str | None:
        name = topic_id.rstrip(b"\0").decode()
        return name if name in self.partitions else None

    def id_of(self, name: str) -> bytes | None:
        return topic_id(name) if name in self.partitions else None

    def has_partition(self, name: str, partition: int) -> bool:
        return 0 <= partition < self.partitions.get(name, 0)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class Transactions:
    """As the transaction coordinator answers, when it says `error` to everything."""

    error = ErrorCode.NONE

    def verify(self, transactional_id: str, producer: object, partitions: Collection[TopicPartition]) -> dict[Any, ErrorCode]:
        return dict.fromkeys(partitions, self.error)

    def add_partitions_implicitly(
        self, transactional_id: str, producer: object, partitions: object, answer: Callable[[ErrorCode], None]
    ) -> None:
        answer(self.error)

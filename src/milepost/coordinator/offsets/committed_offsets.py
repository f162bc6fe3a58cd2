"""The committed offsets of all groups of this coordinator, and those of open transactions, which count only once a marker commits them.

Commits are numbered in the order of the log (`position`). When a transaction commits, its offset replaces one that was written
before it, and not one that was written after it, so that loading the log, whatever compaction has left of it, gives the same
offsets as having lived through it.

A tombstone removes a committed offset and any pending one of the same partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from milepost.record.internal_topics.classic_records import OffsetCommitValue

TopicPartition = tuple[str, int]
Transaction = tuple[int, int]
"""(partition of `__consumer_offsets`, producer id): a marker is written to each partition on its own."""


class Commit(NamedTuple):
    position: int
    value: OffsetCommitValue


NONE: Mapping[TopicPartition, Commit] = {}


class OffsetStore:
    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, Commit]] = {}
        self._pending: dict[Transaction, dict[str, dict[TopicPartition, Commit]]] = {}
        self._open: dict[str, set[Transaction]] = {}
        """The transactions with pending offsets in a group."""
        self._in_flight: Counter[tuple[str, TopicPartition]] = Counter()
        self._position = 0

    def next_position(self) -> int:
        self._position += 1
        return self._position

    # Reading.

    def of(self, group_id: str) -> Mapping[TopicPartition, Commit]:
        return self._committed.get(group_id, NONE)

    def groups(self) -> Iterable[str]:
        """Groups that have offsets, committed or pending."""
        return {*self._committed, *self._open}

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._open

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """A transaction that is not decided yet may change this offset."""
        if (group_id, topic_partition) in self._in_flight:
            return True
        return any(topic_partition in self._pending[transaction][group_id] for transaction in self._open.get(group_id, ()))

    def pending_of(self, group_id: str) -> set[TopicPartition]:
        found: set[TopicPartition] = set()
        return found.union(*(self._pending[transaction][group_id] for transaction in self._open.get(group_id, ())))

    # Writing.

    def commit(self, group_id: str, topic_partition: TopicPartition, commit: Commit) -> None:
        self._committed.setdefault(group_id, {})[topic_partition] = commit

    def send_out(self, group_id: str, topic_partitions: Iterable[TopicPartition]) -> None:
        """Transactional commits are on their way to the log: unstable from now on."""
        self._in_flight.update((group_id, topic_partition) for topic_partition in topic_partitions)

    def come_back(self, group_id: str, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._in_flight[group_id, topic_partition] -= 1
            if not self._in_flight[group_id, topic_partition]:
                del self._in_flight[group_id, topic_partition]

    def add_pending(self, transaction: Transaction, group_id: str, topic_partition: TopicPartition, commit: Commit) -> None:
        self._pending.setdefault(transaction, {}).setdefault(group_id, {})[topic_partition] = commit
        self._open.setdefault(group_id, set()).add(transaction)

    def complete(self, transaction: Transaction, committed: bool) -> set[str]:
        """A marker was written: pending offsets count, or are dropped. The groups it concerned."""
        groups = self._pending.pop(transaction, {})
        for group_id, offsets in groups.items():
            self._close(group_id, transaction)
            if committed:
                for topic_partition, commit in offsets.items():
                    existing = self.of(group_id).get(topic_partition)
                    if existing is None or existing.position < commit.position:
                        self.commit(group_id, topic_partition, commit)
        return set(groups)

    def remove(self, group_id: str, topic_partition: TopicPartition) -> None:
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(topic_partition, None)
            if not offsets:
                del self._committed[group_id]
        for transaction in list(self._open.get(group_id, ())):
            pending = self._pending[transaction]
            pending[group_id].pop(topic_partition, None)
            if not pending[group_id]:
                del pending[group_id]
                self._close(group_id, transaction)
            if not pending:
                del self._pending[transaction]

    def forget(self, group_id: str) -> None:
        """The group moves to another coordinator."""
        for topic_partition in {*self.of(group_id), *self.pending_of(group_id)}:
            self.remove(group_id, topic_partition)

    def _close(self, group_id: str, transaction: Transaction) -> None:
        transactions = self._open[group_id]
        transactions.discard(transaction)
        if not transactions:
            del self._open[group_id]

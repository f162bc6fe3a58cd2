"""Which batches and records of a dump are shown.

A batch is shown when at least one of its records passes every filter; of its records those that pass are shown. A batch without
records (a compacted one, kept for its producer) is judged by its header alone.

    offsets        from and to, both included
    time           from and to, both included; records without a timestamp (-1) never pass
    key            exactly these bytes
    producer id    of the batch; -1 stands for batches without one
    transaction    how the batch's transaction ended, see transaction_states
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from milepost.errors import InvalidArgument
from milepost.record.batches import AnyBatch
from milepost.record.records import Record

StateOf = Callable[[AnyBatch], str]


@dataclass(frozen=True, slots=True)
class Filter:
    offset_from: int | None = None
    offset_to: int | None = None
    time_from: int | None = None
    time_to: int | None = None
    key: bytes | None = None
    producer_id: int | None = None
    transaction_state: str | None = None

    def __post_init__(self) -> None:
        for what, low, high in (("offset", self.offset_from, self.offset_to), ("time", self.time_from, self.time_to)):
            if low is not None and high is not None and low > high:
                raise InvalidArgument(f"the {what} filter runs from {low} to {high}, which holds nothing: exchange the two")

    @property
    def looks_at_records(self) -> bool:
        """Whether a header may not be enough to decide."""
        limits = (self.offset_from, self.offset_to, self.time_from, self.time_to, self.key)
        return any(limit is not None for limit in limits)

    def may_show(self, batch: AnyBatch, state_of: StateOf | None) -> bool:
        """What the header says: False only when no record can pass."""
        if self.producer_id is not None and batch.producer_id != self.producer_id:
            return False
        if self.offset_from is not None and batch.last_offset < self.offset_from:
            return False
        # The first offset of a compressed set of an old format is inside it: such a batch is looked into.
        if self.offset_to is not None and batch.magic >= 2 and batch.base_offset > self.offset_to:
            return False
        if self.time_from is not None and batch.max_timestamp < self.time_from:
            return False
        if self.key is not None and batch.is_control:
            return False
        return self.transaction_state is None or state_of is None or state_of(batch) == self.transaction_state

    def shows(self, record: Record) -> bool:
        if self.offset_from is not None and record.offset < self.offset_from:
            return False
        if self.offset_to is not None and record.offset > self.offset_to:
            return False
        if self.time_from is not None and record.timestamp < self.time_from:
            return False
        if self.time_to is not None and not 0 <= record.timestamp <= self.time_to:
            return False
        return self.key is None or record.key == self.key


def parse_range(text: str) -> tuple[int | None, int | None]:
    """`10:20`, `10:`, `:20` or `10` (that one offset)."""
    first, colon, last = text.partition(":")
    try:
        low = int(first) if first.strip() else None
        high = (int(last) if last.strip() else None) if colon else low
    except ValueError:
        low = high = None
    if low is None and high is None:
        raise InvalidArgument(f"offsets {text!r}: give FROM:TO, FROM:, :TO or one offset, such as 10:20")
    return low, high

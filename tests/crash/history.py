"""What was asked of a log, as a plain list: the reference every recovered log is compared with.

It knows nothing of files. A workload notes what it is about to do and what was answered, each with the number of disk
operations made so far; `at` then says, for a crash after so many operations, which batches must be in the log, and
which may be.

    level     must be there
    process   every batch whose append was answered (a process that dies loses nothing it was answered for)
    power     of those, the ones that a completed flush covered
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from milepost.record.batch import RecordBatch
from milepost.record.control import control_type, parse_end_transaction


class Level(enum.Enum):
    PROCESS = "process"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class Facts:
    """One batch as the record layer reads it."""

    stored: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    marker: str
    coordinator_epoch: int
    max_timestamp: int
    records: tuple[tuple[int, int], ...]

    def __repr__(self) -> str:
        return f"[{self.base_offset}..{self.last_offset}]"


@functools.lru_cache(maxsize=100_000)
def facts(stored: bytes) -> Facts:
    batch = RecordBatch(stored)
    records = list(batch.records())
    marker, coordinator_epoch = "", -1
    if batch.is_control and records:
        marker = control_type(records[0].key).name
        coordinator_epoch = parse_end_transaction(records[0]).coordinator_epoch
    return Facts(
        stored,
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_sequence,
        batch.is_transactional,
        batch.is_control,
        marker,
        coordinator_epoch,
        batch.max_timestamp,
        tuple((record.offset, record.timestamp) for record in records),
    )


def as_stored(sent: bytes, offset: int, leader_epoch: int) -> bytes:
    """A client's batch as the log must keep it: offset and leader epoch are the log's, all else is the client's."""
    return offset.to_bytes(8, "big") + sent[8:12] + leader_epoch.to_bytes(4, "big") + sent[16:]


@dataclass(slots=True)
class Expected:
    """What a recovered log may look like.

    `past` is every batch that was live once and was not truncated. `either`: pairs of sets of which exactly one is
    there, whole. `is_rewritten`: the cleaner has been there, so that batches may be missing whose producers are
    remembered. `is_contiguous`: no offset may be missing between the first and the last. `firm`: batches that may go only
    together with everything behind them. `knows_epochs`: the leader epochs are those of the batches. `knows_aborted`: the
    transaction index names every aborted transaction, also those that the cleaner left nothing of. `resumes_at`: where a log goes on
    that lost what lay before its start; it may follow a gap.
    """

    must: list[Facts]
    may: frozenset[bytes]
    past: list[Facts]
    either: list[tuple[frozenset[bytes], frozenset[bytes]]] = field(default_factory=list)
    is_rewritten: bool = False
    is_contiguous: bool = False
    firm: frozenset[int] = frozenset()
    knows_epochs: bool = True
    knows_aborted: bool = True
    resumes_at: int = -1


@dataclass(slots=True)
class History:
    events: list[tuple[int, str, Any]] = field(default_factory=list)

    def note(self, operations: int, kind: str, what: Any = None) -> None:
        self.events.append((operations, kind, what))

    @property
    def known(self) -> frozenset[bytes]:
        """Every batch that anybody ever tried to append."""
        return frozenset(
            batch for _, kind, what in self.events if kind in ("append", "replace") for batch in _batches(kind, what)
        )

    def at(self, operations: int, level: Level) -> Expected:
        """What must and may be in the log after a crash when `operations` disk operations were through."""
        live: list[Facts] = []
        begun: set[bytes] = set()
        leaving: set[bytes] = set()
        hidden: set[bytes] = set()
        firm: set[int] = set()
        past: list[Facts] = []
        either: list[tuple[frozenset[bytes], frozenset[bytes]]] = []
        flushed, is_rewritten, has_gaps = 0, False, False
        for when, kind, what in self.events:
            if when > operations:
                break
            if kind == "append":
                begun = set(what)
            elif kind == "appended":
                live += [facts(batch) for batch in what]
                past += [facts(batch) for batch in what]
                begun = set()
            elif kind == "flushed":
                flushed = max(flushed, what)
            elif kind == "truncate":
                # Cut inside a batch, the log goes on at the offset that was asked for: some are missing before it.
                has_gaps |= any(batch.base_offset < what <= batch.last_offset for batch in live)
                leaving |= {batch.stored for batch in live if batch.last_offset >= what}
                firm = {batch.base_offset for batch in live if what <= batch.last_offset < flushed}
                live = [batch for batch in live if batch.last_offset < what]
                flushed = min(flushed, what)
            elif kind in ("delete", "forget"):
                # What DeleteRecords hid is back after a crash until the new start is checkpointed.
                below = {batch.stored for batch in live if batch.last_offset < what}
                leaving, hidden = (leaving | below, hidden) if kind == "delete" else (leaving, hidden | below)
                live = [batch for batch in live if batch.last_offset >= what]
            elif kind in ("truncated", "deleted"):
                leaving, firm = set(), set()
                past = [batch for batch in past if batch.last_offset < what] if kind == "truncated" else past
            elif kind == "replace":
                old, new = what
                is_rewritten = True
                either.append((frozenset(old), frozenset(new)))
                leaving |= set(old) | set(new)
                live = [batch for batch in live if batch.stored not in set(old)]
            elif kind == "replaced":
                old, new = what
                leaving, either = set(), []
                live = sorted([*live, *map(facts, new)], key=lambda batch: batch.base_offset)
        must = live if level is Level.PROCESS else [batch for batch in live if batch.last_offset < flushed]
        may = frozenset(begun | leaving | hidden | {batch.stored for batch in live})
        is_contiguous = level is Level.PROCESS and not is_rewritten and not has_gaps
        return Expected(must, may, past, either, is_rewritten, is_contiguous, frozenset(firm))


def _batches(kind: str, what: Any) -> Sequence[bytes]:
    if kind == "replace":
        old, new = what
        return [*old, *new]
    return list(what)

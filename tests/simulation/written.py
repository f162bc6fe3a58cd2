"""What was written to a log of the storage simulation, and what of it must still be there."""

from __future__ import annotations

from dataclasses import dataclass, field

RETENTION_MS = 20_000


@dataclass
class Written:
    """What a log must hold: by offset the key, the value and when it was written."""

    was_compacted: bool = False
    was_deleted_from: bool = False
    deleted_to: int = 0
    # The furthest that the log started. A crash may bring back what lies before it, and not its epochs.
    started_at: int = 0
    epochs: list[int] = field(default_factory=list)
    # Older records of keys whose newest one was cut: compaction may have removed them for it.
    superseded: set[int] = field(default_factory=set)
    records: dict[int, tuple[bytes, bytes, int]] = field(default_factory=dict)

    def cut(self, offset: int) -> None:
        keys = {record[0] for at, record in self.records.items() if at >= offset}
        self.records = {at: record for at, record in self.records.items() if at < offset}
        self.started_at = min(self.started_at, offset)
        self.superseded |= {at for at, record in self.records.items() if record[0] in keys}

    def use(self, policy: str) -> None:
        self.was_compacted |= "compact" in policy
        self.was_deleted_from |= "delete" in policy

    def must_have(self, now_ms: int) -> dict[int, tuple[bytes, bytes, int]]:
        kept = {
            at: record
            for at, record in self.records.items()
            if at >= self.deleted_to and not (self.was_deleted_from and now_ms - record[2] > RETENTION_MS)
        }
        if not self.was_compacted:
            return kept
        newest = {record[0]: at for at, record in sorted(self.records.items())}
        return {at: record for at, record in kept.items() if newest[record[0]] == at and at not in self.superseded}

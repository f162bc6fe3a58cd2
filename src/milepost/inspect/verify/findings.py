"""What a check found: sentences with a place and a way out.

A *finding* is something that is not as it should be; it makes `milepost verify` end with exit code 1. A *note* is worth knowing
and normal where it stands: the torn end of a log whose broker was killed, the unused slots of an active index, files on their
way out.

`remedy` says which step of `milepost repair` deals with it; None when only a person can.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Remedy(enum.Enum):
    CUT = "take the damaged bytes out of the log"
    REBUILD_INDEXES = "rebuild the offset and time index"
    REBUILD_TXN_INDEX = "rebuild the transaction index"
    REMOVE = "move the file aside"
    LEARN_EPOCHS = "read the leader epochs from the batches"
    REWRITE_CHECKPOINT = "write the checkpoint anew"
    ACCEPT_GAP = "accept that the offsets are lost"


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    what: str
    advice: str = ""
    position: int | None = None
    remedy: Remedy | None = None
    is_note: bool = False

    def __str__(self) -> str:
        place = self.file if self.position is None else f"{self.file}, position {self.position}"
        return f"{place}: {self.what}" + (f"; {self.advice}" if self.advice else "")

    def as_json(self) -> dict[str, object]:
        return {
            "type": "note" if self.is_note else "finding",
            "file": self.file,
            "position": self.position,
            "what": self.what,
            "advice": self.advice or None,
            "repairable": self.remedy is not None,
        }


@dataclass(slots=True)
class Report:
    """Everything one run found, and how much it looked at."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0

    def add(self, finding: Finding) -> None:
        (self.notes if finding.is_note else self.findings).append(finding)

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def summary(self) -> str:
        counts = [
            counted(self.partitions, "partition"),
            counted(self.segments, "segment"),
            counted(self.batches, "batch", "batches"),
            counted(self.records, "record"),
            counted(self.bytes, "byte"),
        ]
        found = "no findings" if self.is_clean else counted(len(self.findings), "finding")
        return f"{', '.join(counts)}: {found}, {counted(len(self.notes), 'note')}"

    def as_json(self) -> dict[str, object]:
        return {
            "type": "summary",
            "partitions": self.partitions,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "findings": len(self.findings),
            "notes": len(self.notes),
        }


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

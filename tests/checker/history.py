"""What happened in a run, as clients, brokers and files tell it: the input of the checker. Plain values; times are seconds on one clock.

    Send          one value, from the first attempt to the outcome that the client knows
    Poll          one answer to a reader: records, and the marks that came with it
    Transaction   from its begin to what its producer knows about its end
    Commit, CommitFetch   a group's offset written, and read
    Accepted      a broker appended a client's write as leader, in one leader epoch
    Administered  a broker acted as controller, and was believed, in one controller epoch
    Replica       a replica's log at the end, as its files have it
    Lookup        an index answered; `scanned` is what reading everything says

An outcome is OK, FAILED (it certainly did not happen) or UNKNOWN (the answer was lost: it may or may not have happened).

`final` is a reader that read everything with read_committed after all had healed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32


class Outcome(enum.Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Record(NamedTuple):
    offset: int
    value: str


def sealed(text: str) -> str:
    """A payload that shows whether it was damaged."""
    return f"{text}#{crc32(text.encode()):08x}"


def is_intact(value: str) -> bool:
    text, mark, _ = value.rpartition("#")
    return bool(mark) and sealed(text) == value


class Send(NamedTuple):
    client: str
    partition: str
    value: str
    began: float
    ended: float
    outcome: Outcome
    offset: int = -1
    is_idempotent: bool = True
    acks_all: bool = True
    transaction: str | None = None

    @property
    def is_promised(self) -> bool:
        """Acknowledged by all in-sync replicas: it must never be lost."""
        return self.outcome is Outcome.OK and self.acks_all


class Poll(NamedTuple):
    client: str
    partition: str
    began: float
    ended: float
    records: tuple[Record, ...]
    leader_epoch: int
    high_watermark: int
    last_stable_offset: int
    end_offset: int
    assignment: int = 0
    is_committed: bool = True
    transaction: str | None = None
    """The transaction in which the reader writes what it made of these."""
    leader: str = ""
    """Which life of which broker answered."""


class Transaction(NamedTuple):
    name: str
    client: str
    end_began: float
    ended: float
    is_commit: bool
    outcome: Outcome


class Commit(NamedTuple):
    group: str
    partition: str
    offset: int
    began: float
    ended: float
    outcome: Outcome


class CommitFetch(NamedTuple):
    group: str
    partition: str
    offset: int
    began: float
    ended: float


class Accepted(NamedTuple):
    broker: int
    partition: str
    leader_epoch: int
    time: float


class Administered(NamedTuple):
    broker: int
    controller_epoch: int
    time: float


class Decided(NamedTuple):
    """What a controller wrote to ZooKeeper, and the controller epoch that was there."""

    what: str
    controller_epoch: int
    current_epoch: int
    time: float


class Replica(NamedTuple):
    broker: int
    partition: str
    high_watermark: int
    records: tuple[Record, ...]
    digest: str
    """SHA-256 of the `.log` bytes below the high watermark that all replicas share."""


class Lookup(NamedTuple):
    broker: int
    partition: str
    question: str
    found: int
    scanned: int


@dataclass
class History:
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    commit_fetches: list[CommitFetch] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    administered: list[Administered] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    final: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    """Where each log begins at the end: what is older was deleted on purpose."""
    healed_at: float = 0.0
    ended_at: float = 0.0

    @property
    def outcomes(self) -> dict[str, Transaction]:
        return {each.name: each for each in self.transactions}


class Finding(NamedTuple):
    rule: str
    text: str

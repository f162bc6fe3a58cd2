"""A cluster without a flaw, in a few lines: what clients of it may see, at random. The checker must find nothing in its histories.

Partitions are lists; records above the high watermark may be cut when the leader changes, as long as nobody was promised them. Producers
are idempotent, or transactional (reading, and writing what they made of it, in one transaction); readers read committed or everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import NamedTuple

from tests.checker.history import (
    Accepted,
    Administered,
    Commit,
    CommitFetch,
    History,
    Lookup,
    Outcome,
    Poll,
    Record,
    Replica,
    Send,
    Transaction,
    sealed,
)

BROKERS = (1, 2, 3)


class Entry(NamedTuple):
    value: str | None  # None: the end of a transaction
    transaction: str | None = None


@dataclass
class Partition:
    name: str
    entries: list[Entry] = field(default_factory=list)
    high_watermark: int = 0
    leader: int = 1
    epoch: int = 0
    waiting: list[tuple[int, Send]] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    """Transactions that have not ended, and where they began."""

    @property
    def last_stable_offset(self) -> int:
        return min([self.high_watermark, *self.open.values()])


class GoodRun:
    def __init__(self, random: Random, steps: int = 200):
        self.random = random
        self.now = 0.0
        self.history = History()
        self.partitions = [Partition("t-0"), Partition("t-1")]
        self.aborted: set[str] = set()
        self.running: dict[str, set[str]] = {}
        self.doomed: set[str] = set()
        self.numbers = 0
        self.controller_epoch = 1
        self.positions: dict[tuple[str, str], int] = {}
        self.committed: dict[str, int] = {}
        actions = [self.send, self.send, self.replicate, self.poll, self.poll, self.fail, self.end_transaction]
        for _ in range(steps):
            random.choice(actions)()
            if random.random() < 0.05:
                random.choice([self.change_leader, self.change_controller, self.commit, self.fetch_commit])()
        self.finish()

    def tick(self) -> float:
        self.now += self.random.uniform(0.001, 0.1)
        return self.now

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    # Writing.

    def send(self, client: str | None = None) -> None:
        client = client or self.random.choice(["p1", "p2", "x1", "x2"])
        partition = self.random.choice(self.partitions)
        value = sealed(f"{client}-{self.number()}")
        transaction = None
        if client.startswith("x"):
            transaction = next((name for name in self.running if name.startswith(client)), None)
            if transaction is None:
                transaction = f"{client}:{self.number()}"
                self.running[transaction] = set()
            self.running[transaction].add(partition.name)
            partition.open.setdefault(transaction, len(partition.entries))
        began = self.tick()
        offset = len(partition.entries)
        partition.entries.append(Entry(value, transaction))
        self.history.accepted.append(Accepted(partition.leader, partition.name, partition.epoch, self.tick()))
        sent = Send(client, partition.name, value, began, 0.0, Outcome.OK, offset, transaction=transaction)
        partition.waiting.append((offset, sent))

    def fail(self) -> None:
        client = self.random.choice(["p1", "p2"])
        value = sealed(f"{client}-{self.number()}")
        began = self.tick()
        name = self.random.choice(self.partitions).name
        self.history.sends.append(Send(client, name, value, began, self.tick(), Outcome.FAILED))

    def replicate(self, partition: Partition | None = None) -> None:
        whole = partition is not None
        partition = partition or self.random.choice(self.partitions)
        end = len(partition.entries)
        partition.high_watermark = end if whole else self.random.randint(partition.high_watermark, end)
        done = [sent for offset, sent in partition.waiting if offset < partition.high_watermark]
        partition.waiting = [each for each in partition.waiting if each[0] >= partition.high_watermark]
        for sent in done:
            is_heard = self.random.random() < 0.95
            outcome = Outcome.OK if is_heard else Outcome.UNKNOWN
            self.history.sends.append(sent._replace(ended=self.tick(), outcome=outcome, offset=sent.offset if is_heard else -1))

    def end_transaction(self) -> None:
        if not self.running:
            return
        name = self.random.choice(sorted(self.running))
        partitions = [each for each in self.partitions if each.name in self.running[name]]
        for partition in partitions:
            self.replicate(partition)
        is_commit = name not in self.doomed and self.random.random() < 0.7
        began = self.tick()
        if not is_commit:
            self.aborted.add(name)
        for partition in partitions:
            partition.entries.append(Entry(None))
            self.replicate(partition)
            partition.open.pop(name, None)
        del self.running[name]
        client = name.partition(":")[0]
        self.history.transactions.append(Transaction(name, client, began, self.tick(), is_commit, Outcome.OK))

    # Reading.

    def visible(self, partition: Partition, start: int, end: int, *, is_committed: bool) -> tuple[Record, ...]:
        return tuple(
            Record(offset, entry.value)
            for offset, entry in enumerate(partition.entries[start:end], start)
            if entry.value is not None and not (is_committed and entry.transaction in self.aborted)
        )

    def poll(self, client: str | None = None) -> None:
        client = client or self.random.choice(["r1", "r2", "u1", "x1", "x2"])
        partition = self.random.choice(self.partitions)
        transaction = next((name for name in self.running if name.startswith(client)), None)
        if client.startswith("x") and transaction is None:
            return
        is_committed = not client.startswith("u")
        start = self.positions.get((client, partition.name), 0)
        end = partition.last_stable_offset if is_committed else partition.high_watermark
        end = min(end, start + self.random.randint(1, 10))
        records = self.visible(partition, start, end, is_committed=is_committed)
        self.positions[client, partition.name] = max(start, end)
        self.history.polls.append(
            Poll(
                client,
                partition.name,
                self.tick(),
                self.tick(),
                records,
                partition.epoch,
                partition.high_watermark,
                partition.last_stable_offset,
                len(partition.entries),
                is_committed=is_committed,
                transaction=transaction,
            )
        )

    def commit(self) -> None:
        partition = self.random.choice(self.partitions)
        offset = self.committed.get(partition.name, -1) + 1 + self.random.randint(0, 3)
        self.history.commits.append(Commit("g", partition.name, offset, self.tick(), self.tick(), Outcome.OK))
        self.committed[partition.name] = offset

    def fetch_commit(self) -> None:
        for name, offset in self.committed.items():
            self.history.commit_fetches.append(CommitFetch("g", name, offset, self.tick(), self.tick()))

    # Brokers.

    def change_leader(self) -> None:
        """The new leader may lack what was not promised to anybody."""
        partition = self.random.choice(self.partitions)
        partition.epoch += 1
        partition.leader = self.random.choice(BROKERS)
        kept = self.random.randint(partition.high_watermark, len(partition.entries))
        lost = [sent for offset, sent in partition.waiting if offset >= kept]
        partition.waiting = [each for each in partition.waiting if each[0] < kept]
        del partition.entries[kept:]
        for sent in lost:
            self.history.sends.append(sent._replace(ended=self.tick(), outcome=Outcome.UNKNOWN, offset=-1))
            if sent.transaction is not None:
                self.doomed.add(sent.transaction)
        partition.open = {name: min(start, kept) for name, start in partition.open.items()}

    def change_controller(self) -> None:
        self.controller_epoch += 1
        self.history.administered.append(Administered(self.random.choice(BROKERS), self.controller_epoch, self.tick()))

    # The end.

    def finish(self) -> None:
        self.history.healed_at = self.tick()
        while self.running:
            self.end_transaction()
        for client in ("p1", "p2", "x1", "x2"):
            self.send(client)
        while self.running:
            self.end_transaction()
        for partition in self.partitions:
            self.replicate(partition)
        for _ in range(3):
            for client in ("r1", "r2", "u1"):
                self.poll(client)
        self.commit()
        self.fetch_commit()
        self.change_controller()
        for client in ("p1", "p2"):  # the answers may have been lost again and again
            value = sealed(f"{client}-{self.number()}")
            partition = self.partitions[0]
            partition.entries.append(Entry(value))
            partition.high_watermark += 1
            offset = len(partition.entries) - 1
            self.history.sends.append(Send(client, partition.name, value, self.tick(), self.tick(), Outcome.OK, offset))
        for client in ("x1", "x2"):
            self.positions[client, self.partitions[0].name] = 0
            self.history.polls.append(
                Poll(client, self.partitions[0].name, self.tick(), self.tick(), (), 10**6, 10**6, 10**6, 10**6, assignment=1)
            )
        for partition in self.partitions:
            end = len(partition.entries)
            self.history.final[partition.name] = self.visible(partition, 0, end, is_committed=True)
            stored = self.visible(partition, 0, end, is_committed=False)
            digest = sha256(repr(partition.entries).encode()).hexdigest()
            for broker in BROKERS:
                self.history.replicas.append(Replica(broker, partition.name, end, stored, digest))
                self.history.lookups.append(Lookup(broker, partition.name, "offset 0", 0, 0))
        self.history.ended_at = self.history.healed_at + 40.0

"""Random fetches among what changes the logs that they read: the same for the same seed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.topics import delete

TOPICS = ("s", "t")
TRANSACTIONAL = "w"
WRITERS = 2
PARTITIONS = 3
CONNECTIONS = 4
SIZES = (1, 50, 200, 20_000)
LIMITS = (1, 100, 1000, 30_000, 1 << 20)
NOW = 1_700_000_000_000


class Script:
    """What is done, the same for both sides."""

    def __init__(self, seed: int, producers: list[tuple[int, int]]):
        self.rng = random.Random(seed)
        self.producers = producers
        self.sequences: Counter[tuple[int, int]] = Counter()
        self.open: list[set[int]] = [set() for _ in producers]
        places = [(topic, number) for topic in (*TOPICS, TRANSACTIONAL) for number in range(PARTITIONS)]
        self.ends = dict.fromkeys(places, 0)
        self.versions = [self.rng.choice((4, 6, 7, 9, 11, 12, 13, 16, 18)) for _ in range(CONNECTIONS)]
        self.fields = [self.fresh_fields() for _ in range(CONNECTIONS)]
        self.epochs = dict.fromkeys(range(CONNECTIONS), -1)
        self.there = {*TOPICS, TRANSACTIONAL}

    def fresh_fields(self) -> dict[str, Any]:
        return {
            "max_wait_ms": self.rng.choice((0, 0, 2)),
            "min_bytes": self.rng.choice((0, 1, 1, 1000)),
            "max_bytes": self.rng.choice(LIMITS),
            "isolation_level": self.rng.randrange(2),
        }

    def next_step(self) -> Any:
        rng = self.rng
        topic, partition = rng.choice(list(self.ends))
        chance = rng.random()
        if chance < 0.25 and topic in self.there:
            count = rng.randrange(1, 4)
            records = [Record(offset, NOW, b"k", b"v" * rng.choice(SIZES)) for offset in range(count)]
            self.ends[topic, partition] += count
            batch = build_batch(records, base_offset=0)
            return lambda side: side.produce(topic, partition, batch)
        if chance < 0.28 and topic in self.there:
            offset = rng.randrange(self.ends[topic, partition] + 1)
            return lambda side: side.delete_records(topic, partition, offset)
        if chance < 0.29 and topic != TRANSACTIONAL:
            return self.go_or_come(topic)
        if chance < 0.4:
            return self.transaction(rng.randrange(WRITERS))
        return self.fetch()

    def transaction(self, writer: int) -> Any:
        """One more batch, or the end of those there are."""
        rng, name, producer = self.rng, f"writer {writer}", self.producers[writer]
        if self.open[writer] and rng.random() < 0.4:
            for partition in self.open[writer]:
                self.ends[TRANSACTIONAL, partition] += 1
            self.open[writer] = set()
            committed = rng.random() < 0.3
            ends = [self.ends[TRANSACTIONAL, number] for number in range(PARTITIONS)]
            return lambda side: side.end(name, producer, committed, ends)
        partition, count = rng.randrange(PARTITIONS), rng.randrange(1, 4)
        records = [Record(offset, NOW, b"k", b"v" * rng.choice(SIZES)) for offset in range(count)]
        said = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": self.sequences[writer, partition]}
        batch = build_batch(records, base_offset=0, is_transactional=True, **said)
        self.sequences[writer, partition] += count
        self.ends[TRANSACTIONAL, partition] += count
        self.open[writer].add(partition)
        return lambda side: side.write(name, producer, partition, batch)

    def go_or_come(self, topic: str) -> Any:
        if topic in self.there:
            self.there.discard(topic)
            return lambda side: delete(side.admin, topic)
        self.there.add(topic)
        self.ends.update({(topic, number): 0 for number in range(PARTITIONS)})
        return lambda side: side.create(topic)

    def fetch(self) -> Any:
        rng = self.rng
        number = rng.randrange(CONNECTIONS)
        version = self.versions[number]
        if rng.random() < 0.04:
            self.fields[number] = self.fresh_fields()
        fields = dict(self.fields[number])
        asked = list(self.ends) if rng.random() < 0.4 else rng.choices(list(self.ends), k=rng.choice((0, 1, 1, 2, 3)))
        named = [self.named(version, topic, partition) for topic, partition in asked]
        if version >= 7:
            fields |= self.session(number)
        if rng.random() < 0.05:
            fields |= rng.choice([{"cut": rng.randrange(1, 20)}, {"fault": "of the disk"}, {"fault": "of ours"}])
            self.epochs[number] = -1  # where the session is by now may not be known
        return lambda side: side.fetch(number, version, named, **fields)

    def named(self, version: int, topic: str, partition: int) -> tuple[str, bool, dict[str, int]]:
        rng = self.rng
        end = self.ends[topic, partition]
        part = {
            "partition": partition if rng.random() < 0.99 else rng.choice((-1, PARTITIONS, 1 << 30)),
            "fetch_offset": end - rng.choice((0, 0, 0, 1, 1, 2)) if rng.random() < 0.8 else rng.randrange(-1, end + 3),
            "partition_max_bytes": rng.choice(LIMITS),
        }
        if version >= 9:
            part["current_leader_epoch"] = rng.choice((-1, -1, -1, 0, 0, 1)) if rng.random() < 0.1 else -1
        if version >= 12 and rng.random() < 0.05:
            part["last_fetched_epoch"] = 0
        return topic, rng.random() < 0.01, part

    def session(self, number: int) -> dict[str, Any]:
        rng = self.rng
        chance = rng.random()
        if number % 2 == 0 or (self.epochs[number] < 0 and chance < 0.1):
            return {"session_epoch": -1}
        if self.epochs[number] < 0 or chance < 0.03:
            self.epochs[number] = 1
            return {"session_epoch": 0}
        whose = rng.choice(list(self.epochs)) if rng.random() < 0.05 else number
        epoch = self.epochs[whose]
        if chance < 0.06:
            return {"session_of": whose, "session_epoch": rng.choice((-1, epoch + 1, epoch - 1, -5))}
        self.epochs[whose] = epoch + 1
        forgotten = [(rng.choice(TOPICS), rng.randrange(PARTITIONS))] if rng.random() < 0.03 else []
        return {"session_of": whose, "session_epoch": epoch, "forgotten": forgotten}

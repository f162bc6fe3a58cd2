"""Two brokers are asked the same at random, one of them without the way for fetches that repeat: their answers and counts are equal.

What each broker invents, its session and topic ids, is replaced before it is compared.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from milepost.broker.fetch.repeated_consumer import RepeatedConsumerFetch
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.metrics.topic_metrics import BY_TOPIC
from milepost.protocol import frames
from milepost.protocol.messages import DeleteRecordsRequest, FetchRequest, FetchResponse, ProduceRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.conftest import SETTINGS
from tests.broker.fetch.conftest import HANDLE
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, delete, wanted
from tests.broker.wire import Wire

TOPICS = ("s", "t")
PARTITIONS = 3
CONNECTIONS = 4
STEPS = 250
FETCH = 1
SIZES = (1, 50, 200, 20_000)
LIMITS = (1, 100, 1000, 30_000, 1 << 20)


class Side:
    """One of the two brokers, with the connections to it."""

    def __init__(self, directory: Path):
        self.life = Life(AloneBroker({"log.dirs": str(directory), "fetch.max.bytes": "100000", **SETTINGS}))
        self.broker = self.life.__enter__()
        self.admin = Wire(self.broker.bootstrap_servers)
        self.wires = [Wire(self.broker.bootstrap_servers) for _ in range(CONNECTIONS)]
        self.topic_ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self.session_ids = dict.fromkeys(range(CONNECTIONS), 0)

    def close(self) -> None:
        for wire in (self.admin, *self.wires):
            wire.close()
        self.life.__exit__(None, None, None)

    def create(self, topic: str) -> None:
        (topic_id,) = create(self.admin, wanted(topic, PARTITIONS))
        self.topic_ids[topic] = topic_id
        self.names[topic_id] = f"{topic} {len(self.names)}"

    def produce(self, topic: str, partition: int, batch: bytes) -> tuple[int, int]:
        data = ProduceRequest.TopicData
        request = ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[data(name=topic, partition_data=[data.PartitionData(index=partition, records=batch)])],
        )
        part = self.admin.ask(request, 9).responses[0].partition_responses[0]
        return part.error_code, part.base_offset

    def delete_records(self, topic: str, partition: int, offset: int) -> int:
        asked = DeleteRecordsRequest.Topic
        part = asked.Partition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(topics=[asked(name=topic, partitions=[part])], timeout_ms=60_000)
        return self.admin.ask(request, 2).topics[0].partitions[0].error_code

    def fetch(self, number: int, version: int, named: list[tuple[str, bool, dict[str, int]]], **fields: Any) -> Any:
        """`named`: topics, and whether by the id of their first life. The session of another connection is named by its number."""
        by_id = version >= 13
        topics = [
            FetchRequest.Topic(
                topic="" if by_id else topic,
                topic_id=(next(iter(self.names)) if is_old else self.topic_ids.get(topic, bytes(16))) if by_id else bytes(16),
                partitions=[FetchRequest.Topic.Partition(**part)],
            )
            for topic, is_old, part in named
        ]
        forgotten = [
            FetchRequest.ForgottenTopicsData(
                topic="" if by_id else topic,
                topic_id=self.topic_ids.get(topic, bytes(16)) if by_id else bytes(16),
                partitions=[partition],
            )
            for topic, partition in fields.pop("forgotten", [])
        ]
        whose = fields.pop("session_of", None)
        session_id = 0 if whose is None else self.session_ids[whose]
        request = FetchRequest(topics=topics, forgotten_topics_data=forgotten, session_id=session_id, **fields)
        wire = self.wires[number]
        wire.send(request, version)
        response: FetchResponse = frames.decode_response(FETCH, version, wire.read_frame())[1]
        is_ours = whose is not None and response.session_id == session_id
        if fields.get("session_epoch") == 0:
            self.session_ids[number] = response.session_id
        return (
            response.error_code,
            bool(response.session_id),
            is_ours,
            [
                (
                    self.names.get(topic.topic_id, topic.topic),
                    part.partition_index,
                    part.error_code,
                    (part.high_watermark, part.last_stable_offset, part.log_start_offset),
                    part.aborted_transactions,
                    part.preferred_read_replica,
                    bytes(part.records or b""),
                )
                for topic in response.responses
                for part in topic.partitions
            ],
        )

    def counts(self) -> Any:
        """Of fetches by version and error, and of what went through topics."""

        def read() -> Any:
            meters = self.broker.request_metrics._meters
            requests = {key: meter.requests for key, meter in meters.items() if key[0] == "FetchConsumer"}
            errors = {key: meters[key].errors + Counter({0: meters[key].successes}) for key in requests}
            topics = self.broker.replicas.topic_metrics
            return requests, errors, {attribute: dict(topics._samples(attribute)) for attribute in BY_TOPIC}

        return on_loop(self.broker, read)


class Script:
    """What is done, the same for both sides."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.ends = dict.fromkeys([(topic, number) for topic in TOPICS for number in range(PARTITIONS)], 0)
        self.versions = [self.rng.choice((4, 6, 7, 9, 11, 12, 13, 16, 18)) for _ in range(CONNECTIONS)]
        self.fields = [self.fresh_fields() for _ in range(CONNECTIONS)]
        self.epochs = dict.fromkeys(range(CONNECTIONS), -1)
        self.there = set(TOPICS)

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
            records = [Record(offset, 1_700_000_000_000, b"k", b"v" * rng.choice(SIZES)) for offset in range(count)]
            self.ends[topic, partition] += count
            batch = build_batch(records, base_offset=0)
            return lambda side: side.produce(topic, partition, batch)
        if chance < 0.28 and topic in self.there:
            offset = rng.randrange(self.ends[topic, partition] + 1)
            return lambda side: side.delete_records(topic, partition, offset)
        if chance < 0.29:
            return self.go_or_come(topic)
        return self.fetch()

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


@pytest.mark.parametrize("seed", range(1, 9))
def test_answers_and_counts_are_equal(seed, tmp_path, monkeypatch):
    sides = [Side(tmp_path / name) for name in ("repeated", "full")]
    full = sides[1].broker
    taken = Counter()

    def handle(self: RepeatedConsumerFetch, request: Any) -> bool:
        is_taken = self._context.broker is not full and HANDLE(self, request)
        taken[is_taken] += 1
        return is_taken

    monkeypatch.setattr(RepeatedConsumerFetch, "handle", handle)
    try:
        for side in sides:
            for topic in TOPICS:
                side.create(topic)
        script = Script(seed)
        for number in range(STEPS):
            step = script.next_step()
            answers = [step(side) for side in sides]
            assert answers[0] == answers[1], f"step {number}"
        assert sides[0].counts() == sides[1].counts()
    finally:
        for side in sides:
            side.close()
    assert taken[True] > 50

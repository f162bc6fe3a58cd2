"""Figures of a broker at work: producing in several shapes, waiting for answers, consuming. Each takes a few seconds on a new topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.broker import java_clients
from benchmarks.broker.brokers import Broker
from benchmarks.broker.clients import Clients
from benchmarks.broker.frames import Target, batch_of, produce_frames, records_that_fit
from benchmarks.broker.topics import create_topics, delete_topic, end_offset, producer_id
from milepost.codec.compression import Codec

KB16, KB64, MB1 = 16_384, 65_536, 1_000_000
RECORD, SMALL = 1024, 100
SMALL_REQUESTS = 400_000
WAITS = 20_000
QUEUE = {"queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1_000_000, "batch.num.messages": 10_000}
LARGE_FETCH = 4_000_000

# What a job measured, by the key of the figure; "… cpu" is the broker's CPU time for one unit of it, in microseconds.
Measured = dict[str, float]


class Load:
    def __init__(self, clients: Clients, megabytes: int, seconds: float):
        self.clients = clients
        self.megabytes = megabytes
        self.seconds = seconds
        self._topics = 0

    @contextmanager
    def topic(self, broker: Broker, partitions: int = 1) -> Iterator[str]:
        """A topic for one run; names are numbered so that they have one length."""
        self._topics += 1
        name = f"bench-{self._topics:06d}"
        create_topics(broker, [name], partitions)
        yield name
        delete_topic(broker, name)

    # Jobs.

    def kb64(self, broker: Broker) -> Measured:
        count = records_that_fit(KB64, RECORD)
        batch = batch_of(count, RECORD)
        settings = {"batch.size": KB64, "linger.ms": 5}
        bare = self.bare_mb(broker, "64k", batch, count) | self.bare_mb(broker, "64k four", batch, count, producers=4)
        return bare | self.librdkafka_mb(broker, "64k", settings)

    def mb1(self, broker: Broker) -> Measured:
        count = records_that_fit(MB1, RECORD)
        settings = {"batch.size": MB1, "linger.ms": 50}
        return self.bare_mb(broker, "1m", batch_of(count, RECORD), count) | self.librdkafka_mb(broker, "1m", settings)

    def lz4(self, broker: Broker) -> Measured:
        count = records_that_fit(KB64, RECORD)
        settings = {"batch.size": KB64, "linger.ms": 5, "compression.type": "lz4"}
        batch = batch_of(count, RECORD, Codec.LZ4)
        return self.bare_mb(broker, "lz4", batch, count) | self.librdkafka_mb(broker, "lz4", settings, share=0.5)

    def idempotent(self, broker: Broker) -> Measured:
        count = records_that_fit(KB64, RECORD)
        settings = {"batch.size": KB64, "linger.ms": 5, "enable.idempotence": "true"}
        bare = self.bare_mb(broker, "idempotent", batch_of(count, RECORD), count, numbered=True)
        return bare | self.librdkafka_mb(broker, "idempotent", settings)

    def one_record(self, broker: Broker) -> Measured:
        rate, cpu, _ = self.bare(broker, batch_of(1, SMALL), SMALL_REQUESTS, connections=1, in_flight=64)
        rate_of_four, cpu_of_four, _ = self.bare(broker, batch_of(1, SMALL), SMALL_REQUESTS, connections=4, in_flight=16)
        settings = {**QUEUE, "batch.num.messages": 1, "linger.ms": 0, "max.in.flight": 64}
        answer = self.librdkafka(broker, "produce", SMALL, SMALL_REQUESTS // 2, settings)
        return {
            "one bare": rate,
            "one bare cpu": cpu,
            "one four bare": rate_of_four,
            "one four bare cpu": cpu_of_four,
            "one librdkafka": answer["rate"],
            "one librdkafka cpu": answer["server_cpu"] / answer["records"] * 1e6,
        }

    def latency(self, broker: Broker) -> Measured:
        _, cpu, bare = self.bare(broker, batch_of(1, SMALL), WAITS, connections=1, in_flight=1)
        answer = self.librdkafka(broker, "wait", SMALL, WAITS, {"linger.ms": 0})
        return {
            "p50 bare": bare["p50_us"],
            "p50 bare cpu": cpu,
            "p99 bare": bare["p99_us"],
            "p50 librdkafka": answer["p50_us"],
            "p50 librdkafka cpu": answer["server_cpu"] / answer["records"] * 1e6,
            "p99 librdkafka": answer["p99_us"],
        }

    def consume(self, broker: Broker) -> Measured:
        count = records_that_fit(KB64, RECORD)
        batch = batch_of(count, RECORD)
        requests = self.megabytes * 1_000_000 // len(batch)
        with self.topic(broker) as topic:
            frames = produce_frames(batch, [Target(topic)])
            self.clients.produce(broker.port, frames, connections=1, in_flight=4, requests=requests, seconds=60)
            records = end_offset(broker, topic, 0)
            cpu = broker.cpu_seconds()
            bare = self.clients.fetch(broker.port, [Target(topic)], max_bytes=1 << 20, records=records, seconds=60)
            bare_cpu = broker.cpu_seconds() - cpu
            settings = {"group.id": "g", "enable.auto.commit": "false", "queued.min.messages": 1_000_000}
            settings |= {"fetch.message.max.bytes": LARGE_FETCH, "queued.max.messages.kbytes": 1_000_000}
            cpu = broker.cpu_seconds()
            answer = self.clients.librdkafka(
                "consume", broker.bootstrap, topic, size=0, records=records, seconds=60, settings=settings
            )
            librdkafka_cpu = broker.cpu_seconds() - cpu
        assert bare["records"] == answer["records"] == records, (
            f"{broker.name}: {records} records, consumed were {bare}, {answer}"
        )
        megabytes = records * RECORD / 1e6
        return {
            "consume bare": bare["mb_s"],
            "consume bare cpu": bare_cpu / megabytes * 1e6,
            "consume librdkafka": answer["mb_s"],
            "consume librdkafka cpu": librdkafka_cpu / megabytes * 1e6,
        }

    def java(self, broker: Broker, partitions: int) -> Measured:
        """Java's own producer, and then its consumer of what was produced."""
        records = self.megabytes * 1_000_000 // RECORD
        megabytes = records * RECORD / 1e6
        with self.topic(broker, partitions) as topic:
            start = broker.cpu_seconds()
            produced = java_clients.produce(broker.bootstrap, topic, records=records, size=RECORD)
            middle = broker.cpu_seconds()
            ends = sum(end_offset(broker, topic, number) for number in range(partitions))
            assert ends == records, f"{broker.name}: {records} records were acknowledged, the log ends say {ends}"
            before = broker.cpu_seconds()
            consumed = java_clients.consume(broker.bootstrap, topic, records=records)
            end = broker.cpu_seconds()
        return {
            f"java-{partitions} produce": produced,
            f"java-{partitions} produce each MB": (middle - start) / megabytes * 1e6,
            f"java-{partitions} consume": consumed,
            f"java-{partitions} consume each MB": (end - before) / megabytes * 1e6,
        }

    # Through the bare client.

    def bare(
        self, broker: Broker, batch: bytes, requests: int, *, connections: int, in_flight: int, numbered: bool = False
    ) -> tuple[float, float, dict[str, Any]]:
        """Requests in a second, microseconds of the broker's CPU for each, and what the client said."""
        with self.topic(broker, connections) as topic:
            targets = [Target(topic, number, producer_id(broker) if numbered else -1) for number in range(connections)]
            frames = produce_frames(batch, targets, requests // connections + 1 if numbered else 1)
            cpu = broker.cpu_seconds()
            answer = self.clients.produce(
                broker.port, frames, connections=connections, in_flight=in_flight, requests=requests, seconds=self.seconds
            )
            cpu = broker.cpu_seconds() - cpu
            ends = sum(end_offset(broker, topic, number) for number in range(connections))
        records = answer["requests"] * frames.record_count
        assert ends == records, f"{broker.name}: {records} records were acknowledged, the log ends say {ends}"
        return answer["rate"], cpu / answer["requests"] * 1e6, answer

    def bare_mb(
        self, broker: Broker, key: str, batch: bytes, count: int, *, numbered: bool = False, producers: int = 1
    ) -> Measured:
        """MB/s of values; each producer has a partition and a connection of its own, and four requests in flight."""
        requests = self.megabytes * 1_000_000 // (count * RECORD)
        rate, cpu, _ = self.bare(broker, batch, requests, connections=producers, in_flight=4, numbered=numbered)
        megabytes = count * RECORD / 1e6
        return {f"{key} bare": rate * megabytes, f"{key} bare cpu": cpu / megabytes}

    # Through librdkafka.

    def librdkafka(self, broker: Broker, mode: str, size: int, records: int, settings: dict[str, Any]) -> dict[str, Any]:
        with self.topic(broker) as topic:
            cpu = broker.cpu_seconds()
            answer = self.clients.librdkafka(
                mode, broker.bootstrap, topic, size=size, records=records, seconds=self.seconds, settings=settings
            )
            answer["server_cpu"] = broker.cpu_seconds() - cpu
        return answer

    def librdkafka_mb(self, broker: Broker, key: str, settings: dict[str, Any], share: float = 1.0) -> Measured:
        records = int(self.megabytes * 1_000_000 * share / RECORD)
        answer = self.librdkafka(broker, "produce", RECORD, records, {**QUEUE, **settings})
        megabytes = answer["records"] * RECORD / 1e6
        return {f"{key} librdkafka": answer["mb_s"], f"{key} librdkafka cpu": answer["server_cpu"] / megabytes * 1e6}

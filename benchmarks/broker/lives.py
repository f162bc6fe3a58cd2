"""Figures of a broker's life: how long it takes to start, what it keeps in memory, what idle connections and many partitions cost.

start         over an empty directory that was used once before, to the first Metadata answer; and the memory it then holds
unclean       kill -9 behind a partition of 4 GB, without a recovery point: every byte of it is read again before it is served
connections   1,000 connections that asked one thing and stay: memory, and CPU over some idle seconds
partitions    1,000 topics of 10 partitions: start after a clean stop, and producing to all of them in turn against one topic
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from benchmarks.broker.brokers import Broker
from benchmarks.broker.clients import Clients
from benchmarks.broker.frames import Target, batch_of, produce_frames, records_that_fit
from benchmarks.broker.load import KB64, RECORD, Measured
from benchmarks.broker.topics import create_topics, delete_topic, end_offset, settle, wait_until
from milepost.client.connection import Connection
from milepost.protocol.messages import MetadataRequest

STARTS = 3
IDLE_CONNECTIONS = 1000
IDLE_SECONDS = 10.0
TOPICS, PARTITIONS = 1000, 10
TOPICS_AT_ONCE = 50
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


class Lives:
    """Each job starts and ends brokers as it needs them, over a directory of its own."""

    def __init__(self, clients: Clients, directory: Path, gigabytes: float, topics: int = TOPICS):
        self.clients = clients
        self.directory = directory
        self.gigabytes = gigabytes
        self.topics = topics

    def start(self, kind: type[Broker]) -> Measured:
        broker = kind(self.directory / "start")
        try:
            broker.start()
            times = []
            for _ in range(STARTS):
                broker.stop()
                times.append(broker.start())
            time.sleep(1.0)
            return {"start": sorted(times)[STARTS // 2] * 1000, "rss idle": broker.rss_mb()}
        finally:
            broker.remove()

    def unclean(self, kind: type[Broker]) -> Measured:
        broker = kind(self.directory / "unclean")
        try:
            broker.start()
            create_topics(broker, ["unclean"], 1)
            batch = batch_of(records_that_fit(KB64, RECORD), RECORD)
            requests = int(self.gigabytes * 1e9 / len(batch))
            frames = produce_frames(batch, [Target("unclean")])
            self.clients.produce(broker.port, frames, connections=1, in_flight=4, requests=requests, seconds=600)
            records = end_offset(broker, "unclean", 0)
            assert records == requests * frames.record_count
            settle()
            broker.kill()
            for path in broker.data.glob(f"**/{RECOVERY_POINTS}"):
                path.unlink()
            before = time.monotonic()
            broker.start()
            wait_until(lambda: end_offset(broker, "unclean", 0) == records, f"{broker.name}: the partition is not back")
            return {"unclean": time.monotonic() - before}
        finally:
            broker.remove()
            settle()

    def connections(self, kind: type[Broker]) -> Measured:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        broker = kind(self.directory / "connections")
        connections: list[Connection] = []
        try:
            broker.start()
            for _ in range(50):  # what the first requests load and allocate is not the connections'
                with broker.connect() as connection:
                    connection.ask(MetadataRequest(topics=[]))
            time.sleep(1.0)
            memory = broker.rss_mb()
            cpu = broker.cpu_seconds()
            time.sleep(IDLE_SECONDS)
            idle = broker.cpu_seconds() - cpu
            for _ in range(IDLE_CONNECTIONS):
                connections.append(broker.connect())
            time.sleep(1.0)
            grown = broker.rss_mb() - memory
            cpu = broker.cpu_seconds()
            time.sleep(IDLE_SECONDS)
            busy = broker.cpu_seconds() - cpu
            return {
                "connections memory": grown,
                "connections cpu": (busy - idle) / IDLE_SECONDS * 100,
                "idle cpu": idle / IDLE_SECONDS * 100,
            }
        finally:
            for connection in connections:
                connection.close()
            broker.remove()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def partitions(self, kind: type[Broker]) -> Measured:
        broker = kind(self.directory / "partitions")
        try:
            broker.start()
            one = self._rate(broker, [Target("alone-0000", number) for number in range(PARTITIONS)], ["alone-0000"])
            names = [f"many--{number:04d}" for number in range(self.topics)]
            before = time.monotonic()
            for start in range(0, len(names), TOPICS_AT_ONCE):
                create_topics(broker, names[start : start + TOPICS_AT_ONCE], PARTITIONS)
            created = time.monotonic() - before
            # In turn over the topics, so that every request goes to another file than the one before.
            targets = [Target(name, number) for number in range(PARTITIONS) for name in names]
            self._rate(broker, targets, [])
            many = self._rate(broker, targets, [])
            settle()
            broker.stop()
            started = broker.start()
            memory = broker.rss_mb()
            beside = self._rate(broker, [Target("beside-000", number) for number in range(PARTITIONS)], ["beside-000"])
            return {
                "partitions create": created,
                "partitions start": started,
                "partitions rss": memory,
                "partitions one MB/s": one,
                "partitions all": many / one * 100,
                "partitions beside": beside / one * 100,
            }
        finally:
            broker.remove()
            settle()

    def _rate(self, broker: Broker, targets: list[Target], new_topics: list[str]) -> float:
        """MB/s of one producer that sends a batch of 64 KB to each target in turn."""
        if new_topics:
            create_topics(broker, new_topics, PARTITIONS)
        batch = batch_of(records_that_fit(KB64, RECORD), RECORD)
        frames = produce_frames(batch, targets)
        requests = max(len(targets), 12_000)
        answer = self.clients.produce(broker.port, frames, connections=1, in_flight=4, requests=requests, seconds=120)
        for name in new_topics:
            delete_topic(broker, name)
        settle()
        return float(answer["mb_s"])

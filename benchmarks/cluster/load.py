"""Figures of a cluster at work: one partition of three replicas, of which two have to have a record before it is acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.broker.clients import Clients
from benchmarks.broker.frames import Target, batch_of, produce_frames, records_that_fit
from benchmarks.broker.load import KB64, QUEUE, RECORD, SMALL, Measured
from benchmarks.cluster.clusters import Cluster
from benchmarks.cluster.topics import drop_topic, leader_of, make_topic


class Load:
    def __init__(self, clients: Clients, megabytes: int, seconds: float, waits: int):
        self.clients = clients
        self.megabytes = megabytes
        self.seconds = seconds
        self.waits = waits
        self._topics = 0

    @contextmanager
    def topic(self, cluster: Cluster, partitions: int = 1) -> Iterator[tuple[str, int]]:
        """A topic for one run, and the port of its first partition's leader; names are numbered so that they have one length."""
        self._topics += 1
        name = f"bench-{self._topics:06d}"
        make_topic(cluster, name, partitions)
        leader = leader_of(cluster, name)
        assert leader is not None
        yield name, cluster.brokers[leader].port
        drop_topic(cluster, name)

    def kb64(self, cluster: Cluster) -> Measured:
        count = records_that_fit(KB64, RECORD)
        requests = self.megabytes * 1_000_000 // (count * RECORD)
        batch = batch_of(count, RECORD)
        with self.topic(cluster) as (name, port):
            frames = produce_frames(batch, [Target(name)])
            cpu = cluster.cpu_seconds()
            bare = self.clients.produce(port, frames, connections=1, in_flight=4, requests=requests, seconds=self.seconds)
            cpu = cluster.cpu_seconds() - cpu
        megabytes = count * RECORD / 1e6
        settings = {**QUEUE, "batch.size": KB64, "linger.ms": 5, "acks": "all"}
        records = int(self.megabytes * 1_000_000 / RECORD)
        answer, rdkafka_cpu = self._librdkafka(cluster, "produce", RECORD, records, settings)
        return {
            "64k bare": bare["rate"] * megabytes,
            "64k bare cpu": cpu / (bare["requests"] * megabytes) * 1e6,
            "64k librdkafka": answer["mb_s"],
            "64k librdkafka cpu": rdkafka_cpu / (answer["records"] * RECORD / 1e6) * 1e6,
        }

    def latency(self, cluster: Cluster) -> Measured:
        with self.topic(cluster) as (name, port):
            frames = produce_frames(batch_of(1, SMALL), [Target(name)])
            cpu = cluster.cpu_seconds()
            bare = self.clients.produce(port, frames, connections=1, in_flight=1, requests=self.waits, seconds=self.seconds)
            cpu = cluster.cpu_seconds() - cpu
        answer, rdkafka_cpu = self._librdkafka(cluster, "wait", SMALL, self.waits, {"linger.ms": 0, "acks": "all"})
        return {
            "p50 bare": bare["p50_us"],
            "p50 bare cpu": cpu / bare["requests"] * 1e6,
            "p99 bare": bare["p99_us"],
            "p50 librdkafka": answer["p50_us"],
            "p50 librdkafka cpu": rdkafka_cpu / answer["records"] * 1e6,
            "p99 librdkafka": answer["p99_us"],
        }

    def _librdkafka(
        self, cluster: Cluster, mode: str, size: int, records: int, settings: dict[str, Any]
    ) -> tuple[dict[str, Any], float]:
        with self.topic(cluster) as (name, _):
            cpu = cluster.cpu_seconds()
            answer = self.clients.librdkafka(
                mode, cluster.bootstrap, name, size=size, records=records, seconds=self.seconds, settings=settings
            )
            return answer, cluster.cpu_seconds() - cpu

"""What a request costs the broker, by the way it takes through it: `python -m benchmarks.broker.ways`; a Markdown table of medians.

One broker alone, and the bare client (`bare.c`), whose frames were made beforehand, so that it takes little of the machine and always the
same. Measured is the CPU time of the broker's process for one request, and what came of it: requests in a second, MB/s, or how long one
was waited for. CPU for a request is steadier than a rate where others use the machine too.

    produce     one record; the same of an idempotent producer; 64 KB; 16 KB, idempotent, as Java's producer fills its batches; eight
                partitions with a record each, plainly and as Java sends them (idempotent, by topic id). 64 requests are in flight
                (64 KB: 4, 16 KB: 5), so that the broker finds several when it looks
    handler     the same with a tagged field that no version of Produce knows and that has to be skipped: nothing that is made for the
                requests of ordinary producers has a reason to take it, so that the handler does
    waiting     one record, and the next one when it is acknowledged. The CPU includes that of an event loop that stays awake for a moment
    fetch       eight consumers, each on a partition of its own, who get one batch of one record for each request: in a fetch session,
                where a request names what has changed, or with a full request each time
    next, idle  consumers that have read everything: the next record as it comes (a sixteenth of a produce request is in the figure), or
                none after a wait (`benchmarks/broker/keeping_up`)
    --cluster   three brokers with a ZooKeeper, three replicas, acks=all; the CPU is that of the three brokers together

`--beside` measures another milepost in the same run, way by way in turns (`benchmarks/installed.py` says what it takes): only figures of
one run can be compared. The first round is not counted.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.broker.__main__ import Notebook, machine
from benchmarks.broker.brokers import Milepost, other_milepost
from benchmarks.broker.clients import Clients
from benchmarks.broker.frames import NO_TOPIC_ID, Target, batch_of, produce_frames, records_that_fit
from benchmarks.broker.keeping_up import Readers
from benchmarks.broker.load import KB16, KB64, RECORD, SMALL, Load, Measured
from benchmarks.broker.table import Results, shown
from benchmarks.broker.topics import Served, end_offset, producer_id, topic_id
from benchmarks.cluster import clusters
from benchmarks.cluster.load import Load as ClusterLoad
from benchmarks.installed import BESIDE, beside, compared

CPU = " CPU"
CONSUMERS = 8
RECORDS_FOR_EACH = 10_000
UNCOUNTED_ROUNDS = 5
ONE_BATCH = 1
"""Bytes: the first batch is answered whole, however large it is."""


@dataclass(frozen=True)
class Run:
    """One run: over a topic of its own, on a broker that leads its partitions. CPU is what a run takes from all that is measured."""

    clients: Clients
    seconds: float
    broker: Served
    topic: str
    cpu_seconds: Callable[[], float]


@dataclass(frozen=True)
class Produce:
    """Produce requests of one kind on one connection, `requests` at most."""

    name: str
    requests: int = 300_000
    records: int = 1
    record_size: int = SMALL
    partitions: int = 1
    in_flight: int = 64
    is_idempotent: bool = False
    is_by_id: bool = False
    has_unknown_tag: bool = False

    @property
    def rows(self) -> dict[str, str]:
        """Of the table: their names, and the unit of what is measured besides CPU."""
        if self.in_flight == 1:
            return {self.name: "us"}
        return {self.name: "/s"} | ({f"{self.name}: 1 MB": "MB/s"} if self.record_size == RECORD else {})

    def measure(self, run: Run) -> Measured:
        target = Target(
            run.topic,
            producer_id=producer_id(run.broker) if self.is_idempotent else -1,
            partitions=self.partitions,
            topic_id=topic_id(run.broker, run.topic) if self.is_by_id else NO_TOPIC_ID,
        )
        batch = batch_of(self.records, self.record_size)
        numbered = self.requests if self.is_idempotent else 1
        frames = produce_frames(batch, [target], numbered, has_unknown_tag=self.has_unknown_tag)
        before = run.cpu_seconds()
        answer = run.clients.produce(
            run.broker.port, frames, connections=1, in_flight=self.in_flight, requests=self.requests, seconds=run.seconds
        )
        cpu = (run.cpu_seconds() - before) * 1e6
        records = answer["requests"] * frames.record_count
        ends = sum(end_offset(run.broker, run.topic, number) for number in range(self.partitions))
        assert ends == records, f"{self.name}: {records} records were acknowledged, the log ends say {ends}"
        megabytes = records * self.record_size / 1e6
        figures = {"us": answer["p50_us"], "/s": answer["rate"], "MB/s": megabytes / answer["seconds"]}
        counts = {"us": answer["requests"], "/s": answer["requests"], "MB/s": megabytes}
        return {name: figures[unit] for name, unit in self.rows.items()} | {
            name + CPU: cpu / counts[unit] for name, unit in self.rows.items()
        }


@dataclass(frozen=True)
class Fetch:
    """Fetches by topic id, as the newest clients send them, of consumers who are given one batch at a time."""

    name: str
    in_session: bool
    partitions: int = CONSUMERS

    @property
    def rows(self) -> dict[str, str]:
        return {self.name: "/s"}

    def measure(self, run: Run) -> Measured:
        identity = topic_id(run.broker, run.topic)
        targets = [Target(run.topic, number, topic_id=identity) for number in range(CONSUMERS)]
        frames = produce_frames(batch_of(1, SMALL), targets)
        count = CONSUMERS * RECORDS_FOR_EACH
        run.clients.produce(run.broker.port, frames, connections=CONSUMERS, in_flight=16, requests=count, seconds=60)
        before = run.cpu_seconds()
        answer = run.clients.fetch(
            run.broker.port,
            targets,
            max_bytes=ONE_BATCH,
            records=RECORDS_FOR_EACH,
            seconds=run.seconds,
            in_session=self.in_session,
        )
        cpu = (run.cpu_seconds() - before) * 1e6
        # At the end of the time the last request of each is on its way.
        assert answer["records"] <= answer["requests"] <= answer["records"] + CONSUMERS, (
            f"{self.name}: not one record each: {answer}"
        )
        return {self.name: answer["rate"], self.name + CPU: cpu / answer["requests"]}


@dataclass(frozen=True)
class KeepUp:
    """Consumers that have read everything, and fetch what comes next."""

    name: str
    in_session: bool
    partitions: int
    has_news: bool = True

    @property
    def rows(self) -> dict[str, str]:
        return {self.name: "/s"}

    def measure(self, run: Run) -> Measured:
        rounds = Readers(run.broker, run.topic, self.partitions, self.in_session, self.has_news).rounds()
        for _ in range(UNCOUNTED_ROUNDS):
            next(rounds)
        requests, start, before = 0, time.monotonic(), run.cpu_seconds()
        while time.monotonic() < start + run.seconds:
            requests += next(rounds)
        cpu, seconds = (run.cpu_seconds() - before) * 1e6, time.monotonic() - start
        rounds.close()
        return {self.name: requests / seconds, self.name + CPU: cpu / requests}


Way = Produce | Fetch | KeepUp
IN_64_KB, IN_16_KB = records_that_fit(KB64, RECORD), records_that_fit(KB16, RECORD)
WAYS: dict[str, Way] = {
    "one": Produce("one record"),
    "64k": Produce("64 KB batches", requests=12_000, records=IN_64_KB, record_size=RECORD, in_flight=4),
    "16k": Produce(
        "16 KB batches, idempotent", requests=40_000, records=IN_16_KB, record_size=RECORD, in_flight=5, is_idempotent=True
    ),
    "idempotent": Produce("one record, idempotent", requests=200_000, is_idempotent=True),
    "eight": Produce("eight partitions, a record each", requests=60_000, partitions=8),
    "eight-java": Produce(
        "eight partitions, idempotent, by topic id, as Java sends them",
        requests=30_000,
        partitions=8,
        is_idempotent=True,
        is_by_id=True,
    ),
    "one-handler": Produce("one record, by the handler", requests=60_000, has_unknown_tag=True),
    "eight-handler": Produce("eight partitions, by the handler", requests=30_000, partitions=8, has_unknown_tag=True),
    "waiting": Produce("one record, one at a time: p50", requests=20_000, in_flight=1),
    "session": Fetch("fetch in a session, one record", in_session=True),
    "full": Fetch("fetch without a session, one record", in_session=False),
    "next": KeepUp("the next record of one partition, without a session", in_session=False, partitions=1),
    "next-java": KeepUp("the next record of one of sixteen partitions, in a session", in_session=True, partitions=16),
    "next-rdkafka": KeepUp("the next record of one of sixteen partitions, without a session", in_session=False, partitions=16),
    "idle": KeepUp("nothing new in sixteen partitions, in a session", in_session=True, partitions=16, has_news=False),
}
CLUSTER_WAYS: dict[str, Way] = {
    "waiting": Produce("3 replicas: one record, one at a time: p50", requests=5000, in_flight=1),
    "one": Produce("3 replicas: one record", requests=60_000),
    "64k": Produce("3 replicas: 64 KB batches", requests=4000, records=IN_64_KB, record_size=RECORD, in_flight=4),
}


def alone(given: argparse.Namespace, clients: Clients, directory: Path, notes: Notebook) -> None:
    kinds = [Milepost, *([other_milepost(beside(given.beside))] if given.beside else [])]
    brokers = [kind(directory) for kind in kinds]
    load = Load(clients, 0, given.seconds)
    try:
        for broker in brokers:
            broker.start()
        for round_ in range(given.rounds + 1):
            for key in given.ways:
                way = WAYS[key]
                for broker in brokers:
                    with load.topic(broker, way.partitions) as topic:
                        measured = way.measure(Run(clients, given.seconds, broker, topic, broker.cpu_seconds))
                    if round_:
                        notes.add(broker.name, key, measured)
    finally:
        for broker in brokers:
            broker.remove()


def in_clusters(given: argparse.Namespace, clients: Clients, directory: Path, notes: Notebook) -> None:
    """The cluster whose turn it is not is stopped meanwhile, and its sessions outlast that."""
    kinds = [clusters.MilepostCluster, *([clusters.other_milepost(beside(given.beside))] if given.beside else [])]
    both = [kind(directory / "cluster", session_ms=60_000) for kind in kinds]
    load = ClusterLoad(clients, 0, given.seconds, 0)
    try:
        for cluster in both:
            cluster.start()
        for round_ in range(given.rounds + 1):
            for key in given.ways:
                for cluster in both:
                    with ExitStack() as others:
                        for other in both:
                            if other is not cluster:
                                others.enter_context(other.away())
                        with load.topic(cluster) as (topic, port):
                            leader = next(broker for broker in cluster.brokers.values() if broker.port == port)
                            measured = CLUSTER_WAYS[key].measure(Run(clients, given.seconds, leader, topic, cluster.cpu_seconds))
                    if round_:
                        notes.add(cluster.name, key, measured)
    finally:
        for cluster in both:
            cluster.remove()


def markdown(ways: Sequence[Way], own: Results, other: Results | None, peer: str) -> str:
    """For each way the CPU for one unit, and what else was measured; beside another milepost both of both, and the ratios."""
    if other is None:
        lines = ["| | CPU | |", "|---|---:|---:|"]
    else:
        lines = [f"| | CPU, milepost | CPU, {peer} | ratio | milepost | {peer} | ratio |", "|---|---:|---:|---:|---:|---:|---:|"]
    for name, unit in (row for way in ways for row in way.rows.items()):
        cells = [name]
        for key, in_unit in ((name + CPU, "us"), (name, unit)):
            mine = median(own[key])
            cells.append(shown(mine, in_unit))
            if other is not None:
                theirs = median(other[key])
                cells += [shown(theirs, in_unit), f"{mine / theirs:.2f}x"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker.ways", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--ways", help=f"some of {','.join(WAYS)}, with --cluster of {','.join(CLUSTER_WAYS)}; default all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="each run ends after so long")
    parser.add_argument("--cluster", action="store_true", help="three brokers and a ZooKeeper (needs Java) instead of one alone")
    parser.add_argument("--directory", help="for the data, on the disk that is meant; default a temporary one")
    parser.add_argument("--beside", metavar="PYTHON|SOURCES", help=BESIDE)
    given = parser.parse_args()
    there_are = CLUSTER_WAYS if given.cluster else WAYS
    given.ways = given.ways.split(",") if given.ways else list(there_are)
    unknown = set(given.ways) - set(there_are)
    if unknown:
        parser.error(f"there is no way {', '.join(sorted(unknown))}")
    return given


def main() -> None:
    given = parsed()
    what = compared(given.beside)
    directory = Path(tempfile.mkdtemp(prefix="milepost-bench-", dir=given.directory))
    notes = Notebook()
    try:
        clients = Clients(directory / "clients")
        (in_clusters if given.cluster else alone)(given, clients, directory, notes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    own, other = notes.of("milepost"), notes.of("other")
    there_are = CLUSTER_WAYS if given.cluster else WAYS
    print(f"\n{machine()}; medians of {given.rounds} rounds\n{what}\n")
    print(markdown([there_are[key] for key in given.ways], own, other, given.beside))


if __name__ == "__main__":
    main()

"""`make bench-broker`: milepost against Apache Kafka 4.3.0 on this machine, in interleaved rounds; a Markdown table of medians.

Both brokers run at the same time over data directories of their own, and are measured in turns, figure by figure: milepost, Kafka,
milepost, Kafka. The clients are a bare one (`bare.c`), librdkafka, and Java's own (`java-1`, `java-16`: one partition, sixteen). Each run
has a topic of its own, which is deleted afterwards, and the disk is given time to settle, so that both find the page cache in the same
state. Figures about starting take a broker of their own. Without Java or Maven only milepost is measured, and not with Java's clients.

Full validation of records is on in both. Nothing is synced to the disk before it is acknowledged, in both: that is Kafka's default.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from benchmarks.broker.brokers import Broker, Kafka, Milepost, other_milepost
from benchmarks.broker.clients import Clients
from benchmarks.broker.kafka_jars import Unavailable, jars, java
from benchmarks.broker.lives import Lives
from benchmarks.broker.load import Load, Measured
from benchmarks.broker.table import Results, markdown
from benchmarks.installed import BESIDE, beside, compared

LOADS = ["64k", "1m", "lz4", "idempotent", "one", "latency", "consume", "java-1", "java-16"]
JAVA_LOADS = {"java-1", "java-16"}
LIVES = ["start", "unclean", "connections", "partitions"]
WARM_UP_MB = 300


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--figures", default=",".join(LOADS + LIVES), help=f"some of {','.join(LOADS + LIVES)}; default all")
    parser.add_argument("--rounds", type=int, default=5, help="of each figure under load")
    parser.add_argument("--life-rounds", type=int, default=1, help="of each figure that starts brokers")
    parser.add_argument("--megabytes", type=int, default=800, help="of each run of bulk produce and consume")
    parser.add_argument("--seconds", type=float, default=4.0, help="each run of produce ends after so long")
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of the partition that is recovered")
    parser.add_argument("--directory", help="for the data, on the disk that is meant; default a temporary one")
    parser.add_argument("--only", choices=["milepost", "kafka"], help="one of the two alone")
    parser.add_argument("--beside", metavar="PYTHON|SOURCES", help=f"instead of Kafka, {BESIDE}")
    given = parser.parse_args()
    unknown = set(given.figures.split(",")) - set(LOADS + LIVES)
    if unknown:
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    return given


def kinds(only: str | None, named: str | None) -> list[type[Broker]]:
    if named:
        return [Milepost, other_milepost(beside(named))]
    if only == "milepost":
        return [Milepost]
    try:
        java(), jars()
    except Unavailable as reason:
        print(f"Only milepost is measured: {reason}.\n")
        return [Milepost]
    return [Kafka] if only == "kafka" else [Milepost, Kafka]


def has_java_clients() -> bool:
    try:
        java(), jars()
    except Unavailable as reason:
        print(f"Java's clients are not measured: {reason}.\n")
        return False
    return True


class Notebook:
    """What was measured, by broker and figure."""

    def __init__(self) -> None:
        self.results: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, name: str, figure: str, measured: Measured) -> None:
        for key, value in measured.items():
            self.results[name][key].append(value)
        shown = ", ".join(f"{key} {value:,.3g}" for key, value in measured.items() if not key.endswith(" cpu"))
        print(f"{time.strftime('%H:%M:%S')} {name:<8} {figure:<12} {shown}", flush=True)

    def of(self, name: str) -> Results | None:
        return self.results.get(name)


def under_load(given: argparse.Namespace, both: list[type[Broker]], clients: Clients, directory: Path, notes: Notebook) -> None:
    figures = [figure for figure in LOADS if figure in given.figures.split(",")]
    if JAVA_LOADS & set(figures) and not has_java_clients():
        figures = [figure for figure in figures if figure not in JAVA_LOADS]
    if not figures:
        return
    load = Load(clients, given.megabytes, given.seconds)
    jobs: dict[str, Callable[[Broker], Measured]] = {
        "64k": load.kb64,
        "1m": load.mb1,
        "lz4": load.lz4,
        "idempotent": load.idempotent,
        "one": load.one_record,
        "latency": load.latency,
        "consume": load.consume,
        "java-1": lambda broker: load.java(broker, 1),
        "java-16": lambda broker: load.java(broker, 16),
    }
    brokers = [kind(directory / "load") for kind in both]
    try:
        for broker in brokers:
            broker.start()
        warm_up(brokers, clients, figures, jobs)
        for _ in range(given.rounds):
            for figure in figures:
                for broker in brokers:
                    notes.add(broker.name, figure, jobs[figure](broker))
        for broker in brokers:
            notes.add(broker.name, "memory", {"rss load": broker.rss_mb()})
    finally:
        for broker in brokers:
            broker.remove()


def warm_up(brokers: list[Broker], clients: Clients, figures: list[str], jobs: dict[str, Callable[[Broker], Measured]]) -> None:
    """One run of each figure that is not counted: the JVM compiles what it has seen often enough."""
    for figure in figures:
        for broker in brokers:
            jobs[figure](broker)


def of_lives(given: argparse.Namespace, both: list[type[Broker]], clients: Clients, directory: Path, notes: Notebook) -> None:
    lives = Lives(clients, directory / "lives", given.gigabytes)
    jobs = {"start": lives.start, "unclean": lives.unclean, "connections": lives.connections, "partitions": lives.partitions}
    for figure in (figure for figure in LIVES if figure in given.figures.split(",")):
        for _ in range(given.life_rounds):
            for kind in both:
                notes.add(kind.name, figure, jobs[figure](kind))


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} cores, {memory:.0f} GB of memory, Linux {os.uname().release}"


def main() -> None:
    given = parsed()
    directory = Path(tempfile.mkdtemp(prefix="milepost-bench-", dir=given.directory))
    try:
        clients = Clients(directory / "clients")
        both = kinds(given.only, given.beside)
        notes = Notebook()
        under_load(given, both, clients, directory, notes)
        of_lives(given, both, clients, directory, notes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    own, other = notes.of(Milepost.name), notes.of("other" if given.beside else Kafka.name)
    print(f"\n{machine()}; medians of {given.rounds} rounds under load, {given.life_rounds} of the others")
    print(f"{compared(given.beside)}\n")
    print(markdown(own, other, peer=given.beside or "Kafka 4.3.0"))


if __name__ == "__main__":
    main()

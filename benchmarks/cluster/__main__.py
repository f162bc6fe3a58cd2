"""`make bench-cluster`: three milepost brokers against three of Apache Kafka 3.9.1 with ZooKeeper, in turns; a Markdown table of medians.

Both clusters are there for the figures under load and are measured in turns: milepost, Kafka, milepost, Kafka; the one whose turn it is not
is stopped (SIGSTOP), so that it takes nothing from the other and stays warm. Each run has a topic of its own, which is deleted afterwards.
What starts or kills brokers has a cluster of its own, one after the other. Without Java nothing can be measured, because both need
ZooKeeper; without Maven only milepost is.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker.__main__ import Notebook, machine
from benchmarks.broker.clients import Clients
from benchmarks.broker.kafka_jars import Unavailable, jars, java
from benchmarks.broker.load import Measured
from benchmarks.broker.table import markdown
from benchmarks.cluster.clusters import KAFKA, POM, Cluster, KafkaCluster, MilepostCluster, other_milepost
from benchmarks.cluster.control import Control
from benchmarks.cluster.events import Events
from benchmarks.cluster.figures import FIGURES
from benchmarks.cluster.load import Load
from benchmarks.installed import BESIDE, beside, compared

LOADS = ["64k", "latency"]
EVENTS = ["up", "failover", "move", "catch-up", "control"]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--figures", default=",".join(LOADS + EVENTS), help=f"some of {','.join(LOADS + EVENTS)}; default all")
    parser.add_argument("--rounds", type=int, default=5, help="of each figure under load")
    parser.add_argument("--event-rounds", type=int, default=3, help="of each figure that starts clusters")
    parser.add_argument("--megabytes", type=int, default=400, help="of each run of bulk produce")
    parser.add_argument("--seconds", type=float, default=4.0, help="each run under load ends after so long")
    parser.add_argument("--waits", type=int, default=5000, help="records that are sent one by one")
    parser.add_argument("--partitions", type=int, default=1000, help="whose controller dies")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="that a follower missed")
    parser.add_argument("--directory", help="for the data, on the disk that is meant; default a temporary one")
    parser.add_argument("--only", choices=["milepost", "kafka"], help="one of the two alone")
    parser.add_argument("--beside", metavar="PYTHON|SOURCES", help=f"instead of Kafka, {BESIDE}")
    given = parser.parse_args()
    unknown = set(given.figures.split(",")) - set(LOADS + EVENTS)
    if unknown:
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    return given


def kinds(only: str | None, named: str | None) -> list[type[Cluster]]:
    java()
    if named:
        return [MilepostCluster, other_milepost(beside(named))]
    if only == "milepost":
        return [MilepostCluster]
    try:
        jars(POM, KAFKA)
    except Unavailable as reason:
        print(f"Only milepost is measured: {reason}.\n")
        return [MilepostCluster]
    return [KafkaCluster] if only == "kafka" else [MilepostCluster, KafkaCluster]


def under_load(given: argparse.Namespace, both: list[type[Cluster]], clients: Clients, directory: Path, notes: Notebook) -> None:
    figures = [figure for figure in LOADS if figure in given.figures.split(",")]
    if not figures:
        return
    load = Load(clients, given.megabytes, given.seconds, given.waits)
    jobs: dict[str, Callable[[Cluster], Measured]] = {"64k": load.kb64, "latency": load.latency}
    # Their sessions outlast the other's turn.
    clusters = [kind(directory / "load", session_ms=60_000) for kind in both]
    try:
        for cluster in clusters:
            cluster.start()
        # One run of each is not counted: the JVM compiles what it has seen often enough.
        for round_ in range(given.rounds + 1):
            for figure in figures:
                for cluster in clusters:
                    with ExitStack() as others:
                        for other in clusters:
                            if other is not cluster:
                                others.enter_context(other.away())
                        measured = jobs[figure](cluster)
                    if round_:
                        notes.add(cluster.name, figure, measured)
        for cluster in clusters:
            notes.add(cluster.name, "memory", {"rss load": cluster.rss_mb()})
    finally:
        for cluster in clusters:
            cluster.remove()


def of_events(given: argparse.Namespace, both: list[type[Cluster]], clients: Clients, directory: Path, notes: Notebook) -> None:
    events = Events(clients, directory / "events", given.partitions, given.gigabytes)
    control = Control(clients, directory / "control", given.seconds)
    jobs: dict[str, Callable[[type[Cluster]], Measured]] = {
        "up": events.up,
        "failover": events.failover,
        "move": events.move,
        "catch-up": events.catch_up,
        "control": control.measure,
    }
    for figure in (figure for figure in EVENTS if figure in given.figures.split(",")):
        for _ in range(given.event_rounds):
            for kind in both:
                notes.add(kind.name, figure, jobs[figure](kind))


def main() -> None:
    given = parsed()
    try:
        both = kinds(given.only, given.beside)
    except Unavailable as reason:
        raise SystemExit(f"Nothing can be measured: {reason}, and ZooKeeper needs it.") from None
    directory = Path(tempfile.mkdtemp(prefix="milepost-bench-", dir=given.directory))
    notes = Notebook()
    try:
        clients = Clients(directory / "clients")
        under_load(given, both, clients, directory, notes)
        of_events(given, both, clients, directory, notes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        own, other = notes.of(MilepostCluster.name), notes.of("other" if given.beside else KafkaCluster.name)
        size = f"{given.partitions:,} partitions, {given.gigabytes:g} GB missed"
        print(f"\n{machine()}; medians of {given.rounds} rounds under load, {given.event_rounds} of the others; {size}")
        print(f"{compared(given.beside)}\n")
        print(markdown(own, other, FIGURES, peer=given.beside or f"Kafka {KAFKA}"))


if __name__ == "__main__":
    main()

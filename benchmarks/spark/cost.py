"""What a query costs: seconds of wall time, and seconds of CPU in this process' children (the JVM and its Python workers)."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float


def children_cpu() -> float:
    """Of every process below this one, with what their ended children used."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks[child] for child in below if child != os.getpid()) / TICKS


def measure(work: Callable[[], object]) -> Cost:
    cpu, start = children_cpu(), time.perf_counter()
    work()
    wall = time.perf_counter() - start
    return Cost(wall, children_cpu() - cpu)


def compare(peers: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[Cost]]:
    """Each piece of work once to warm up, then all of them in turn: what else the machine does hits them alike."""
    for work in peers.values():
        work()
    found: dict[str, list[Cost]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, work in peers.items():
            found[name].append(measure(work))
    return found


def median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(cost.wall for cost in costs), statistics.median(cost.cpu for cost in costs))


def best(costs: list[Cost]) -> Cost:
    """The least of each: what else the machine does only ever adds."""
    return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))

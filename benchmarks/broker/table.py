"""The figures, their goals, and the Markdown table of medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Results = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Figure:
    """`ratio`: the goal for milepost's figure divided by Kafka's; `most`: for milepost's own. Higher is better unless `is_cost`."""

    key: str
    name: str
    unit: str
    ratio: float | None = None
    most: float | None = None
    is_cost: bool = False

    def goal(self) -> str:
        if self.ratio is not None:
            return f"{'<=' if self.is_cost else '>='} {self.ratio:g}x"
        if self.most is not None:
            return f"{'<=' if self.is_cost else '>='} {self.most:g} {self.unit}"
        return ""

    def is_met(self, own: float, other: float | None) -> bool | None:
        """None: there is no goal, or nothing to compare with."""
        if self.ratio is not None and other:
            return own / other <= self.ratio if self.is_cost else own / other >= self.ratio
        if self.most is not None:
            return own <= self.most if self.is_cost else own >= self.most
        return None


def both_clients(key: str, name: str, unit: str, ratio: float, is_cost: bool = False) -> list[Figure]:
    clients = ("bare", "librdkafka")
    return [Figure(f"{key} {client}", f"{name}, {client}", unit, ratio=ratio, is_cost=is_cost) for client in clients]


def java_clients(partitions: int, faster: float | None, cpu: float) -> list[Figure]:
    """The goals are for MB/s, and for what the broker needs for one MB."""
    where = "1 partition" if partitions == 1 else f"{partitions} partitions"
    return [
        Figure(f"java-{partitions} produce", f"Java's producer, {where}", "MB/s", ratio=faster),
        Figure(f"java-{partitions} produce each MB", "the same, CPU of the broker for 1 MB", "us", ratio=cpu, is_cost=True),
        Figure(f"java-{partitions} consume", f"Java's consumer, {where}", "MB/s"),
        Figure(f"java-{partitions} consume each MB", "the same, CPU of the broker for 1 MB", "us", ratio=0.5, is_cost=True),
    ]


FIGURES = [
    *both_clients("64k", "produce, 64 KB batches", "MB/s", 3),
    Figure("64k four bare", "the same, four producers, bare", "MB/s"),
    *both_clients("1m", "produce, 1 MB batches", "MB/s", 1.3),
    *both_clients("lz4", "produce, 64 KB batches, lz4", "MB/s", 1),
    *both_clients("idempotent", "produce, 64 KB batches, idempotent", "MB/s", 3),
    *both_clients("one", "one-record requests", "/s", 4),
    Figure("one four bare", "the same, four producers, bare", "/s"),
    *both_clients("p50", "latency p50", "us", 0.6, is_cost=True),
    *both_clients("p99", "latency p99", "us", 0.7, is_cost=True),
    *both_clients("consume", "consume", "MB/s", 1.1),
    *java_clients(1, None, 0.25),
    *java_clients(16, 1.3, 0.35),
    Figure("rss load", "memory after the load", "MB", most=120, is_cost=True),
    Figure("start", "start to the first Metadata answer", "ms", most=250, is_cost=True),
    Figure("rss idle", "memory after the start", "MB", most=60, is_cost=True),
    Figure("unclean", "unclean start", "s", ratio=0.4, is_cost=True),
    Figure("connections memory", "1,000 idle connections, memory", "MB", most=20, is_cost=True),
    Figure("connections cpu", "1,000 idle connections, CPU beyond the idle broker's", "%", most=0.5, is_cost=True),
    Figure("idle cpu", "idle broker, CPU", "%"),
    Figure("partitions create", "10,000 partitions: created in", "s"),
    Figure("partitions start", "10,000 partitions: start after a clean stop", "s", most=5, is_cost=True),
    Figure("partitions rss", "10,000 partitions: memory after the start", "MB"),
    Figure("partitions one MB/s", "one topic of 10 partitions: produce", "MB/s"),
    Figure("partitions all", "10,000 partitions in turn: produce, against one topic", "%", most=80),
    Figure("partitions beside", "one topic beside 10,000 partitions: produce, against one topic", "%", most=80),
]


def markdown(own: Results | None, other: Results | None, figures: Sequence[Figure] = FIGURES, *, peer: str) -> str:
    """Medians of both, or of one of them. CPU is what the broker used for one unit: a MB, a request."""
    lines = [
        f"| | milepost | {peer} | ratio | goal | met | CPU, milepost | CPU, {peer} |",
        "|---|---:|---:|---:|---|---|---:|---:|",
    ]
    for figure in figures:
        mine, theirs = middle(own, figure), middle(other, figure)
        if mine is None and theirs is None:
            continue
        ratio = f"{mine / theirs:.2f}x" if mine is not None and theirs else ""
        met = {True: "yes", False: "no", None: ""}[None if mine is None else figure.is_met(mine, theirs)]
        cells = [figure.name, shown(mine, figure.unit), shown(theirs, figure.unit), ratio, figure.goal(), met]
        cells += [cpu_of(own, figure), cpu_of(other, figure)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def middle(results: Results | None, figure: Figure) -> float | None:
    found = (results or {}).get(figure.key)
    return median(found) if found else None


def shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"


def cpu_of(results: Results | None, figure: Figure) -> str:
    used = (results or {}).get(f"{figure.key} cpu")
    return shown(median(used), "us") if used else ""

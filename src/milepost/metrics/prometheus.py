"""Metrics in the text format of Prometheus, version 0.0.4:

    # HELP kafka_network_requestmetrics_totaltimems Time from receiving a request to having sent its answer
    # TYPE kafka_network_requestmetrics_totaltimems summary
    kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 1.25
    kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 8021.5
    kafka_network_requestmetrics_totaltimems_count{request="Produce"} 41250

The quantiles are those that Kafka gives, and 1 for the largest. The text comes in pieces, each made in a moment: ten thousand
partitions are a megabyte, and whoever makes it has other things to do in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from milepost.metrics.histogram import Histogram
from milepost.metrics.names import Dialect, Kind
from milepost.metrics.registry import Labels, Metric, Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999", "1")
SHARES = tuple(map(float, QUANTILES))
LINES_AT_ONCE = 64


def pieces(registry: Registry, dialect: Dialect = Dialect.STRIMZI) -> Iterator[str]:
    """The whole text, a few lines at a time. A metric without a value is left out."""
    for metric in registry:
        for name in metric.name.spellings(dialect, metric.kind):
            yield from metric_pieces(metric, name, dialect)


def metric_pieces(metric: Metric, name: str, dialect: Dialect) -> Iterator[str]:
    # In that dialect counts are not called total, and the count of a summary has no name of its own: some parsers rename the
    # one and refuse the other.
    is_typed = metric.kind is Kind.GAUGE or dialect is not Dialect.CONFLUENT
    kind = metric.kind.value if is_typed else "untyped"
    head = [f"# HELP {name} {escaped_help(metric.help)}", f"# TYPE {name} {kind}"]
    lines = list(head)
    for labels, value in metric.samples():
        lines += sample_lines(name, dialect, labels, value)
        if len(lines) >= LINES_AT_ONCE:
            yield "\n".join([*lines, ""])
            lines = []
    if lines and lines != head:
        yield "\n".join([*lines, ""])


def sample_lines(name: str, dialect: Dialect, labels: Labels, value: float | Histogram) -> list[str]:
    if not isinstance(value, Histogram):
        return [f"{name}{label_text(labels, dialect)} {number(value)}"]
    quantiles = zip(QUANTILES, value.quantiles(SHARES), strict=True)
    lines = [f"{name}{label_text((*labels, ('quantile', share)), dialect)} {number(reached)}" for share, reached in quantiles]
    text = label_text(labels, dialect)
    if dialect is Dialect.CONFLUENT:
        return [*lines, f"{name}{text} {value.count}"]
    return [*lines, f"{name}_sum{text} {number(value.total)}", f"{name}_count{text} {value.count}"]


def label_text(labels: Labels, dialect: Dialect) -> str:
    if not labels:
        return ""
    lower = dialect is Dialect.CONFLUENT
    return "{" + ",".join(f'{name.lower() if lower else name}="{escaped(value)}"' for name, value in labels) + "}"


def escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))  # True and False are numbers here
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"

"""The report of a run as one HTML file that opens without a server: what the stages did, and what the log holds, with plots.

Plots: records per hour, bytes per partition, how well each codec compresses, and how far each consumer of the log (an export, a stream)
lies behind its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import milepost
from milepost.spark.pipeline.plots import bars, lying_bars, short

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #eee;vertical-align:top}
svg{max-width:100%;height:auto}svg text{font-size:11px;fill:#555}code{background:#f4f4f4;padding:0 .2em}
"""


def render(
    name: str, when: str, stages: Sequence[Mapping[str, Any]], stats: Mapping[str, Any], lag: Sequence[tuple[str, int]]
) -> str:
    """`stages`: title, outcome, summary and evidence of each; `stats`: the tables of the stats job; `lag`: records behind, by consumer."""
    partitions, hours, codecs = stats.get("partitions", ()), stats.get("hours", ()), stats.get("codecs", ())
    records = sum(row["records"] for row in partitions)
    stored = sum(row["log_bytes"] for row in partitions)
    parts = [
        f"<h1>{escape(name)}</h1><p>{escape(when)}, milepost {escape(milepost.__version__)}: "
        f"{records:,} records in {len(partitions)} partitions, {short(stored)} bytes of log.</p>",
        "<h2>What was done</h2>",
        table(("stage", "outcome", "summary"), [(row["title"], row["outcome"], row["summary"]) for row in stages]),
        "<h2>Volume over time</h2>",
        bars([(hour_label(row["hour"]), row["records"]) for row in per_hour(hours)], "records per hour"),
        "<h2>Size</h2>",
        lying_bars([(f"{row['topic']}-{row['partition']}", row["log_bytes"]) for row in partitions], "bytes"),
        "<h2>Compression</h2>",
        lying_bars([(label, ratio) for label, ratio in ratios(codecs)], "times smaller"),
        "<h2>Lag</h2>",
        lying_bars([(consumer, behind) for consumer, behind in lag], "records behind"),
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(name)}</title><style>{STYLE}</style>'
        f"<body>{''.join(parts)}</body></html>\n"
    )


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def per_hour(hours: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All topics together, by hour; records without a time are left out."""
    found: dict[str, int] = {}
    for row in hours:
        if row["hour"] is not None:
            found[str(row["hour"])] = found.get(str(row["hour"]), 0) + row["records"]
    return [{"hour": hour, "records": records} for hour, records in sorted(found.items())]


def hour_label(hour: str) -> str:
    """`2018-05-15T11:00:00+00:00` as `05-15 11h`."""
    return f"{hour[5:10]} {hour[11:13]}h" if len(hour) >= 13 else hour


def ratios(codecs: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    sums: dict[str, list[int]] = {}
    for row in codecs:
        held = sums.setdefault(str(row["codec"]), [0, 0])
        held[0] += row["plain_bytes"]
        held[1] += row["stored_bytes"]
    return [(codec, plain / stored) for codec, (plain, stored) in sorted(sums.items()) if stored]

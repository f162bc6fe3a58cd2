"""`milepost pipeline stats PATH…`: what a log holds, per partition, codec and hour."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.pipeline_jobs.job import JobRunner, job_options
from milepost.cli.terminal.columns import write_columns
from milepost.inspect.times import format_time

if TYPE_CHECKING:
    from milepost.spark.jobs.job import JobResult

MOST_HOURS = 48


@click.command(name="stats", short_help="Records, bytes, keys, times, codecs and gaps of a log.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path())
@click.option("--topic", "topics", metavar="NAMES", help="Topics, separated by commas; all by default.")
@click.option("--keys", is_flag=True, help="Also the number of distinct keys, estimated: one more pass.")
@click.option("--output", metavar="DIR", type=click.Path(), help="The tables as Parquet files too.")
@job_options
def command(runner: JobRunner, paths: tuple[str, ...], topics: str | None, keys: bool, output: str | None) -> None:
    """Count what is in a log: per partition, per codec and per hour of the records' timestamps."""
    from milepost.spark.jobs.stats import stats

    runner.run("stats", stats, paths, topics, keys=keys, output=output, show=show)


def show(result: JobResult, write: Callable[[str], None], as_json: bool) -> None:
    tables: Any = {name: result.details[name] for name in ("partitions", "codecs", "hours")}
    if as_json:
        for name, rows in tables.items():
            for row in rows:
                write(json.dumps({"type": name[:-1] if name != "codecs" else "codec", **row}, default=str))
        return
    heads = (
        "partition",
        "start",
        "end",
        "batches",
        "records",
        "bytes",
        "missing",
        "keyless",
        "tombstones",
        "distinct keys",
        "oldest",
        "newest",
    )
    write_columns(write, heads, [partition_row(row) for row in tables["partitions"]])
    write("")
    codec_heads = ("topic", "codec", "batches", "stored bytes", "plain bytes", "ratio")
    write_columns(write, codec_heads, [[row[name.replace(" ", "_")] for name in codec_heads] for row in tables["codecs"]])
    write("")
    hours = tables["hours"]
    shown = [(row["topic"], hour_text(row["hour"]), row["records"], row["bytes"]) for row in hours[-MOST_HOURS:]]
    write_columns(write, ("topic", "hour (UTC)", "records", "bytes"), shown)
    if len(hours) > MOST_HOURS:
        write(f"the last {MOST_HOURS} of {len(hours)} hours; --json and --output give all of them")
    write("")


def partition_row(row: dict[str, Any]) -> list[object]:
    numbers = [row[name] for name in ("start_offset", "end_offset", "batches", "records", "log_bytes", "missing_offsets")]
    times = [None if row[name] is None else format_time(row[name]) for name in ("oldest_ms", "newest_ms")]
    return [f"{row['topic']}-{row['partition']}", *numbers, row["keyless"], row["tombstones"], row["distinct_keys"], *times]


def hour_text(hour: Any) -> str:
    return "no timestamp" if hour is None else f"{hour:%Y-%m-%d %H:00}"

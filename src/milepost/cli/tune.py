"""`milepost tune [DIR]`: what each index interval would cost and save, and which settings to take.

With DIR the batches of that log are measured, and only read. Without it the figures come from `--record-bytes` and `--rate`.
Exit code 2 when they are missing; 3 for a directory that cannot be read.
"""

from __future__ import annotations

import json

import click

from milepost.cli.options.topic_options import topic_properties
from milepost.cli.terminal.progress import progress_bar
from milepost.cli.terminal.sections import print_sections
from milepost.config import LogConfig
from milepost.inspect.opening import open_partition
from milepost.inspect.tune.tune import Need, possible_segment_bytes, tune_figures, tune_log, tuning_as_json
from milepost.inspect.tune.tune_text import tuning_as_text


@click.command(name="tune", short_help="Compare index and segment settings for a log, or for figures.")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--segment-bytes", type=int, metavar="BYTES", help="Size of a segment (segment.bytes).")
@click.option("--record-bytes", type=int, metavar="BYTES", help="Size of a record as stored; only without DIR.")
@click.option("--rate", type=float, metavar="RECORDS", help="Records per second; with DIR instead of its timestamps.")
@click.option("--by-time", is_flag=True, help="Lookups are mostly by time.")
@click.option("--max-scan", type=click.IntRange(min=0), metavar="BYTES", help="A lookup may walk no further than this.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
@topic_properties
def command(
    directory: str | None,
    segment_bytes: int | None,
    record_bytes: int | None,
    rate: float | None,
    by_time: bool,
    max_scan: int | None,
    as_json: bool,
    settings: dict[str, str],
) -> None:
    """Measure the batches of the partition directory DIR, or take figures alone, and say what to set.

    For each index.interval.bytes from 512 to 65536: the bytes of both indexes, how far a lookup walks (on average, and at worst)
    and what would end a segment first. Then the settings to take, each with its reason. Topic settings are not stored in DIR:
    name the ones that differ from Kafka's defaults with -X.
    """
    if directory is None and (record_bytes is None or rate is None):
        raise click.UsageError("name a partition directory, or give --record-bytes and --rate")
    if directory is not None and record_bytes is not None:
        raise click.UsageError("--record-bytes goes without DIR: with it the records are measured")
    if rate is not None and rate <= 0:
        raise click.UsageError("--rate is above 0")
    note = ""
    given: dict[str, object] = dict(settings)
    if segment_bytes is not None:
        given["segment.bytes"], note = possible_segment_bytes(segment_bytes)
    need = Need(by_time, max_scan)
    if directory is not None:
        with open_partition(directory, given) as log, progress_bar("tune", log.segments.size_in_bytes) as progress:
            tuning = tune_log(log, need, records_per_second=rate, note=note, progress=progress)
    else:
        assert record_bytes is not None and rate is not None, "checked above"
        tuning = tune_figures(record_bytes, rate, LogConfig.parse(given), need, note=note)
    if as_json:
        click.echo(json.dumps(tuning_as_json(tuning), indent=2, ensure_ascii=False))
    else:
        print_sections(tuning_as_text(tuning))

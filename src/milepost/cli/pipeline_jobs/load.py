"""`milepost pipeline load`: tables become topics."""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.options.key_values import pairs
from milepost.cli.pipeline_jobs.job import JobRunner, job_options


@click.command(name="load", short_help="Parquet, CSV or JSON files into a topic, with all indexes.")
@click.argument("sources", metavar="FILE…", nargs=-1, required=True, type=click.Path())
@click.option("--path", "data", required=True, metavar="DIR", type=click.Path(), help="The data directory to write to.")
@click.option("--topic", required=True, metavar="NAME", help="The topic.")
@click.option(
    "--format", "table_format", metavar="NAME", help="parquet, csv, json, or another of Spark's; told by the file's ending."
)
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", callback=pairs, help="An option of Spark's reader.")
@click.option("--key", metavar="COLUMN", help="The column that becomes the key.")
@click.option("--value", metavar="COLUMN", help="The column that becomes the value; without it the row, as JSON.")
@click.option("--timestamp", metavar="COLUMN", help="The column with the time of a record; without it, now.")
@click.option("--partition", metavar="COLUMN", help="The column with the number of the partition; without it, by key.")
@click.option("--headers", metavar="COLUMN", help="The column with the headers.")
@click.option("--partitions", metavar="N", type=click.IntRange(1), default=1, show_default=True, help="Of a topic that is new.")
@click.option(
    "--segment-bytes", metavar="N", type=click.IntRange(14), default=1 << 30, show_default=True, help="Of a topic that is new."
)
@click.option(
    "--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True, help="Of batches."
)
@click.option("--sort", is_flag=True, help="Records in the order of their timestamps.")
@click.option("--name", metavar="NAME", help="What this load is called: under one name it is done once.")
@job_options
def command(runner: JobRunner, sources: tuple[str, ...], **given: Any) -> None:
    """Append the rows of files to a topic of a data directory that no broker has open.

    All rows or none. Running it again with the same arguments does nothing; another --name loads them again.
    """
    from milepost.spark.jobs.load import load

    data, topic, options, table_format = (given.pop(name) for name in ("data", "topic", "options", "table_format"))
    runner.run("load", load, sources, data, topic, format=table_format, options=dict(options), **given)

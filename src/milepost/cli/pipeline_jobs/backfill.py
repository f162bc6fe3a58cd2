"""`milepost pipeline backfill`: a slice of a log, copied into another topic."""

from __future__ import annotations

import click

from milepost.cli.pipeline_jobs.job import JobRunner, job_options
from milepost.cli.pipeline_jobs.time import time_options


@click.command(name="backfill", short_help="Copy a slice of a log into another topic.")
@click.argument("topics", metavar="TOPIC")
@click.argument("target", metavar="TARGET")
@click.option(
    "--path", "paths", multiple=True, metavar="DIR", type=click.Path(), help="A data directory to read; may be repeated."
)
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Brokers to read from instead of files.")
@click.option("--into", "data", required=True, metavar="DIR", type=click.Path(), help="The data directory to write to.")
@click.option("--offsets-from", metavar="OFFSETS", help='From these offsets on: JSON by topic, -10m, or "last 100".')
@click.option("--offsets-to", metavar="OFFSETS", help="Up to these offsets: JSON by topic.")
@click.option(
    "--partitions", type=click.Choice(["keep", "key"]), default="keep", show_default=True, help="The same partitions, or by key."
)
@click.option(
    "--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True, help="Of batches."
)
@click.option("--uncommitted", is_flag=True, help="Also records of aborted and open transactions.")
@click.option("--name", metavar="NAME", help="What this copy is called: under one name it is done once.")
@time_options
@job_options
def command(
    runner: JobRunner,
    topics: str,
    target: str,
    paths: tuple[str, ...],
    bootstrap_server: str | None,
    data: str,
    offsets_from: str | None,
    offsets_to: str | None,
    partitions: str,
    codec: str,
    uncommitted: bool,
    name: str | None,
    time_from: int | None,
    time_to: int | None,
) -> None:
    """Copy a slice of TOPIC, by time or by offset, into the topic TARGET of a data directory that no broker has open.

    All of it or nothing. Running it again with the same arguments does nothing; another --name copies it again.
    """
    from milepost.spark.jobs.backfill import backfill

    if bool(paths) == bool(bootstrap_server):
        raise click.UsageError("give --path, a data directory, or --bootstrap-server, and not both")
    runner.run(
        "backfill",
        backfill,
        paths or None,
        topics,
        data,
        target,
        bootstrap_servers=bootstrap_server,
        time=(time_from, time_to),
        offsets=(offsets_from, offsets_to),
        partitions=partitions,
        codec=codec,
        committed=not uncommitted,
        name=name,
    )

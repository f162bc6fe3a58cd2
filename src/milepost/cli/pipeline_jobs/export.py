"""`milepost pipeline export`: a topic as Parquet files by date and hour, or as a Delta table, each record once."""

from __future__ import annotations

import click

from milepost.cli.pipeline_jobs.job import JobRunner, job_options
from milepost.cli.pipeline_jobs.time import time_options


@click.command(name="export", short_help="A topic as Parquet or Delta, what is new since the last run.")
@click.argument("topics", metavar="TOPIC")
@click.argument("target", metavar="TARGET", type=click.Path())
@click.option("--path", "paths", multiple=True, metavar="DIR", type=click.Path(), help="A data directory; may be repeated.")
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Brokers to read from instead of files.")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    help="Of the table.",
)
@click.option(
    "--partition-by",
    type=click.Choice(["hour", "date", "none"]),
    default="hour",
    show_default=True,
    help="Directories of the table.",
)
@click.option("--columns", metavar="NAMES", help="Columns to export, separated by commas; all by default.")
@click.option(
    "--codec",
    type=click.Choice(["snappy", "zstd", "gzip", "lz4", "none"]),
    default="snappy",
    show_default=True,
    help="Of the Parquet files.",
)
@click.option("--uncommitted", is_flag=True, help="Also records of aborted and open transactions.")
@click.option("--commit-bytes", metavar="N", type=int, help="Bytes of log per commit (16 GiB).")
@click.option("--ignore-data-loss", is_flag=True, help="Go on when offsets were deleted before they were exported.")
@time_options
@job_options
def command(
    runner: JobRunner,
    topics: str,
    target: str,
    paths: tuple[str, ...],
    bootstrap_server: str | None,
    table_format: str,
    partition_by: str,
    columns: str | None,
    codec: str,
    uncommitted: bool,
    commit_bytes: int | None,
    ignore_data_loss: bool,
    time_from: int | None,
    time_to: int | None,
) -> None:
    """Export TOPIC (or several, separated by commas) into the directory TARGET.

    TARGET remembers how far each partition was exported: run it again for what came since. A run that was killed is taken up
    where its last commit ended.
    """
    from milepost.spark.jobs.export import COMMIT_BYTES, DEFAULT_COLUMNS, export

    if bool(paths) == bool(bootstrap_server):
        raise click.UsageError("give --path, a data directory, or --bootstrap-server, and not both")
    runner.run(
        "export",
        export,
        paths or None,
        topics,
        target,
        bootstrap_servers=bootstrap_server,
        format=table_format,
        partition_by=partition_by,
        columns=columns.split(",") if columns else DEFAULT_COLUMNS,
        codec=codec,
        committed=not uncommitted,
        time=(time_from, time_to),
        fail_on_data_loss=not ignore_data_loss,
        commit_bytes=commit_bytes or COMMIT_BYTES,
    )

"""`milepost pipeline …`: the heavy work on large logs, as Spark jobs on this machine or on a cluster.

One module per job in `pipeline_jobs`, which imports Spark only when the job runs.
"""

from __future__ import annotations

from importlib import import_module

import click

JOBS = ("load", "export", "verify", "reindex", "compact", "stats", "backfill", "run", "schema")


@click.group(
    name="pipeline", short_help="Spark jobs over logs: load, export, verify, reindex, compact, stats, backfill, run."
)
def command() -> None:
    """Load, export and maintain logs with Spark: on this machine, or on a cluster with --master.

    Every job prints a summary (--json: as JSON), leaves a file with evidence of what it did, and can be killed and run again: nothing is
    lost and nothing comes twice.
    """


for job in JOBS:
    command.add_command(import_module(f"milepost.cli.pipeline_jobs.{job}").command, job)

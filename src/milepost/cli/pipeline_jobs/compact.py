"""`milepost pipeline compact`: the newest record of every key, of a log of any size."""

from __future__ import annotations

import click

from milepost.cli.options.topic_options import topic_properties
from milepost.cli.pipeline_jobs.job import JobRunner, job_options


@click.command(name="compact", short_help="Keep the newest record of every key.")
@click.argument("topics", metavar="TOPIC")
@click.option("--path", "data", required=True, metavar="DIR", type=click.Path(), help="The data directory.")
@click.option("--drop-keyless", is_flag=True, help="Drop records without a key, as a broker's cleaner does.")
@topic_properties
@job_options
def command(runner: JobRunner, topics: str, data: str, drop_keyless: bool, settings: dict[str, str]) -> None:
    """Compact TOPIC (or several, separated by commas) of a data directory that no broker has open.

    Offsets stay, tombstones stay for delete.retention.ms, and Kafka opens the result.
    """
    from milepost.spark.jobs.compact import compact

    runner.run("compact", compact, data, topics, config=settings, drop_keyless=drop_keyless)

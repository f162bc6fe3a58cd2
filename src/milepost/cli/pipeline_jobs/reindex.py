"""`milepost pipeline reindex PATH…`: all indexes of data directories, rebuilt in parallel."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.options.topic_options import topic_properties
from milepost.cli.pipeline_jobs.job import JobRunner, job_options
from milepost.codec.text import shown

if TYPE_CHECKING:
    from milepost.spark.jobs.job import JobResult


@click.command(name="reindex", short_help="Rebuild all indexes of data directories.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path())
@topic_properties
@job_options
def command(runner: JobRunner, paths: tuple[str, ...], settings: dict[str, str]) -> None:
    """Rebuild the indexes of data directories that no broker has open, as recovery after a crash would.

    Files that are right already are left alone, and so are the logs. Exit code 1 when a log itself is damaged.
    """
    from milepost.spark.jobs.reindex import reindex

    runner.run("reindex", reindex, paths, config=settings, show=show)


def show(result: JobResult, write: Callable[[str], None], as_json: bool) -> None:
    damage: Any = result.details["damage"]
    for sentence in damage:
        write(json.dumps({"type": "damage", "what": sentence}) if as_json else shown(sentence))

"""`milepost pipeline verify PATH…`: whole data directories, checked on all cores."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.pipeline_jobs.job import JobRunner, job_options
from milepost.codec.text import shown

if TYPE_CHECKING:
    from milepost.spark.jobs.job import JobResult


@click.command(name="verify", short_help="Check data directories on all cores.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path())
@click.option("--headers-only", is_flag=True, help="Batch headers and checksums, not every record: quicker.")
@click.option("--output", metavar="FILE", type=click.Path(), help="The findings as a table too: a Parquet file.")
@job_options
def command(runner: JobRunner, paths: tuple[str, ...], headers_only: bool, output: str | None) -> None:
    """Check every batch, record, index entry, snapshot and checkpoint, without changing anything.

    Findings are those of `milepost verify`. Exit code 1 when there is one.
    """
    from milepost.spark.jobs.verify import verify

    runner.run("verify", verify, paths, headers_only=headers_only, output=output, show=show)


def show(result: JobResult, write: Callable[[str], None], as_json: bool) -> None:
    findings: Any = result.details["findings"]
    for found in findings:
        if as_json:
            write(json.dumps(found))
            continue
        place = found["file"] if found["position"] is None else f"{found['file']}, position {found['position']}"
        advice = f"; {found['advice']}" if found["advice"] else ""
        write(shown(f"{'note: ' if found['type'] == 'note' else ''}{place}: {found['what']}{advice}"))

"""`milepost pipeline run FILE`: the stages of a pipeline file, one after the other, or the plan of them."""

from __future__ import annotations

import json
from typing import Any

import click

from milepost.cli.key_values import pairs
from milepost.cli.output import line_writer
from milepost.cli.pipeline_job import QUIET, plain_errors
from milepost.codec.text import shown

# The hours of tables are those of the log and of the export.
UTC = {"spark.sql.session.timeZone": "UTC"}


@click.command(name="run", short_help="The stages of a pipeline file: load, verify, transform, export, report.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Print what each stage would do, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="JSON: one object per line.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=pairs, help="A Spark property; may be repeated.")
@click.option("--master", metavar="URL", help="A Spark cluster; without it the pipeline runs on this machine.")
def command(file: str, dry_run: bool, as_json: bool, conf: Any, master: str | None) -> None:
    """Run the pipeline in FILE (YAML), stage by stage.

    A run that was killed is gone on with by the next one, at the stage that did not finish; after that, a run takes what is new.
    """
    from milepost.spark.pipeline.definition import read_pipeline
    from milepost.spark.pipeline.run import plan, run

    pipeline = read_pipeline(file)
    write = line_writer()

    def tell(line: str) -> None:
        write(json.dumps({"type": "plan" if dry_run else "stage", "what": line}) if as_json else shown(line))

    if dry_run:
        for line in plan(pipeline):
            tell(line)
        return
    from milepost.spark.spark_session import session

    spark = session(master, f"milepost pipeline {pipeline.name}", {**QUIET, **UTC, **dict(conf)})
    with plain_errors():
        done = run(spark, pipeline, tell)
    if as_json:
        stages = [{"title": each.title, "outcome": each.outcome, "summary": each.summary} for each in done.stages]
        write(json.dumps({"type": "summary", "name": pipeline.name, "run": done.number, "stages": stages, "report": done.report}))
    else:
        write(shown(f"{pipeline.name}: run {done.number} is done; state and evidence are in {pipeline.work}"))

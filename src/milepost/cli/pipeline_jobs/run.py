"""`milepost pipeline run FILE`: the stages of a pipeline file, one after the other, or the plan of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.options.key_values import pairs
from milepost.cli.pipeline_jobs.job import plain_errors, quiet_session
from milepost.cli.terminal.output import line_writer
from milepost.codec.text import shown
from milepost.errors import InvalidConfiguration

if TYPE_CHECKING:
    from milepost.spark.pipeline.definition import Stage

# The hours of tables are those of the log and of the export.
UTC = {"spark.sql.session.timeZone": "UTC"}


@click.command(name="run", short_help="The stages of a pipeline file: load, verify, transform, export, report.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--dry-run", is_flag=True, help="Print what each stage would do, and do nothing.")
@click.option("--restart", multiple=True, metavar="STAGE", help="Begin this stage anew, with nothing kept; may be repeated.")
@click.option(
    "--adopt",
    multiple=True,
    metavar="[STAGE=]OLD",
    help="Go on with what is kept under OLD, although the stage has changed; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON: one object per line.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=pairs, help="A Spark property; may be repeated.")
@click.option("--master", metavar="URL", help="A Spark cluster; without it the pipeline runs on this machine.")
def command(
    file: str, dry_run: bool, restart: tuple[str, ...], adopt: tuple[str, ...], as_json: bool, conf: Any, master: str | None
) -> None:
    """Run the pipeline in FILE (YAML), stage by stage.

    A run that was killed is gone on with by the next one, at the stage that did not finish; after that, a run takes what is new.
    """
    from milepost.spark.pipeline.definition import MistakesOfForm, read_pipeline
    from milepost.spark.pipeline.run import plan, run

    write = line_writer()

    def tell(line: str) -> None:
        write(json.dumps({"type": "plan" if dry_run else "stage", "what": line}) if as_json else shown(line))

    try:
        pipeline = read_pipeline(file)
    except MistakesOfForm as wrong:
        _check(wrong.stages, wrong.lines, master, dict(conf), tell)
        raise
    if dry_run:
        _check(pipeline.stages, (), master, dict(conf), tell)
        for line in plan(pipeline, restart=restart, adopt=adopt):
            tell(line)
        return
    spark = quiet_session(master, f"milepost pipeline {pipeline.name}", {**UTC, **dict(conf)})
    with plain_errors():
        done = run(spark, pipeline, tell, restart=restart, adopt=adopt)
    if as_json:
        stages = [{"title": each.title, "outcome": each.outcome, "summary": each.summary} for each in done.stages]
        write(json.dumps({"type": "summary", "name": pipeline.name, "run": done.number, "stages": stages, "report": done.report}))
    else:
        write(shown(f"{pipeline.name}: run {done.number} is done; state and evidence are in {pipeline.work}"))


def _check(
    stages: Sequence[Stage], before: Sequence[str], master: str | None, conf: dict[str, str], tell: Callable[[str], None]
) -> None:
    """Schemas and queries, which only Spark can judge. A plan without Java or PySpark says that they were not looked at."""
    from milepost.spark.pipeline.queries import check_queries, has_queries

    if not has_queries(stages):
        return
    try:
        spark = quiet_session(master, "milepost pipeline", {**UTC, **conf})
    except InvalidConfiguration as missing:
        tell(f"schemas and queries were not checked: {missing}")
        return
    with plain_errors():
        check_queries(spark, stages, before)

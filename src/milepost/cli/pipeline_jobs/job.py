"""What all `milepost pipeline` jobs share: the session, the progress bar, the summary, and how they end."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from milepost import errors
from milepost.cli.options.key_values import pairs
from milepost.cli.terminal.output import EXIT_IO, Sentence, line_writer
from milepost.codec.text import shown
from milepost.files.quiet_start import quiet_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from milepost.spark.jobs.job import JobResult
    from milepost.spark.jobs.tasks import Progress

Show: TypeAlias = "Callable[[JobResult, Callable[[str], None], bool], None]"
"""Prints what a job found, in front of its summary: the result, where to, whether as JSON."""
EVIDENCE = "milepost-evidence"
# The last line of a traceback, or all there is of one, as Spark passes it on.
OURS = re.compile(r"milepost\.errors\.(\w+): (.*)")
RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")
# What Spark says at its start is of no interest to who runs a job.
QUIET = {"spark.log.level": "ERROR"}
# PySpark logs an error of a query as one line of JSON with the JVM's whole stack, before it raises it. Here it becomes a sentence.
QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs a job as the options say that all of them have."""

    master: str | None
    conf: list[tuple[str, str]]
    evidence: str
    as_json: bool

    def run(self, title: str, job: Callable[..., JobResult], *arguments: Any, show: Show | None = None, **named: Any) -> None:
        """Run it and print what came of it; exit code 1 when it has findings."""
        from milepost.spark.jobs.job import FINDINGS

        spark = quiet_session(self.master, f"milepost {title}", dict(self.conf))
        with plain_errors(), task_bar(title) as progress:
            result = job(spark, *arguments, **named, evidence=self.evidence, progress=progress)
        write = line_writer()
        if show is not None:
            show(result, write, self.as_json)
        if self.as_json:
            write(json.dumps(result.as_json()))
        else:
            write(shown(result.summary()))
            if result.evidence is not None:
                write(shown(f"evidence: {result.evidence}"))
        if result.outcome == FINDINGS:
            raise click.exceptions.Exit(1)


def job_options(command: Callable[..., None]) -> Callable[..., None]:
    """--master, --conf, --evidence and --json; the command gets them as its first argument, which runs its job."""

    @functools.wraps(command)
    def with_runner(master: str | None, conf: list[tuple[str, str]], evidence: str, as_json: bool, **given: Any) -> None:
        command(JobRunner(master, conf, evidence, as_json), **given)

    for option in (
        click.option("--json", "as_json", is_flag=True, help="JSON: one object per line."),
        click.option(
            "--evidence", metavar="DIR", default=EVIDENCE, show_default=True, type=click.Path(), help="Where the evidence goes."
        ),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", callback=pairs, help="A Spark property; may be repeated."),
        click.option("--master", metavar="URL", help="A Spark cluster; without it the job runs on this machine."),
    ):
        with_runner = option(with_runner)
    return with_runner


def quiet_session(master: str | None, app: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of which nobody hears but what goes wrong, and that as a sentence."""
    from milepost.spark.spark_session import session

    with quiet_start():
        spark = session(master, app, {**QUIET, **conf})
    from pyspark.logger import PySparkLogger

    for name in QUERY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    return spark


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Spark's errors as one sentence: ours if one of ours is behind it, the last line of a task's Python, or the first of Spark's own."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise sentence_of(str(error) or type(error).__name__) from error


def sentence_of(text: str) -> Sentence:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if found := OURS.search(line):
            kind = getattr(errors, found[1], errors.MilepostError)
            return Sentence(found[2], kind.exit_code)
    raised = [line for line in lines if RAISED.match(line)]
    return Sentence(f"Spark: {(raised or lines)[-1 if raised else 0]}", EXIT_IO)


@contextlib.contextmanager
def task_bar(title: str) -> Iterator[Progress]:
    """A bar of tasks: only on a terminal, only when rich is installed."""
    from milepost.spark.jobs.tasks import nobody_watches

    if not sys.stderr.isatty():
        yield nobody_watches
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        yield nobody_watches
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

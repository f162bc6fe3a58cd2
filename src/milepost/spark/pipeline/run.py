"""Running a pipeline: stage after stage, each once; and the plan of it, without running anything.

A run that ended early is gone on with by the next one, at the stage that did not finish. A run after that is a new one: loads take what
files are new, exports and streams what records are new, batch transforms everything. A pipeline file may change in between (`continuing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from milepost.clock import SystemClock
from milepost.errors import MilepostError
from milepost.files import Disk, make_directories, replace_file
from milepost.inspect.times import format_time
from milepost.log.directory.directory_lock import DirectoryLock
from milepost.spark.jobs.job import FINDINGS, CheckFailed, JobResult
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.spark.pipeline.continuing import settle
from milepost.spark.pipeline.definition import Pipeline, Stage
from milepost.spark.pipeline.loading import load_new_files, new_files
from milepost.spark.pipeline.queries import check_queries
from milepost.spark.pipeline.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], object]


@dataclass(slots=True)
class Outcome:
    title: str
    outcome: str
    summary: str


@dataclass(slots=True)
class Run:
    pipeline: Pipeline
    number: int
    stages: list[Outcome] = field(default_factory=list)
    report: str | None = None


def plan(
    pipeline: Pipeline, disk: Disk | None = None, *, restart: Sequence[str] = (), adopt: Sequence[str] = ()
) -> Iterator[str]:
    """What a run would do, a line for each stage."""
    disk = disk or Disk()
    state = PipelineState(pipeline.work, disk)
    told: list[str] = []
    settle(pipeline, state, disk, restart, adopt, told.append)
    yield from told
    goes_on = state.goes_on(pipeline.digest)
    if goes_on:
        yield f"run {state.run} did not finish and is gone on with"
    for stage in pipeline.stages:
        done = goes_on and state.is_done(stage.name)
        yield f"{stage.title}: {'done already' if done else intention(pipeline, stage, state, disk)}"


def intention(pipeline: Pipeline, stage: Stage, state: PipelineState, disk: Disk) -> str:
    settings = stage.settings
    if stage.kind == "load":
        files = new_files(disk, stage, state)
        kind = settings.get("format", "json")
        return f"{len(files)} new {kind} files in {settings['from']} to topic {settings['topic']} in {pipeline.data}"
    if stage.kind == "verify":
        return f"every batch, index and checkpoint in {pipeline.data}"
    if stage.kind == "transform":
        topics = ", ".join(f"{read['topic']} ({amount(pipeline.data, read['topic'])})" for read in settings["read"].values())
        targets = ", ".join(output.get("parquet") or f"topic {output['topic']}" for output in settings["to"])
        return f"{'stream' if settings.get('stream') else 'SQL'} over {topics} to {targets}"
    if stage.kind == "export":
        topic = settings["topic"]
        return f"what is new of {topic} ({amount(pipeline.data, topic)}) to {settings['to']} by {settings.get('by', 'hour')}"
    return f"{stage.kind}{' to ' + settings['to'] if 'to' in settings else ''}"


def amount(data: str, topic: str) -> str:
    """How much there is of a topic now."""
    try:
        options = SourceOptions.parse({"path": data, "subscribe": topic}, streaming=False)
        with open_transport(options) as transport:
            partitions = transport.partitions(options.subscription)
            first, last = transport.earliest(partitions), transport.latest(partitions)
    except MilepostError:
        return "not there yet"
    return f"{sum(last.values()) - sum(first.values()):,} offsets in {len(partitions)} partitions now"


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    tell: Tell = lambda line: None,
    *,
    restart: Sequence[str] = (),
    adopt: Sequence[str] = (),
) -> Run:
    disk = Disk()
    check_queries(spark, pipeline.stages)
    make_directories(disk, pipeline.work)
    lock = DirectoryLock(pipeline.work, disk)
    try:
        state = PipelineState(pipeline.work, disk)
        settle(pipeline, state, disk, restart, adopt, tell)
        if not state.is_finished and not state.goes_on(pipeline.digest):
            tell(f"run {state.run} did not finish, and the pipeline is another one now: a new run begins")
        if state.begin(pipeline.digest):
            state.save()
            tell(f"run {state.run} did not finish and is gone on with")
        done = Run(pipeline, state.run)
        for stage in pipeline.stages:
            if state.is_done(stage.name):
                done.stages.append(Outcome(stage.title, "done before", state.of(stage.name).get("summary", "")))
                continue
            summary = STAGES[stage.kind](spark, pipeline, stage, state, done)
            state.note(stage.name, is_done=True, summary=summary)
            done.stages.append(Outcome(stage.title, "done", summary))
            tell(f"{stage.title}: {summary}")
        state.end()
    finally:
        lock.release()
    return done


def _evidence(pipeline: Pipeline) -> str:
    return f"{pipeline.work}/evidence"


def _load(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, done: Run) -> str:
    return load_new_files(spark, pipeline, stage, state, _evidence(pipeline))


def _verify(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, done: Run) -> str:
    from milepost.spark.jobs.verify import verify

    result = verify(spark, pipeline.data, headers_only=bool(stage.settings.get("headers_only")), evidence=_evidence(pipeline))
    if result.outcome == FINDINGS:
        raise CheckFailed(f"{stage.title}: {result.counts['findings']} findings in {pipeline.data}; milepost verify shows them")
    return summary_of(result)


def _transform(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, done: Run) -> str:
    from milepost.spark.pipeline.transform import transform

    return transform(spark, pipeline, stage, state)


def _export(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, done: Run) -> str:
    from milepost.spark.jobs.export import export

    settings = stage.settings
    result = export(
        spark,
        pipeline.data,
        settings["topic"],
        settings["to"],
        partition_by=settings.get("by", "hour"),
        format=settings.get("format", "parquet"),
        evidence=_evidence(pipeline),
    )
    return summary_of(result)


def _stats(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, done: Run) -> str:
    from milepost.spark.jobs.stats import stats

    return summary_of(stats(spark, pipeline.data, stage.settings.get("topic"), evidence=_evidence(pipeline)))


def _report(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, done: Run) -> str:
    from milepost.spark.jobs.stats import stats
    from milepost.spark.pipeline.lag import lag_of
    from milepost.spark.pipeline.report import render

    figures = stats(spark, pipeline.data, evidence=_evidence(pipeline))
    stages: list[dict[str, Any]] = [
        {"title": each.title, "outcome": each.outcome, "summary": each.summary} for each in done.stages
    ]
    page = render(pipeline.name, format_time(SystemClock().now_ms()), stages, figures.details, lag_of(pipeline, state))
    disk = Disk()
    target: str = stage.settings["to"]
    make_directories(disk, target.rpartition("/")[0])
    replace_file(disk, target, page.encode())
    done.report = target
    return target


def summary_of(result: JobResult) -> str:
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in result.counts.items()) or result.outcome


STAGES: dict[str, Callable[[SparkSession, Pipeline, Stage, PipelineState, Run], str]] = {
    "load": _load,
    "verify": _verify,
    "transform": _transform,
    "export": _export,
    "stats": _stats,
    "report": _report,
}

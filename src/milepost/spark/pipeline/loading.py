"""The stage that brings files into a topic: those that no run has loaded yet, all of them or none.

Which files that are is noted before the load begins, and what is loaded is committed under a name made of them: a run that is killed and
gone on with loads the same files, or finds them loaded. A file belongs to the pipeline once it was loaded: a change to it is an error,
not new events.
"""

from __future__ import annotations

import posixpath
import stat
from typing import TYPE_CHECKING

from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.spark.jobs.copying import name_of
from milepost.spark.jobs.job import NOTHING
from milepost.spark.jobs.load import CSV_OPTIONS, FORMATS, load
from milepost.spark.pipeline.definition import Pipeline, Stage
from milepost.spark.pipeline.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def files_in(disk: Disk, path: str) -> dict[str, int]:
    """The files of a directory, or the file itself, by name, with their sizes; what begins with `.` or `_` is not for us."""
    if not disk.exists(path):
        raise InvalidArgument(f"{path}: no such directory; it should hold the files to load")
    if not stat.S_ISDIR(disk.stat(path).st_mode):
        return {posixpath.basename(path): disk.stat(path).st_size}
    found = {}
    for name in sorted(disk.listdir(path)):
        status = disk.stat(f"{path}/{name}")
        if not name.startswith((".", "_")) and stat.S_ISREG(status.st_mode):
            found[name] = status.st_size
    return found


def new_files(disk: Disk, stage: Stage, state: PipelineState) -> dict[str, int]:
    known = state.loaded.get(stage.name, {})
    there = files_in(disk, stage.settings["from"])
    for name, size in there.items():
        if known.get(name, size) != size:
            raise InvalidArgument(
                f"{stage.title}: {name} was loaded with {known[name]:,} bytes and has {size:,} now; put new events into new files"
            )
    return {name: size for name, size in there.items() if name not in known}


def load_new_files(spark: SparkSession, pipeline: Pipeline, stage: Stage, state: PipelineState, evidence: str) -> str:
    """Run it; one line about what came of it."""
    settings = stage.settings
    if "files" not in state.of(stage.name):
        state.note(stage.name, files=new_files(Disk(), stage, state))
    files: dict[str, int] = state.of(stage.name)["files"]
    if not files:
        return "no new files"
    result = load(
        spark,
        read_files(spark, stage, files),
        pipeline.data,
        settings["topic"],
        key=settings.get("key"),
        timestamp=settings.get("time"),
        sort=bool(settings.get("sort")),
        partitions=int(settings.get("partitions", 1)),
        codec=settings.get("compression", "none"),
        name=name_of(f"{pipeline.name}-{state.key(stage.name)} load", {"pipeline": state.id, "files": files}),
        evidence=evidence,
    )
    state.note_loaded(stage.name, files)
    records = "were loaded before" if result.outcome == NOTHING else f"with {result.counts['records']:,} records"
    return f"{len(files)} files {records} to topic {settings['topic']}"


def read_files(spark: SparkSession, stage: Stage, files: dict[str, int]) -> DataFrame:
    settings = stage.settings
    kind = settings.get("format", "json")
    if kind not in FORMATS:
        raise InvalidArgument(f"{stage.title}: format is {kind}; {', '.join(FORMATS)} are possible")
    reader = spark.read.format(kind)
    if settings.get("schema"):
        reader = reader.schema(settings["schema"]).options(**({"header": "true"} if kind == "csv" else {}))
    elif kind == "csv":
        reader = reader.options(**CSV_OPTIONS)
    directory: str = settings["from"]
    is_directory = stat.S_ISDIR(Disk().stat(directory).st_mode)
    return reader.load([f"{directory}/{name}" for name in files] if is_directory else [directory])

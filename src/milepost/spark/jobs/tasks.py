"""The bulk lane: one Spark task per piece of work, finished inside its Python worker, and one row with its result.

Rows of a log leave Python one by one in the JVM, which costs more than decoding them. A job that needs no rows in Spark (verify, export,
reindex, …) therefore ships its work to the tasks, does all of it there and brings back a summary:

    run_tasks(spark, tasks, work)      [work(task) for task in tasks], each in a Spark task of its own

Tasks and results cross pickled, as the plain values they are; `work` is a function of a module, which executors import by its name. An
error that milepost raises on purpose in a task comes back and is raised here as what it was: trying it again would not help.
Any other failure of a task is Spark's to repeat, and ends the job when that did not help.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from milepost.errors import MilepostError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Called with the number of tasks that are done, and of all tasks."""

RESULT = "number bigint, result binary"
POLL_SECONDS = 0.25


def nobody_watches(done: int, total: int) -> None:
    """The progress of a job that nobody looks at."""


def run_tasks(spark: SparkSession, tasks: Sequence[T], work: Callable[[T], R], progress: Progress = nobody_watches) -> list[R]:
    """The result of each task, in the order of the tasks."""
    if not tasks:
        return []
    pickled = [pickle.dumps(task) for task in tasks]

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _row(number, _attempt(work, pickle.loads(pickled[number])))

    # One number in each partition: as many tasks as there are pieces of work.
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    with watching(spark, len(tasks), progress):
        rows = numbers.mapInArrow(body, RESULT).collect()
    found: dict[int, R] = {}
    for row in rows:
        kind, value = pickle.loads(row["result"])
        if kind == "error":
            raise value
        found[row["number"]] = value
    return [found[number] for number in range(len(tasks))]


def map_tasks(spark: SparkSession, tasks: Sequence[T], work: Callable[[T], Iterator[pa.RecordBatch]], schema: str) -> DataFrame:
    """Rows after all, for what Spark itself shall sort or group: those that `work` makes of each task."""
    pickled = [pickle.dumps(task) for task in tasks]

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(pickle.loads(pickled[number]))

    return spark.range(0, len(tasks), 1, max(len(tasks), 1)).mapInArrow(body, schema)


def _attempt(work: Callable[[T], R], task: T) -> tuple[str, R | MilepostError]:
    try:
        return "done", work(task)
    except MilepostError as error:
        try:
            pickle.loads(pickle.dumps(error))
        except TypeError:
            # A class that takes more than a sentence: the sentence is what counts.
            return "error", MilepostError(str(error))
        return "error", error


def _row(number: int, result: object) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int64()), pa.array([pickle.dumps(result)], pa.binary())], names=["number", "result"]
    )


@contextmanager
def watching(spark: SparkSession, total: int, progress: Progress) -> Iterator[None]:
    """Tell how many tasks of what runs meanwhile are done. Over Spark Connect nobody can tell."""
    if progress is nobody_watches:
        yield
        return
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has no context, and says so with an error of its own
        yield
        return
    group = f"milepost-{uuid.uuid4()}"
    context.setJobGroup(group, "milepost")
    ended = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not ended.wait(POLL_SECONDS):
            done = 0
            for job in tracker.getJobIdsForGroup(group):
                information = tracker.getJobInfo(job)
                for stage in information.stageIds if information is not None else ():
                    found = tracker.getStageInfo(stage)
                    done += found.numCompletedTasks if found is not None else 0
            progress(min(done, total), total)

    watcher = threading.Thread(target=watch, name="milepost-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        progress(total, total)

"""The bulk lane: one Spark task per piece of work, finished inside its Python worker, and one row with its result.

Rows of a log leave Arrow one by one in the JVM, which costs more than decoding them. A job that needs no rows in Spark (verify, export,
reindex, …) therefore ships its work to the tasks, does all of it there, in Arrow, and brings back a summary:

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

from milepost.errors import KafkaStorage, MilepostError
from milepost.spark.worker_memory import too_little

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int], None]
"""Called with the number of tasks that are done, and of all tasks."""

DONE, FAILED = "done", "failed"
POLL_SECONDS = 0.25


def nobody_watches(done: int, total: int) -> None:
    """The progress of a job that nobody looks at."""


def run_tasks(spark: SparkSession, tasks: Sequence[T], work: Callable[[T], R], progress: Progress = nobody_watches) -> list[R]:
    """The result of each task, in the order of the tasks."""
    if not tasks:
        return []
    pickled = [pickle.dumps(task) for task in tasks]

    # A plain UDF, which needs neither pandas nor Arrow to cross, over one number in each partition: as many Spark tasks as there are tasks.
    def body(number: int) -> bytes:
        return pickle.dumps((number, *_attempt(work, pickle.loads(pickled[number]))))

    from pyspark.sql.functions import udf

    numbers = spark.range(0, len(tasks), 1, len(tasks))
    results = numbers.select(udf(body, "binary", useArrow=False).asNondeterministic()("id").alias("result"))
    with watching(spark, len(tasks), progress):
        rows = results.collect()
    found: dict[int, R] = {}
    for row in rows:
        number, kind, value = pickle.loads(row["result"])
        if kind == FAILED:
            raise value
        found[number] = value
    return [found[number] for number in range(len(tasks))]


def _attempt(work: Callable[[T], R], task: T) -> tuple[str, R | MilepostError]:
    try:
        return DONE, work(task)
    except MemoryError as error:
        return FAILED, KafkaStorage(too_little(error))
    except MilepostError as error:
        try:
            pickle.loads(pickle.dumps(error))
        except TypeError:
            # A class that takes more than a sentence: the sentence is what counts.
            return FAILED, MilepostError(str(error))
        return FAILED, error


@contextmanager
def watching(spark: SparkSession, total: int | None, progress: Progress) -> Iterator[None]:
    """Tell how many tasks of what runs meanwhile are done; how many there are, if that is not known, Spark says. Over Spark Connect nobody
    can tell."""
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
            done = known = 0
            for job in tracker.getJobIdsForGroup(group):
                information = tracker.getJobInfo(job)
                for stage in information.stageIds if information is not None else ():
                    found = tracker.getStageInfo(stage)
                    done += found.numCompletedTasks if found is not None else 0
                    known += found.numTasks if found is not None else 0
            progress(done, known if total is None else total)

    watcher = threading.Thread(target=watch, name="milepost-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()

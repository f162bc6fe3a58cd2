"""kill -9 of a task, of the process that commits, and of a whole driver, at each stage of every write and job.

Run again, each id is there once; over the wire at least once. `make test` runs one step of each kind, `make trouble` all of them. That a
sink's commit can be killed before any of its disk operations is shown without a JVM in `sink/test_killed.py`, that jobs can in `jobs/`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import milepost
from tests.spark.killed.dying import dying
from tests.spark.killed.scenarios import IDS, SCENARIOS, Scenario
from tests.spark.killed.steps import Step, processes_of
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
DRIVER_SECONDS = 600
# Of each scenario, the numbers of the steps that `make test` runs.
TASKS_IN_SHORT = {"batch": 0, "stream": 1, "wire-batch": 0, "wire-stream": 1, "load": 2, "export": 0, "compact": 1}
COMMITS_IN_SHORT = {"batch": 3, "stream": 5}
# A load is a batch write.
DRIVERS_IN_SHORT = {"stream": 5, "load": 4, "export-delta": 6, "compact": 2}


def chosen(steps: str, short: dict[str, int], names: tuple[str, ...] = tuple(SCENARIOS)) -> list[Any]:
    return [
        pytest.param(name, step, id=f"{name}-{step}", marks=() if short.get(name) == number else pytest.mark.trouble)
        for name in names
        for number, step in enumerate(getattr(SCENARIOS[name], steps))
    ]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where a scenario takes place; next to it a broker, for those that need one."""
    yield tmp_path / "place"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[milepost.Broker]:
    with milepost.Broker(tmp_path / "broker") as running:
        running.create_topic("t", partitions=3)
        yield running


@pytest.fixture
def prepared(request: pytest.FixtureRequest, name: str, place: Path) -> Scenario:
    scenario = SCENARIOS[name]
    scenario.prepare(place)
    if scenario.at_least_once:
        (place / "bootstrap").write_text(request.getfixturevalue("broker").bootstrap_servers)
    return scenario


def check(scenario: Scenario, place: Path) -> None:
    found = scenario.found(place)
    if scenario.at_least_once:
        assert set(found) == set(IDS)
    else:
        assert found == Counter(IDS)


@pytest.mark.parametrize(("name", "step"), chosen("in_tasks", TASKS_IN_SHORT))
def test_task_that_is_killed_ends_the_query_and_the_next_run_is_whole(
    spark: SparkSession, prepared: Scenario, place: Path, step: Step
) -> None:
    kill_within(spark, prepared, place, step)


@pytest.mark.parametrize(("name", "step"), chosen("in_driver", COMMITS_IN_SHORT, ("batch", "stream")))
def test_process_that_commits_is_killed_and_spark_aborts(
    spark: SparkSession, prepared: Scenario, place: Path, step: Step
) -> None:
    kill_within(spark, prepared, place, step)


def kill_within(spark: SparkSession, scenario: Scenario, place: Path, step: Step) -> None:
    """Spark here tries nothing twice: the query fails."""
    deadly = step.marked(place / "mark", with_all=False)
    with dying(spark, deadly, in_driver=False), pytest.raises(Exception, match=r"(?s)."):  # Spark's, in one of its classes
        scenario.run(spark, place)
    assert deadly.was_reached
    scenario.run(spark, place)
    check(scenario, place)


@pytest.mark.parametrize(("name", "step"), chosen("in_driver", DRIVERS_IN_SHORT))
def test_driver_that_is_killed_with_all_it_started_is_run_again(
    spark: SparkSession, prepared: Scenario, place: Path, name: str, step: Step
) -> None:
    deadly = step.marked(place / "mark", with_all=True)
    assert drive(name, place, deadly) == -9
    assert deadly.was_reached
    prepared.run(spark, place)
    check(prepared, place)


@pytest.mark.trouble
@pytest.mark.parametrize(("name", "step"), chosen("in_tasks", {}))
def test_driver_that_is_killed_within_a_task_is_run_again(
    spark: SparkSession, prepared: Scenario, place: Path, name: str, step: Step
) -> None:
    deadly = step.marked(place / "mark", with_all=True)
    assert drive(name, place, deadly) == -9
    prepared.run(spark, place)
    check(prepared, place)


@pytest.mark.trouble
@pytest.mark.parametrize(("name", "step"), chosen("in_tasks", {}))
def test_task_that_is_killed_is_tried_again_by_spark(prepared: Scenario, place: Path, name: str, step: Step) -> None:
    deadly = step.marked(place / "mark", with_all=False)
    assert drive(name, place, deadly) == 0
    assert deadly.was_reached
    check(prepared, place)


def drive(name: str, place: Path, step: Step) -> int:
    """How a driver of its own ended, when all that it started has ended."""
    command = [sys.executable, "-m", "tests.spark.killed.driver", name, str(place), step.to_json()]
    with (place / "driver.out").open("wb") as output:
        driver = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)
    with driver:
        try:
            code = driver.wait(DRIVER_SECONDS)
            until(lambda: not processes_of(driver.pid), "all that the driver started has ended", DRIVER_SECONDS, 0.05)
        finally:
            for pid in processes_of(driver.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    return code

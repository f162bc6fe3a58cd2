"""Tasks run in directories of their own: a relative path that was given to a job means the driver's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from milepost.spark.jobs import backfill, compact, export, reindex, stats, verify
from tests.spark.jobs.in_process import here, run_here
from tests.spark.jobs.test_compact import newest_in_python
from tests.spark.logs import Batch, many_batches, plain_scan, write_log

__all__ = ["here", "newest_in_python"]
pytestmark = pytest.mark.usefixtures("here", "elsewhere")


@pytest.fixture
def elsewhere(here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tasks run; the driver is in another directory, with a log in `data`."""
    driver, executor = tmp_path / "driver", tmp_path / "executor"
    driver.mkdir()
    executor.mkdir()
    monkeypatch.chdir(driver)

    def run_there(spark: object, tasks: Sequence[Any], work: Callable[[Any], Any], progress: object = None) -> list[Any]:
        with monkeypatch.context() as patch:
            patch.chdir(executor)
            return run_here(spark, tasks, work, progress)

    for module in (backfill, compact, export, reindex, stats, verify):
        monkeypatch.setattr(module, "run_tasks", run_there)
    write_log(driver / "data", "t", 0, list(many_batches(40)), segment_bytes=2048)
    return executor


JOBS: dict[str, Callable[[], Any]] = {
    "export": lambda: export.export(None, "data", "t", "lake"),  # type: ignore[arg-type]
    "backfill": lambda: backfill.backfill(None, "data", "t", "copy", "t"),  # type: ignore[arg-type]
    "reindex": lambda: reindex.reindex(None, "data", config={"index.interval.bytes": 64}),  # type: ignore[arg-type]
    "verify": lambda: verify.verify(None, "data"),  # type: ignore[arg-type]
    "stats": lambda: stats.stats(None, "data"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("job", JOBS)
def test_job_over_relative_paths(job: str, elsewhere: Path) -> None:
    result = JOBS[job]()
    assert result.outcome == "done"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.usefixtures("newest_in_python")
def test_compaction_of_a_relative_directory(elsewhere: Path) -> None:
    for _ in range(3):
        write_log(Path("data"), "c", 0, [Batch((b"1", b"2"), keys=(b"a", b"b"))], segment_bytes=100)
    result = compact.compact(None, "data", "c", config={"segment.bytes": 100})  # type: ignore[arg-type]
    assert result.outcome == "done"
    assert len(plain_scan(Path("data/c-0")).rows) < 6
    assert list(elsewhere.iterdir()) == []

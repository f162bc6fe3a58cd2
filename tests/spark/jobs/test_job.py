"""What every job leaves: counts, checks, evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.spark.jobs.copying import name_of
from milepost.spark.jobs.job import CheckFailed, Job

START = 1_526_384_718_288  # 2018-05-15T11:45:18.288Z


def evidence_in(directory: Path) -> dict[str, object]:
    (path,) = directory.iterdir()
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_evidence_is_named_by_job_and_time_and_holds_all_of_it(tmp_path: Path) -> None:
    with Job("stats", {"path": "data"}, str(tmp_path / "a" / "b"), clock=ManualClock(START)) as job:
        job.count(records=3)
        job.count(records=4)
        job.check("sums", True, "7 of 7")
    assert job.result.evidence == f"{tmp_path}/a/b/stats-20180515T114518-{job.id}.json"
    found = evidence_in(tmp_path / "a" / "b")
    assert (found["job"], found["outcome"], found["started"]) == ("stats", "done", "2018-05-15T11:45:18.288Z")
    assert (found["inputs"], found["counts"], found["checks"]) == ({"path": "data"}, {"records": 7}, [["sums", True, "7 of 7"]])


def test_a_check_that_does_not_hold_ends_the_job_and_is_in_the_evidence(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="export: sums does not hold: 6 of 7"), Job("export", {}, str(tmp_path)) as job:
        job.check("sums", False, "6 of 7")
    found = evidence_in(tmp_path)
    assert str(found["outcome"]).startswith("failed: export: sums does not hold")
    assert found["checks"] == [["sums", False, "6 of 7"]]


def test_without_a_directory_no_file_is_written() -> None:
    with Job("stats", {}) as job:
        job.count(batches=1200)
    assert job.result.evidence is None
    assert job.result.summary() == "stats: done: 1,200 batches"


def test_the_same_inputs_have_the_same_name() -> None:
    assert name_of("load", {"a": 1, "b": None}) == name_of("load", {"b": None, "a": 1})
    assert name_of("load", {"a": 1}) != name_of("load", {"a": 2})


@pytest.mark.parametrize(
    ("counts", "said"),
    [({"commits": 1, "files_finished": 1}, "1 commit, 1 file finished"), ({"batches": 1, "keyless": 1}, "1 batch, 1 keyless"),
     ({"commits": 0, "files": 2}, "0 commits, 2 files")],
)  # fmt: skip
def test_one_is_told_in_the_singular(counts, said):
    with Job("export", {}) as job:
        job.count(**counts)
    assert job.result.summary() == f"export: done: {said}"

"""A job that was committed is seen by readers, even when it was killed at the very end of its commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.files import Disk
from milepost.spark.jobs.backfill import backfill
from milepost.spark.jobs.copying import is_done
from milepost.spark.sink.commit import Commit
from tests.spark.jobs.in_process import here
from tests.spark.logs import many_batches, write_log
from tests.spark.rows import read_rows

__all__ = ["here"]


class Killed(BaseException):
    pass


@pytest.mark.usefixtures("here")
def test_job_that_was_named_and_not_shown_is_shown_when_it_is_found_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "data", "t", 0, list(many_batches(3)))
    name = Commit._note

    def name_and_die(self: Commit, query: str, batch_id: int) -> None:
        name(self, query, batch_id)
        raise Killed

    monkeypatch.setattr(Commit, "_note", name_and_die)
    arguments = (None, str(tmp_path / "data"), "t", str(tmp_path / "into"), "copy")
    with pytest.raises(Killed):
        backfill(*arguments, name="once")  # type: ignore[arg-type]
    monkeypatch.undo()
    copied = {"path": str(tmp_path / "into"), "subscribe": "copy"}
    assert read_rows(copied) == []
    assert is_done(Disk(), str(tmp_path / "into"), "once")
    assert len(read_rows(copied)) == len(read_rows({"path": str(tmp_path / "data"), "subscribe": "t"})) > 0

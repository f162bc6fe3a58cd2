"""What the processes of tasks say on standard error when a query has what it wants and closes their connections."""

from __future__ import annotations

import io
import sys
import traceback

import pytest

from milepost.spark.worker_errors import quiet_about_limits


def said_of(error: Exception, monkeypatch: pytest.MonkeyPatch) -> str:
    """`pyspark.daemon` prints a sentence with the traceback, or, where such a process is to end, the traceback alone."""
    stderr = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        quiet_about_limits()
        try:
            raise error
        except BaseException:
            print("PySpark daemon failed to flush the output to the worker process:\n" + traceback.format_exc(), file=sys.stderr)
            traceback.print_exc()
        print("and what comes after it", file=sys.stderr)
    return stderr.getvalue()


def test_connection_that_was_closed_on_purpose_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(BrokenPipeError(32, "Broken pipe"), monkeypatch) == "and what comes after it\n"


def test_any_other_error_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    said = said_of(ConnectionResetError(104, "Connection reset by peer"), monkeypatch)
    assert said.count("ConnectionResetError: [Errno 104] Connection reset by peer") == 2
    assert said.endswith("and what comes after it\n")

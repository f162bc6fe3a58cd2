"""The progress bar: on a terminal, over a gigabyte, with rich; otherwise silence."""

from __future__ import annotations

import io
import sys

import pytest

from milepost.cli.terminal.progress import progress_bar

LARGE = 2_000_000_000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, total: int, stream: io.StringIO) -> str:
    """What the second stream got while the work was done. Set here: pytest puts its own stream back after fixtures."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("verify", total) as progress:
        progress(total // 2)
        progress(total)
    return stream.getvalue()


def test_a_large_file_on_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "verify" in shown(monkeypatch, LARGE, Terminal())


def test_a_small_file_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 1000, Terminal()) == ""


def test_a_pipe_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, LARGE, io.StringIO()) == ""


def test_without_rich_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert shown(monkeypatch, LARGE, Terminal()) == ""

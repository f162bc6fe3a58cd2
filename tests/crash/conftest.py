"""What the crash tests share: silence (recovery warns about every state it meets), and the count that the run ends with."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

STATES, CASES = "crash states", "crash cases"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def count(record_property):
    """`count(checker, at_least)`: note how many states a test recovered; fewer than it was written for is a failure."""

    def note(checker, at_least: int) -> None:
        record_property(STATES, checker.states)
        record_property(CASES, checker.cases)
        assert checker.states >= at_least, f"{checker.states} states were recovered; the sweep should have met {at_least}"

    return note


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [
        report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, []) if report.when == "call"
    ]
    totals = {
        name: sum(value for report in reports for key, value in report.user_properties if key == name) for name in (STATES, CASES)
    }
    if totals[STATES]:
        breaks = sum(report.failed and "tests/crash" in report.nodeid for report in reports)
        terminalreporter.write_line(f"crash states: {totals[STATES]}, crashes that lead there: {totals[CASES]}, breaks: {breaks}")

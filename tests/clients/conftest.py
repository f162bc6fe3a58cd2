"""One broker process for each client's tests; and, when `make compatibility` asks for it, a record of what they did."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterable, Iterator

import pytest

from tests.clients.compatibility.record import Outcome, recorder
from tests.clients.programs import expected
from tests.clients.served import Served
from tests.clients.served_cluster import VARIABLE, ServedCluster
from tests.clients.situations import covered_by

WRONG = pytest.StashKey[set[str]]()
Compare = Callable[[dict[str, str], str, Iterable[str]], None]


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("served")
    running: Served
    if os.environ.get(VARIABLE):
        running = ServedCluster(directory)
    else:
        running = Served(directory, requests=recorder().requests_of(request.path.stem))
    yield running
    # A client that an expected exception still refers to would complain about a broker that is gone.
    gc.collect()
    running.stop()


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    """Compares what a client's program saw, situation by situation, so that one that fails does not hide the others."""

    def judge(seen: dict[str, str], trouble: str, lacks: Iterable[str]) -> None:
        wanted = expected(lacks)
        wrong = {
            situation: [f"{what}: {seen.get(what)}, not {line}" for what, line in lines.items() if seen.get(what) != line]
            for situation, lines in wanted.items()
        }
        request.node.stash[WRONG] = {situation for situation, lines in wrong.items() if lines}
        everything = "\n".join([line for lines in wrong.values() for line in lines] + [trouble])
        assert everything == "", everything
        assert set(seen) == {what for lines in wanted.values() for what in lines}

    return judge


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or not report.passed:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        wrong = item.stash.get(WRONG, None)
        for situation in covered_by(getattr(item, "function", None), parameters):
            fine = report.passed or (report.failed and wrong is not None and situation not in wrong)
            recorder().add(item.path.stem, Outcome(item.name, situation, "passed" if fine else report.outcome))
        recorder().add(item.path.stem, Outcome(item.name, "", report.outcome))
    return report

"""Every workload, crashed after every disk operation, in every way that a dying process or a dying machine may leave its files."""

from __future__ import annotations

import random

import pytest

from tests.crash.history import Level
from tests.crash.invariants import Checker
from tests.crash.replayer import power_failures, process_deaths
from tests.crash.workloads import WORKLOADS, Run, grown, recoveries, run

FEW_STATES = {"append and flush": 440, "flush every append": 245, "truncate an abort": 470}
"""What flushes often leaves little to lose: 200 random subsets at each crash find these and hardly any more."""


def crash(made: Run, check: Checker, subsets: int, seed: int = 1) -> None:
    """All crashes of a run: see `replayer`."""
    failures = (
        (Level.PROCESS, process_deaths(made.initial, made.trace)),
        (Level.POWER, power_failures(made.initial, made.trace, random.Random(seed), subsets)),
    )
    for level, crashes in failures:
        at, expected = -1, None
        for one in crashes:
            if one.after < made.first:
                continue
            if one.after != at:
                at, expected = one.after, made.expected(one.after, level)
            try:
                check.check(one.state, expected)
            except AssertionError as error:
                raise AssertionError(
                    f"{made.name}, {level.value} fails after {one.after} operations, {one.label}: {error}"
                ) from error


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_survives_every_crash(name, count):
    made = run(name)
    check = Checker(made.known, made.config)
    crash(made, check, subsets=10)
    count(check, 150)


def test_recovery_survives_every_crash_in_the_middle_of_it(count):
    """C-31: the second recovery finds what the first one left, wherever that died."""
    total = Total()
    for made in recoveries():
        check = Checker(made.known, made.config)
        crash(made, check, subsets=10)
        total.add(check)
    assert total.runs >= 40
    count(total, 20_000)


def test_log_that_outgrows_a_wrong_checkpoint_survives_every_crash(count):
    """C-16, C-18: what a checkpoint beyond the end says must be corrected before the log reaches it."""
    total = Total()
    for made in grown():
        check = Checker(made.known, made.config)
        crash(made, check, subsets=10)
        total.add(check)
    count(total, 1000)


class Total:
    """The counts of several checkers."""

    def __init__(self) -> None:
        self.runs = self.states = self.cases = 0

    def add(self, check: Checker) -> None:
        self.runs += 1
        self.states += check.states
        self.cases += check.cases


@pytest.mark.trouble
@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_survives_many_more_crashes(name, count):
    made = run(name)
    check = Checker(made.known, made.config)
    crash(made, check, subsets=200, seed=random.randrange(1 << 30))
    count(check, FEW_STATES.get(name, 1000))

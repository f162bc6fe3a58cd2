"""Logs, their housekeeping and failing directories from many seeds; and managers with one thing wrong with them, which must be noticed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from milepost.log.cleaning import cleaner_manager
from milepost.log.ending import EndingLog
from milepost.log.maintenance import log_maintenance as upkeep
from milepost.log.maintenance.log_maintenance import Upkeep
from milepost.log.manager import LogManager
from tests.simulation.storage import StorageRun

SEEDS_EACH = 5
MOST_SEEDS = 40
Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    """A pause after every log: here there are four."""
    monkeypatch.setattr(upkeep, "LOGS_IN_A_PIECE", 1)
    monkeypatch.setattr(cleaner_manager, "LOGS_IN_A_PIECE", 1)


@pytest.fixture(autouse=True)
def quiet():
    """What is logged about a disk that fails on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, 10, SEEDS_EACH))
def test_logs_hold_what_was_written_whatever_goes_on_beside(first):
    for seed in range(first, first + SEEDS_EACH):
        run = StorageRun(seed).run()
        assert not run.findings, f"seed {seed}: {run.findings[:3]} after {run.trace[-10:]}"


@pytest.mark.trouble
@pytest.mark.parametrize("first", range(10, 210, SEEDS_EACH))
def test_logs_hold_what_was_written_for_many_more_seeds(first):
    test_logs_hold_what_was_written_whatever_goes_on_beside(first)


def logs_that_are_gone_go_on(patch: pytest.MonkeyPatch) -> None:
    def online(self: LogManager) -> Iterator[Any]:
        return iter([log for log in self.logs.values() if not log.is_failed])

    patch.setattr(LogManager, "online", online)
    patch.setattr(EndingLog, "begin_taking_away", EndingLog.settle)
    patch.setattr(EndingLog, "taken_away", lambda self, directory: self.close_handles())


def cuts_do_not_ask_the_cleaner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogManager, "without_cleaning", lambda self, log: nullcontext())


def deletion_leaves_the_checkpoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Upkeep, "forget", lambda self, directory, partition: None)
    patch.setattr(Upkeep, "ensure_unnamed", lambda self, directory, partition: None)


MUTANTS: dict[Mutant, set[str]] = {
    logs_that_are_gone_go_on: {"died", "lost", "offline"},
    cuts_do_not_ask_the_cleaner: {"foreign", "lost"},
    deletion_leaves_the_checkpoints: {"checkpoint", "foreign", "lost"},
}


@pytest.mark.trouble
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_noticed(mutant, monkeypatch):
    mutant(monkeypatch)
    for seed in range(MOST_SEEDS):
        found = {finding.rule for finding in StorageRun(seed).run().findings}
        if found & MUTANTS[mutant]:
            return
    raise AssertionError(f"{mutant.__name__} went unnoticed for {MOST_SEEDS} seeds")

"""Logs, their maintenance and failing directories from many seeds; and managers with one thing wrong with them, which must be noticed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from milepost.errors import MilepostError
from milepost.log.appending import DISK_FULL
from milepost.log.cleaning import cleaner_manager
from milepost.log.ending import EndingLog
from milepost.log.flushing import FlushableLog
from milepost.log.log import Log
from milepost.log.maintenance import log_maintenance
from milepost.log.maintenance.log_maintenance import LogMaintenance
from milepost.log.manager import LogManager
from milepost.log.retention import delete_old_segments
from tests.simulation.storage import StorageRun

SEEDS_EACH = 5
MOST_SEEDS = 80
Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    """A pause after every log: here there are four."""
    monkeypatch.setattr(log_maintenance, "LOGS_IN_A_PIECE", 1)
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
    """The directory has another name, and the log does not know."""

    def online(self: LogManager) -> Iterator[Any]:
        return iter([log for log in self.logs.values() if not log.is_failed])

    patch.setattr(LogManager, "online", online)
    patch.setattr(EndingLog, "begin_taking_away", EndingLog.finish_background_work)
    patch.setattr(EndingLog, "taken_away", lambda self, directory: self.close_handles())


def nobody_comes_late(patch: pytest.MonkeyPatch) -> None:
    """What is noticed then was done by the broker itself."""
    patch.setattr(StorageRun, "come_late", lambda self: None)


def only_retention_is_late(patch: pytest.MonkeyPatch) -> None:
    nobody_comes_late(patch)
    patch.setattr(LogMaintenance, "flush_due", lambda self: iter(()))
    patch.setattr(StorageRun, "elect", lambda self: None)


def a_retention_pass_ends_the_broker(patch: pytest.MonkeyPatch) -> None:
    def retain(log: Log) -> None:
        with suppress(MilepostError):
            delete_old_segments(log)

    logs_that_are_gone_go_on(patch)
    only_retention_is_late(patch)
    patch.setattr(log_maintenance, "retain", retain)
    patch.setattr(cleaner_manager, "retain", retain)


def retention_changes_the_next_log_of_the_name(patch: pytest.MonkeyPatch) -> None:
    logs_that_are_gone_go_on(patch)
    only_retention_is_late(patch)


def late_flushes_end_the_directory(patch: pytest.MonkeyPatch) -> None:
    logs_that_are_gone_go_on(patch)
    nobody_comes_late(patch)


def checkpoints_speak_of_logs_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    def gather(self: LogMaintenance, directory: Any, offset_of: Any) -> Any:
        offsets = {}
        for log in self._manager.logs_in(directory):
            offset = offset_of(log)
            if offset is not None:
                offsets[log.partition] = offset
            yield
        return offsets

    patch.setattr(LogMaintenance, "_gather", gather)


def epochs_are_written_when_there_is_room_again(patch: pytest.MonkeyPatch) -> None:
    """Whether or not the log has been deleted since."""

    def write_epochs_in_background(self: Any, lines: list[str]) -> None:
        def failed(error: OSError) -> None:
            if error.errno in DISK_FULL:
                self.scheduler.later(1000, self.epochs.rewrite)

        self.in_background(lambda: self.epochs.write_lines(lines), lambda _: None, failed)

    patch.setattr(FlushableLog, "write_epochs_in_background", write_epochs_in_background)
    patch.setattr(EndingLog, "taken_away", lambda self, directory: self.close_handles())
    nobody_comes_late(patch)


def cuts_do_not_ask_the_cleaner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogManager, "without_cleaning", lambda self, log: nullcontext())


def deletion_leaves_the_checkpoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogMaintenance, "forget", lambda self, directory, partition: None)
    patch.setattr(LogMaintenance, "ensure_unnamed", lambda self, directory, partition: None)


def epochs_without_room_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushableLog, "recovers_from", property(lambda self: self.recovery_point))


MUTANTS: list[tuple[Mutant, set[str]]] = [
    (logs_that_are_gone_go_on, {"foreign", "lost"}),
    (logs_that_are_gone_go_on, {"offline"}),
    (a_retention_pass_ends_the_broker, {"died"}),
    (retention_changes_the_next_log_of_the_name, {"checkpoint", "foreign", "lost"}),
    (late_flushes_end_the_directory, {"offline"}),
    (checkpoints_speak_of_logs_that_are_gone, {"checkpoint", "foreign", "lost"}),
    (epochs_are_written_when_there_is_room_again, {"epoch"}),
    (cuts_do_not_ask_the_cleaner, {"foreign", "lost"}),
    (deletion_leaves_the_checkpoints, {"checkpoint", "foreign", "lost"}),
    (epochs_without_room_are_lost, {"epoch"}),
]


@pytest.mark.trouble
@pytest.mark.parametrize(("mutant", "rules"), MUTANTS, ids=[f"{mutant.__name__}-{min(rules)}" for mutant, rules in MUTANTS])
def test_mutant_is_noticed(mutant, rules, monkeypatch):
    mutant(monkeypatch)
    for seed in range(MOST_SEEDS):
        if rules & {finding.rule for finding in StorageRun(seed).run().findings}:
            return
    raise AssertionError(f"{mutant.__name__} went unnoticed for {MOST_SEEDS} seeds")

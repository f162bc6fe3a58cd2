"""Every file of a log cut at every byte, then recovered as after a crash."""

from __future__ import annotations

import functools

import pytest

from tests.crash.invariants import Checker
from tests.crash.sample import everything, small_state
from tests.crash.sweeps import Original

ALL_SYNCED = 10_000


@functools.cache
def original() -> Original:
    writer = everything()
    return Original(small_state(writer), writer.history.known)


def checker() -> Checker:
    writer = everything()
    return Checker(writer.history.known, writer.config)


def test_sample_holds_everything_a_log_can_hold():
    """64 batches in three segments, five codecs, four producers and none, three leader epochs, aborts and an open transaction."""
    batches = original().all
    assert len(batches) == 64
    assert len(original().logs()) == 3
    assert {batch.stored[22] & 7 for batch in batches} == {0, 1, 2, 3, 4}
    assert {batch.producer_id for batch in batches} == {-1, 1, 2, 7, 8, 9, 10}
    assert {batch.leader_epoch for batch in batches} == {0, 1, 2}
    assert [batch.marker for batch in batches if batch.marker] == ["ABORT", "ABORT", "COMMIT", "ABORT"]
    log, _ = checker().recover(original().state)
    assert log.last_stable_offset == next(batch.base_offset for batch in batches if batch.producer_id == 10)


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_log_cut_at_every_byte_keeps_every_batch_that_is_whole(segment, count):
    path, check = original().logs()[segment], checker()
    for case in original().cuts(path, recovery_point=original().segment_base(path)):
        check.check(case.state, case.expected, tolerated=case.tolerated)
    count(check, len(original().state[path]))


def test_any_other_file_cut_at_every_byte_costs_nothing(count):
    check = checker()
    for path in original().files():
        if path not in original().logs():
            for case in original().cuts(path):
                check.check(case.state, case.expected)
    count(check, 1500)


def test_index_and_snapshot_below_the_recovery_point_cut_at_every_byte_cost_nothing(count):
    """Nobody reads those segments again, so each index must notice by itself that it is not whole."""
    check = checker()
    for path in original().files():
        if path.endswith((".index", ".timeindex", ".snapshot")):
            for case in original().cuts(path, recovery_point=ALL_SYNCED):
                check.check(case.state, case.expected)
    count(check, 1300)


@pytest.mark.trouble
def test_log_cut_at_every_byte_is_recovered_from_its_beginning_too(count):
    check = checker()
    for path in original().files():
        for case in original().cuts(path):
            check.check(case.state, case.expected, tolerated=case.tolerated)
    count(check, 8000)

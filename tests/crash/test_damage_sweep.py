"""A log whose files were damaged: zeros, flipped bits, older versions, missing files, and all of these together.

Damage with whole batches behind it is a hole: what lies in it cannot be read, everything else can, and the log ends
where it ended. Damage with nothing behind it is a torn tail. Two fields of a batch are outside its checksum, the
offset and the leader epoch: a batch that damage gave another offset is found out by its neighbours if it has any,
another epoch is not.
"""

from __future__ import annotations

import pytest

from tests.crash.invariants import Checker
from tests.crash.memory_disk import State
from tests.crash.sample import everything, small_state
from tests.crash.sweeps import EPOCHS, Case
from tests.crash.test_cut_sweep import ALL_SYNCED, checker, original


def run(check: Checker, cases) -> None:
    for case in cases:
        try:
            check.check(case.state, case.expected, tolerated=case.tolerated)
        except AssertionError as error:
            raise AssertionError(f"{case.label}: {error}") from error


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_one_flipped_bit_costs_at_most_its_batch(segment, count):
    path, check = original().logs()[segment], checker()
    run(check, original().flips(path, recovery_point=original().segment_base(path)))
    count(check, 1900)


def test_one_flipped_bit_in_any_other_file_costs_nothing(count):
    check = checker()
    # The epoch file is text without a checksum: a flipped digit is a digit.
    run(
        check,
        (
            case
            for path in original().files()
            if path not in original().logs()
            for case in original().flips(path)
            if path != EPOCHS
        ),
    )
    count(check, 1600)


@pytest.mark.parametrize("segment", [0, 1, 2])
def test_last_bytes_zero_are_cut_or_a_hole(segment, count):
    path, check = original().logs()[segment], checker()
    run(check, original().zeroed_tails(path, 3, recovery_point=original().segment_base(path)))
    count(check, 500)


def test_last_bytes_zero_in_any_other_file_cost_nothing(count):
    check = checker()
    run(check, (case for path in original().files() if path not in original().logs() for case in original().zeroed_tails(path)))
    count(check, 400)


@pytest.mark.parametrize("block", [64, 512, 4096])
def test_block_of_zeros_costs_at_most_the_batches_it_touches(block, count):
    check = checker()
    for path in original().files():
        run(check, original().zeroed_blocks(path, block, block // 8, original().segment_base(path)))
    count(check, {64: 900, 512: 100, 4096: 15}[block])


def test_zeros_behind_a_file_cost_nothing(count):
    """As a crash leaves a file whose size was written before its data (C-04), and a preallocated index (C-08)."""
    check = checker()
    for path in original().files():
        if not path.endswith(("checkpoint", ".snapshot", ".txnindex")):
            run(
                check,
                original().zeros_behind(
                    path, [1, 7, 8, 11, 12, 16, 17, 60, 61, 511, 512, 4096, 65536], original().segment_base(path)
                ),
            )
    count(check, 100)


def test_missing_file_costs_nothing_but_itself(count):
    check = checker()
    run(check, original().removals())
    run(check, original().removals(0))
    count(check, 30)


def test_older_version_of_a_file_costs_nothing_but_what_it_lacks(count):
    check = checker()
    run(check, original().older(versions()))
    count(check, 30)


def versions() -> dict[str, list[bytes]]:
    """Each file as it was now and then while the sample was written."""
    writer = everything()
    final = small_state(writer)
    found: dict[str, list[bytes]] = {path: [] for path in final}
    for state in earlier_states(writer.disk.trace, 12):
        for path, data in state.items():
            if path in found and data != final[path] and data not in found[path]:
                found[path].append(data)
    return found


def earlier_states(trace, count: int) -> list[State]:
    from tests.crash.replayer import process_deaths

    whole = [crash for crash in process_deaths({}, trace) if crash.label.startswith("after")]
    return [crash.state for crash in whole[:: len(whole) // count]]


def test_damage_of_several_files_at_once_costs_no_more_than_that_of_the_log(count):
    check = checker()
    run(check, original().combinations())
    count(check, 13_000)


def test_bit_flipped_in_a_log_below_the_recovery_point_does_not_keep_it_from_opening(count):
    """Such a batch is not read at the start (C-06): a reader's checksum finds it. What the start stumbles over is recovered as a whole."""
    check = checker()
    for path in original().logs()[:2]:
        for case in original().flips(path, recovery_point=ALL_SYNCED):
            log, _ = check.recover(case.state)
            assert log.end_offset == original().all[-1].last_offset + 1
            check.note(case.state)
    count(check, 4700)


def test_hole_stays_where_it_is_over_a_clean_stop(count):
    check = checker()
    path = original().logs()[1]
    case = next(case for case in original().flips(path) if "byte 700 " in case.label)
    log, disk = check.recover(case.state)
    holes = log.segments.floor(50).log.holes
    assert len(holes) == 1
    log.close()
    reopened, _ = check.recover(disk.state())
    assert reopened.segments.floor(50).log.holes == holes
    assert reopened.end_offset == log.end_offset


@pytest.mark.trouble
def test_every_bit_of_every_byte(count):
    check = checker()
    for path in original().files():
        if path != EPOCHS:
            run(check, original().flips(path, range(8)))
    count(check, 60_000)


@pytest.mark.trouble
def test_every_number_of_zero_bytes(count):
    check = checker()
    for path in original().files():
        run(check, original().zeroed_tails(path))
    count(check, 4200)


__all__ = ["Case"]

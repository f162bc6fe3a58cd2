"""What a cleaning does to transactions: aborted data, markers that still mean something, markers that do not."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.log.cleaning.cleanable import measure
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.log.cleaning.cleaned_logs import (
    ABORT,
    COMMIT,
    DAY,
    NOW,
    all_offsets,
    batch_spans,
    clean,
    compacted_log,
    contents,
    put,
    put_marker,
    transactional,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def log(tmp_path, clock):
    with compacted_log(tmp_path, clock=clock) as opened:
        yield opened


def test_aborted_data_goes_with_its_first_cleaning_and_committed_data_stays(log):
    transactional(log, 1, (1, "a"), (2, "a"))  # 0 1
    transactional(log, 2, (3, "b"))  # 2
    transactional(log, 2, (2, "b"), sequence=1)  # 3
    put_marker(log, ABORT, 1)  # 4
    put_marker(log, COMMIT, 2)  # 5
    log.roll()
    aborted = list(log.segments.first.txn_index.transactions())
    clean(log)
    assert contents(log) == {2: ("3", "b"), 3: ("2", "b")}
    assert all_offsets(log) == [2, 3, 4, 5]
    assert list(log.segments.first.txn_index.transactions()) == aborted


def test_newer_aborted_record_does_not_hide_an_older_committed_one(log):
    put(log, ("k", "committed"))
    transactional(log, 1, ("k", "aborted"))
    put_marker(log, ABORT, 1)
    log.roll()
    clean(log)
    assert contents(log) == {0: ("k", "committed")}


def test_commit_marker_stays_while_data_remains_then_until_its_horizon(log, clock):
    def horizon_of_the_first_marker() -> int | None:
        return next(batch.delete_horizon_ms for _, batch in log.segments.first.log.batches() if batch.base_offset == 1)

    transactional(log, 1, ("a", 1))  # 0
    put_marker(log, COMMIT, 1)  # 1
    put(log, ("b", 1))  # 2
    log.roll()
    clean(log)
    assert all_offsets(log) == [0, 1, 2]
    transactional(log, 1, ("a", 2), sequence=1)  # 3
    put_marker(log, COMMIT, 1)  # 4
    log.roll()
    clean(log)
    assert (all_offsets(log), horizon_of_the_first_marker()) == ([1, 2, 3, 4], None), "this pass still saw the data it removed"
    for _ in range(2):
        clean(log)
        assert (all_offsets(log), horizon_of_the_first_marker()) == ([1, 2, 3, 4], NOW + DAY)
    clock.advance(DAY)
    clean(log)
    assert all_offsets(log) == [2, 3, 4]


def test_abort_marker_without_data_goes_after_its_horizon_and_its_index_entry_before(log, clock):
    transactional(log, 1, ("a", 1))  # 0
    put_marker(log, ABORT, 1)  # 1
    transactional(log, 1, ("b", 1), sequence=1)  # 2
    put_marker(log, COMMIT, 1)  # 3
    put(log, ("c", 1))  # 4
    log.roll()
    clean(log)
    assert (all_offsets(log), len(log.segments.first.txn_index.transactions())) == ([1, 2, 3, 4], 1)
    clean(log)
    assert (all_offsets(log), len(log.segments.first.txn_index.transactions())) == ([1, 2, 3, 4], 0)
    clean(log)
    assert all_offsets(log) == [1, 2, 3, 4]
    clock.advance(DAY)
    clean(log)
    assert all_offsets(log) == [2, 3, 4]


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_marker_in_another_segment_than_its_data(tmp_path, clock, kind):
    with compacted_log(tmp_path, {"segment.bytes": 160}, clock=clock) as log:
        transactional(log, 1, ("a", "x" * 60))  # 0
        log.roll()
        put(log, ("b", "x" * 60))  # 1
        log.roll()
        put_marker(log, kind, 1)  # 2
        put(log, ("c", 1))  # 3
        log.roll()
        clean(log)
        assert 2 in all_offsets(log)
        if kind is COMMIT:
            assert contents(log) == {0: ("a", "x" * 60), 1: ("b", "x" * 60), 3: ("c", "1")}
        else:
            # The producer's last batch: its data is gone, its sequence is not.
            assert contents(log) == {1: ("b", "x" * 60), 3: ("c", "1")}
            assert batch_spans(log)[0] == (0, 0, 0)
        assert [record.offset for record in log.records(isolation="committed")] == sorted(contents(log))


def test_marker_behind_the_end_of_the_pass_decides_data_inside_it(log):
    put(log, ("k", "old"))  # 0
    transactional(log, 1, ("k", "aborted"))  # 1
    put(log, ("x", 1))  # 2
    log.roll()
    put_marker(log, ABORT, 1)  # 3, in the active segment
    clean(log)
    assert contents(log) == {0: ("k", "old"), 2: ("x", "1")}


def test_cleaning_never_passes_an_open_transaction(log):
    put(log, ("k", 1))
    put(log, ("k", 2))
    log.roll()
    transactional(log, 1, ("k", "undecided"))
    put(log, ("k", 3))
    log.roll()
    work = measure(log, None)
    assert work.first_uncleanable_offset == 2
    assert clean(log).end_offset == 2
    assert contents(log) == {1: ("k", "2"), 2: ("k", "undecided"), 3: ("k", "3")}


def test_cleaning_never_passes_the_high_watermark(log):
    for number in range(4):
        put(log, ("k", number))
        log.roll()
    log.high_watermark = 2
    clean(log)
    assert sorted(contents(log)) == [1, 2, 3]


def test_record_with_the_key_of_a_commit_marker_is_not_superseded_by_one(log):
    for producer_id, key in ((1, b"\0\0\0\1"), (2, b"another")):
        records = [Record(0, NOW, key, b"value")]
        log.append_as_leader(
            build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        put_marker(log, COMMIT, producer_id)
    log.roll()
    clean(log)
    assert all_offsets(log) == [0, 1, 2, 3]


def test_producer_that_starts_its_sequences_again_leaves_only_its_last_batch(log, clock):
    for epoch in range(3):
        transactional(log, 1, ("a", epoch), epoch=epoch)
        put_marker(log, COMMIT, 1, epoch=epoch)
    put(log, ("a", "last"))
    log.roll()
    clean(log)
    assert batch_spans(log) == [(1, 1, 1), (3, 3, 1), (4, 4, 0), (5, 5, 1), (6, 6, 1)]
    clock.advance(DAY)
    log.producers.producers[1].last_timestamp = clock.now_ms()
    clean(log)
    # The first cleaning still saw their data; so the markers at 1 and 3 got their horizon in the second, and go in the third.
    clock.advance(DAY)
    clean(log)
    assert batch_spans(log) == [(4, 4, 0), (5, 5, 1), (6, 6, 1)]


def test_marker_is_kept_empty_when_it_is_all_that_is_known_of_its_producer(log, clock):
    put_marker(log, ABORT, 1, epoch=4)
    put(log, ("a", 1))
    log.roll()
    clean(log)
    clock.advance(DAY)
    clean(log)
    assert batch_spans(log) == [(0, 0, 0), (1, 1, 1)]
    batch = next(batch for _, batch in log.segments.first.log.batches())
    assert (batch.is_control, batch.producer_id, batch.producer_epoch) == (True, 1, 4)

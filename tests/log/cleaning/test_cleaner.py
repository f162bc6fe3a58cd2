"""One cleaning of one log: how segments are put together, and what is there afterwards."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner import CleaningAborted
from milepost.log.cleaning.cleaning_plan import group_sources, make_plan
from milepost.log.log import Log
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.segment.append_unit import AppendUnit
from tests.log.cleaning.cleaned_logs import (
    ABORT,
    COMMIT,
    DAY,
    NOW,
    clean,
    compacted_log,
    contents,
    leftovers,
    put,
    put_marker,
    transactional,
)

INT_MAX = 2**31 - 1


# Segments.


def test_small_segments_are_put_together_and_keep_the_last_files_time(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 400}, clock=clock) as log:
        for number in range(12):
            put(log, (number % 2, "x" * 20))
            if number % 3 == 2:
                log.roll()
        bases = log.segments.base_offsets()
        assert bases == [0, 3, 6, 9, 12]
        for segment in log.segments:
            os.utime(segment.log.path, (NOW // 1000 - 1000 + segment.base_offset,) * 2)
        clean(log)
        # Groups form by the sizes before the cleaning; the next one finds the segments small.
        assert log.segments.base_offsets() == [0, 3, 6, 9, 12]
        clean(log)
        assert log.segments.base_offsets() == [0, 12]
        seconds = NOW // 1000 - 1000 + 9
        names = [name for name in os.listdir(log.directory) if name.startswith(f"{0:020d}") and not name.endswith("deleted")]
        assert {name: int(os.stat(f"{log.directory}/{name}").st_mtime) for name in names if name.endswith(".log")} == {
            f"{0:020d}.log": seconds
        }


def test_snapshot_of_a_segment_that_was_merged_goes_and_the_first_ones_stays(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 1000}, clock=clock) as log:
        for number in range(6):
            put(log, ("k", number))
            log.roll()
        assert log.producers.snapshots() == [1, 2, 3, 4, 5, 6]
        clean(log)
        assert log.segments.base_offsets() == [0, 6]
        assert log.producers.snapshots() == [6]
        clock.advance(60_000)
        log.scheduler.run_due()
        assert leftovers(log) == []


def test_old_files_stay_readable_until_the_delay_is_over(log, clock):
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    fetched = log.read(0)
    clean(log)
    assert [batch.base_offset for batch in fetched.batches] == [0, 1]
    assert leftovers(log) != []
    clock.advance(60_000)
    log.scheduler.run_due()
    assert leftovers(log) == []


def sources(log: Log) -> list[list[int]]:
    plan = make_plan(measure(log, None))
    groups = group_sources(plan.sources, log.config.segment_bytes, log.config.segment_index_bytes, plan.upper_bound)
    for source in plan.sources:
        source.segment.close_handles()
    return [[source.base_offset for source in group] for group in groups]


def at(log: Log, offset: int, key: str = "key") -> None:
    log.append_as_follower(build_batch([Record(offset, NOW, key.encode(), b"v")], base_offset=offset))
    log.update_high_watermark(log.end_offset)


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        ({}, [[0, 2, 4, 6]]),
        ({"segment.bytes": 300}, [[0, 2], [4, 6]]),
        ({"segment.bytes": 200}, [[0], [2], [4], [6]]),
        ({"index.interval.bytes": 0, "segment.index.bytes": 36}, [[0, 2, 4], [6]]),
        ({"index.interval.bytes": 0, "segment.index.bytes": 24}, [[0, 2], [4, 6]]),
    ],
)
def test_groups_are_bounded_by_the_sizes_of_log_and_indexes(tmp_path, clock, config, groups):
    with compacted_log(tmp_path, config, clock=clock) as log:
        for number in range(8):
            put(log, (number, 1), timestamp=NOW + number)
            if number % 2:
                log.roll()
        assert sources(log) == groups


@pytest.mark.parametrize(
    ("third", "groups"),
    [(INT_MAX + 1, [[0, 1], [INT_MAX + 1]]), (INT_MAX + 2, [[0], [1], [INT_MAX + 2]])],
    ids=["its last offset may just fit", "it may not"],
)
def test_segment_is_grouped_by_the_last_offset_it_could_have(log, third, groups):
    at(log, 0)
    log.roll()
    at(log, 1)
    log.roll(third)
    at(log, third)
    log.roll()
    assert sources(log) == groups


def test_sparse_segments_are_grouped_by_the_base_of_the_next(log):
    at(log, 0)
    log.roll()
    at(log, INT_MAX)
    log.roll()
    at(log, INT_MAX + 2)
    log.roll()
    at(log, 2 * INT_MAX)
    log.roll()
    bases = log.segments.base_offsets()
    assert sources(log) == [[bases[0], bases[1]], [bases[2], bases[3]]]


def test_empty_segment_joins_a_group_however_far_its_end_is(log):
    at(log, 0)
    log.roll()
    at(log, 1)
    log.roll(INT_MAX + 100)
    at(log, INT_MAX + 100)
    log.roll()
    empty = log.segments.floor(1)
    assert empty is not None
    assert sources(log) == [[0], [1], [INT_MAX + 100]]
    empty.log.truncate_to(0)
    assert sources(log) == [[0, 1], [INT_MAX + 100]]


def test_log_of_sparse_offsets_is_cleaned_and_can_be_loaded(tmp_path, clock):
    log = compacted_log(tmp_path, clock=clock)
    for offset in (0, INT_MAX - 5, INT_MAX + 5, 2 * INT_MAX + 5):
        at(log, offset, "same")
        log.roll()
    clean(log)
    assert list(contents(log)) == [2 * INT_MAX + 5]
    log.close()
    again = compacted_log(tmp_path, clock=clock)
    assert (list(contents(again)), again.end_offset) == ([2 * INT_MAX + 5], 2 * INT_MAX + 6)
    again.close()


def overflowed(log: Log, offsets: list[int]) -> None:
    """Put batches into the first segment that do not fit it, as old compaction did."""
    segment = log.segments.active
    for offset in offsets:
        data = build_batch([Record(offset, NOW, b"k%d" % (offset % 2), b"%d" % offset)], base_offset=offset)
        if offset - segment.base_offset <= INT_MAX:
            segment.append([data], [AppendUnit(offset, len(data), NOW, offset)])
        else:
            segment.log.append([data], len(data))
        log.end_offset = offset + 1
    log.producers.update_map_end_offset(log.end_offset)
    log.roll()
    log.update_high_watermark(log.end_offset)


def test_overflowed_segment_is_split_and_the_cleaning_starts_over(log):
    overflowed(log, [0, 1, 2, INT_MAX + 3, INT_MAX + 4])
    before = contents(log)
    with pytest.raises(CleaningAborted, match="was split"):
        clean(log)
    assert contents(log) == before
    assert log.segments.base_offsets() == [0, INT_MAX + 3, INT_MAX + 5]
    assert [name for name in leftovers(log) if not name.endswith("deleted")] == []
    clean(log)
    assert sorted(contents(log)) == [INT_MAX + 3, INT_MAX + 4]


# After all of that.


def test_cleaned_log_survives_a_crash_without_its_indexes(tmp_path, clock):
    log = compacted_log(tmp_path, {"index.interval.bytes": 100}, clock=clock)
    transactional(log, 1, ("a", 1))
    for number in range(40):
        put(log, (number % 7, "x" * 30), timestamp=NOW + number)
    put_marker(log, ABORT, 1)
    log.roll()
    clean(log)
    expected = contents(log)
    log.flush()
    log.owner.directory.close(False, {})
    for path in Path(log.directory).glob("*index"):
        path.unlink()
    again = compacted_log(tmp_path, {"index.interval.bytes": 100}, clock=clock)
    assert contents(again) == expected
    assert [record.offset for record in again.records(isolation="committed")] == list(expected)
    again.close()


actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 6), st.one_of(st.none(), st.integers(0, 99))), max_size=5)),
        st.tuples(st.just("transaction"), st.tuples(st.integers(1, 3), st.integers(0, 6), st.sampled_from([COMMIT, ABORT]))),
        st.tuples(st.just("roll"), st.none()),
        st.tuples(st.just("clean"), st.integers(0, 2)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=30,
)


@given(actions, st.integers(0, 2**32))
def test_reader_of_committed_data_ends_up_with_the_same_values_whatever_was_cleaned(tmp_path_factory, history, seed):
    directory, clock, rng = tmp_path_factory.mktemp("history"), ManualClock(NOW), random.Random(seed)
    log = compacted_log(directory, {"segment.bytes": 700}, clock=clock)
    model: dict[str, str] = {}
    sequences = dict.fromkeys((1, 2, 3), 0)
    checkpoint: int | None = None
    for action, given_ in history:
        if action == "put" and given_:
            put(log, *given_, codec=rng.choice(list(Codec)))
            apply(model, given_)
        elif action == "transaction":
            producer_id, key, kind = given_
            entry = log.producers.last_entry(producer_id)
            sequences[producer_id] = entry.last_sequence + 1 if entry is not None else 0
            pairs = [(key, rng.randrange(1000)), (key + 1, None)]
            transactional(log, producer_id, *pairs, sequence=sequences[producer_id])
            put_marker(log, kind, producer_id)
            if kind is COMMIT:
                apply(model, pairs)
        elif action == "roll":
            log.roll()
        elif action == "clean":
            work = measure(log, checkpoint)
            if work.cleanable_bytes:
                checkpoint = clean(log, checkpoint, map_bytes=rng.choice([24 * 4, 1 << 16])).end_offset
            clock.advance(given_ * DAY // 2)
        elif action == "reopen":
            log.close()
            log = compacted_log(directory, {"segment.bytes": 700}, clock=clock)
        records = {record.offset: (record.key.decode(), record.value) for record in log.records(isolation="committed")}
        state = {key: value for _, (key, value) in sorted(records.items())}
        assert {key: value.decode() for key, value in state.items() if value is not None} == model
    log.close()


def apply(model: dict[str, str], pairs: list[tuple[int, int | None]]) -> None:
    for key, value in pairs:
        if value is None:
            model.pop(str(key), None)
        else:
            model[str(key)] = str(value)

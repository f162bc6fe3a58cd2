"""Which part of a log a cleaning may touch, and when that is worth it."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.log.cleaning.cleanable import measure
from milepost.log.log import Log
from milepost.log.open import open_log
from tests.log.cleaning.cleaned_logs import DAY, NOW, QuickDisk, put


@pytest.fixture
def logs(tmp_path):
    opened: list[Log] = []

    def open_one(**config: object) -> Log:
        settings = {"cleanup.policy": "compact"} | {name.replace("_", "."): value for name, value in config.items()}
        opened.append(open_log(str(tmp_path / "kv-0"), "a", settings, clock=ManualClock(NOW), disk=QuickDisk()))
        return opened[-1]

    yield open_one
    for log in opened:
        log.close()


def segment(log: Log, *keys: str, timestamp: int = NOW) -> None:
    """A sealed segment with one batch per key."""
    for key in keys:
        put(log, (key, "value"), timestamp=timestamp)
    log.roll()


def test_log_that_was_never_cleaned_is_dirty_up_to_the_active_segment(logs):
    log = logs()
    segment(log, "a", "b")
    segment(log, "a")
    put(log, ("b", 1))
    work = measure(log, None)
    assert (work.first_dirty_offset, work.first_uncleanable_offset) == (0, 3)
    assert (work.clean_bytes, work.ratio, work.is_due) == (0, 1.0, True)
    assert work.cleanable_bytes == sum(each.size for each in list(log.segments)[:2])


def test_ratio_counts_the_segment_of_the_checkpoint_on_both_sides(logs):
    log = logs()
    segment(log, "a", "b")
    segment(log, "a", "b")
    first, second = (each.size for each in list(log.segments)[:2])
    at_a_base = measure(log, 2)
    assert (at_a_base.clean_bytes, at_a_base.cleanable_bytes, at_a_base.ratio) == (first, second, 0.5)
    inside = measure(log, 3)
    assert (inside.clean_bytes, inside.cleanable_bytes) == (first + second, second)


@pytest.mark.parametrize(("least", "is_due"), [(0.5, False), (0.49, True)])
def test_ratio_must_exceed_the_configured_one(logs, least, is_due):
    log = logs(min_cleanable_dirty_ratio=least)
    segment(log, "a", "b")
    segment(log, "a", "b")
    assert measure(log, 2).is_due is is_due


def test_log_with_nothing_but_its_active_segment_is_not_dirty(logs):
    log = logs()
    put(log, ("a", 1), ("a", 2))
    work = measure(log, None)
    assert (work.first_dirty_offset, work.first_uncleanable_offset, work.cleanable_bytes, work.is_due) == (0, 0, 0, False)


def test_log_that_starts_inside_its_active_segment_has_nothing_to_clean(logs):
    log = logs(cleanup_policy="compact,delete")
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.increment_start(1)
    work = measure(log, None)
    assert (work.first_dirty_offset, work.cleanable_bytes) == (1, 0)


def test_segments_younger_than_the_lag_are_not_cleanable_and_hide_those_behind_them(logs):
    log = logs(min_compaction_lag_ms=1000)
    segment(log, "a", timestamp=NOW - 5000)
    segment(log, "b", timestamp=NOW - 999)
    segment(log, "c", timestamp=NOW - 5000)
    assert measure(log, None).first_uncleanable_offset == 1
    log.clock.advance(1)
    assert measure(log, None).first_uncleanable_offset == 3


def test_limit_inside_a_segment_is_rounded_down_to_its_start(logs):
    log = logs()
    segment(log, "a", "b", "c")
    segment(log, "a", "b", "c")
    log.high_watermark = 5
    assert measure(log, None).first_uncleanable_offset == 3
    log.high_watermark = 1
    assert measure(log, None).cleanable_bytes == 0


def test_old_records_make_a_log_overdue_whatever_its_ratio(logs):
    log = logs(max_compaction_lag_ms=DAY, min_cleanable_dirty_ratio=1.0)
    segment(log, "a", timestamp=NOW - DAY)
    assert not measure(log, None).is_due
    log.clock.advance(1)
    assert measure(log, None).is_overdue
    assert measure(log, None).is_due
    # Only the dirty part counts.
    assert not measure(log, 1).is_due


@pytest.mark.parametrize(("checkpoint", "start", "expected"), [(200, 0, 0), (200, 2, 2), (1, 2, 2), (2, 2, 2), (3, 2, 3)])
def test_checkpoint_outside_the_log_counts_as_the_log_start(logs, checkpoint, start, expected):
    log = logs(cleanup_policy="compact,delete")
    segment(log, "a", "b", "c", "d")
    log.increment_start(start)
    work = measure(log, checkpoint)
    assert work.first_dirty_offset == expected
    assert work.checkpoint_was_wrong is (checkpoint != expected)

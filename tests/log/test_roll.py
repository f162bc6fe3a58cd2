"""When a log starts a new segment, and what that leaves behind."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.errors import KafkaStorage
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.log.making import NOW, idempotent, log_in, names, offsets, produced, snapshots
from tests.segment.making import batch

INT_MAX = 2**31 - 1
HOUR_MS = 3_600_000


def bases(log):
    return log.segments.base_offsets()


def test_log_rolls_by_the_times_of_its_records_and_not_by_the_clock(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock, segment_ms=HOUR_MS)
    log.append_as_leader(produced(timestamp=NOW))
    clock.advance(10 * HOUR_MS)
    log.append_as_leader(produced(timestamp=NOW + HOUR_MS))
    assert bases(log) == [0]
    log.append_as_leader(produced(timestamp=NOW + HOUR_MS + 1))
    assert bases(log) == [0, 2]


def test_record_with_a_timestamp_does_not_roll_a_segment_that_started_without_one(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock, segment_ms=HOUR_MS)
    log.append_as_leader(produced(timestamp=-1))
    log.append_as_leader(produced(timestamp=NOW + 100 * HOUR_MS))
    assert bases(log) == [0]
    clock.advance(HOUR_MS + 1)
    log.append_as_leader(produced(timestamp=-1))
    assert bases(log) == [0, 2]


def test_older_timestamps_never_roll_and_a_far_future_one_rolls_at_once(tmp_path):
    log = log_in(tmp_path, segment_ms=HOUR_MS)
    for timestamp in (NOW, NOW - 100 * HOUR_MS, NOW + HOUR_MS):
        log.append_as_leader(produced(timestamp=timestamp))
    assert bases(log) == [0]
    log.append_as_leader(produced(timestamp=4_102_444_800_000))
    assert bases(log) == [0, 3]


def test_first_timestamp_of_the_segment_is_known_after_a_restart(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock, segment_ms=HOUR_MS)
    log.append_as_leader(produced(timestamp=NOW))
    log.close()
    clock.advance(HOUR_MS)
    log = log_in(tmp_path, clock=clock, segment_ms=HOUR_MS)
    log.append_as_leader(produced(timestamp=NOW + HOUR_MS))
    assert bases(log) == [0]
    log.append_as_leader(produced(timestamp=NOW + HOUR_MS + 1))
    assert bases(log) == [0, 2]


def test_compacted_log_rolls_by_the_longest_lag_if_that_is_shorter(tmp_path):
    log = log_in(tmp_path, segment_ms=HOUR_MS, cleanup_policy=("compact",), max_compaction_lag_ms=1000)
    log.append_as_leader(produced(timestamp=NOW))
    log.append_as_leader(produced(timestamp=NOW + 1000))
    log.append_as_leader(produced(timestamp=NOW + 1001))
    assert bases(log) == [0, 2]


def test_empty_set_never_rolls(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock, segment_ms=HOUR_MS)
    log.append_as_leader(produced(timestamp=-1))
    clock.advance(10 * HOUR_MS)
    log.append_as_leader(b"")
    assert bases(log) == [0]


def test_eleven_equal_sets_of_which_ten_do_not_fit_make_two_segments(tmp_path):
    log = log_in(tmp_path, segment_bytes=10 * (100 - 1))
    for _ in range(11):
        log.append_as_leader(produced(size=100))
    assert bases(log) == [0, 9]


def test_segment_is_filled_to_the_byte(tmp_path):
    log = log_in(tmp_path, segment_bytes=300)
    for _ in range(7):
        log.append_as_leader(produced(size=100))
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [300, 300, 100]


def test_hundred_segments_of_one_record_are_read_in_order(tmp_path):
    log = log_in(tmp_path, segment_bytes=71)
    for number in range(100):
        log.append_as_leader(produced(timestamp=NOW + number))
    assert bases(log) == list(range(100))
    assert [record.timestamp for record in log.records(isolation="log end")] == [NOW + number for number in range(100)]
    assert log.recovery_point == 99


def test_full_index_rolls(tmp_path):
    log = log_in(tmp_path, index_interval_bytes=0, segment_index_bytes=80)
    for number in range(8):
        log.append_as_leader(produced(timestamp=NOW + number))
    # The sixth append brought the fifth entry, which fills a time index of six slots.
    assert bases(log) == [0, 6]


def test_gap_of_a_follower_names_the_new_segment_by_its_first_offset(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(0))
    log.append_as_follower(batch(INT_MAX + 2))
    assert bases(log) == [0, INT_MAX + 2]


def test_old_compressed_sets_far_apart_start_segments_that_can_hold_them(tmp_path):
    def two(first_offset):
        records = [Record(first_offset + place, NOW, b"k", b"v") for place in range(2)]
        return build_legacy(records, magic=1, codec=Codec.GZIP)

    log = log_in(tmp_path)
    for first_offset in (0, INT_MAX + 2, INT_MAX + 4, INT_MAX + 6):
        log.append_as_follower(two(first_offset))
    assert bases(log) == [0, 3, INT_MAX + 4]
    assert snapshots(log) == [3, INT_MAX + 4]
    assert offsets(log) == [0, 1, *range(INT_MAX + 2, INT_MAX + 8)]


def test_roll_of_an_empty_log_makes_the_same_segment_anew(tmp_path):
    log = log_in(tmp_path)
    log.roll(0)
    assert bases(log) == [0]
    log.append_as_leader(produced())
    log.append_as_leader(produced())
    log.roll()
    assert bases(log) == [0, 2]
    assert offsets(log) == [0, 1]


def test_empty_active_segment_whose_index_is_full_is_replaced_by_one_with_room(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(2))
    log.roll()
    log.segments.active.offset_index.max_entries = 0
    log.append_as_follower(batch(2))
    assert bases(log) == [0, 2]
    assert log.segments.active.offset_index.max_entries > 1
    assert offsets(log) == [0, 1, 2]


def test_roll_to_a_base_below_the_active_one_is_refused(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(5))
    log.roll()
    log.end_offset = 3
    with pytest.raises(KafkaStorage, match="cannot start a segment at 3, below the active one at 5"):
        log.roll()


def test_roll_onto_a_segment_that_holds_records_is_refused(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(2))
    log.end_offset = 0
    with pytest.raises(KafkaStorage, match="a segment at 0 is there already and is not empty"):
        log.roll()


def test_rolled_segment_is_trimmed_and_the_new_one_has_no_indexes_yet(tmp_path):
    log = log_in(tmp_path, index_interval_bytes=0, segment_index_bytes=1000)
    for number in range(3):
        log.append_as_leader(produced(size=100, timestamp=NOW + number))
    log.roll()
    sizes = {path.name.lstrip("0"): path.stat().st_size for path in (tmp_path / "topic-0").iterdir()}
    assert (sizes[".log"], sizes[".index"], sizes[".timeindex"]) == (300, 16, 24)
    assert [name for name in names(log) if name.startswith("3.")] == ["3.log", "3.snapshot"]


def test_roll_adds_the_closing_time_entry(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(timestamp=NOW))
    log.append_as_leader(produced(timestamp=NOW + 7))
    log.roll()
    assert log.segments.first.time_index.last_entry.timestamp == NOW + 7


def test_roll_takes_a_snapshot_and_makes_everything_below_durable(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock)
    log.append_as_leader(idempotent(0, 3))
    clock.advance(5)
    log.roll()
    assert snapshots(log) == [3]
    assert (log.recovery_point, log.last_flush_ms) == (3, NOW + 5)


def test_preallocated_segments_are_trimmed_when_they_roll(tmp_path):
    log = log_in(tmp_path, preallocate=True, segment_bytes=250)
    for _ in range(3):
        log.append_as_leader(produced(size=100))
    files = {path.name.lstrip("0"): path.stat().st_size for path in (tmp_path / "topic-0").glob("*.log")}
    assert files == {".log": 200, "2.log": 250}
    assert offsets(log) == [0, 1, 2]


def test_jitter_rolls_segments_of_the_same_age_at_different_times(tmp_path):
    rolled_after = set()
    for number in range(6):
        log = log_in(tmp_path / str(number), seed=number, segment_ms=1000, segment_jitter_ms=900)
        log.append_as_leader(produced(timestamp=NOW))
        waited = 0
        while len(log.segments) == 1:
            waited += 50
            log.append_as_leader(produced(timestamp=NOW + waited))
        rolled_after.add(waited)
    assert max(rolled_after) <= 1050
    assert len(rolled_after) > 1

"""Loading a partition directory, whatever a stop, a crash, another broker or a person left there."""

from __future__ import annotations

import shutil
import struct

import pytest

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord, OutOfOrderSequence
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.control import ControlType
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.log.making import NOW, idempotent, log_in, marker, names, offsets, placed, produced, snapshots, transactional
from tests.segment.making import batch, offset_entries, time_entries

INT_MAX = 2**31 - 1


def crash(tmp_path, recovery_point=0):
    """Make a clean stop look like a crash that left `recovery_point` in the checkpoint."""
    (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\ntopic 0 {recovery_point}\n")


def segments_of_seven(tmp_path, count=100, **config):
    """Single records of 100 bytes, seven to a segment, an index entry every third."""
    log = log_in(tmp_path, segment_bytes=700, index_interval_bytes=250, **config)
    for number in range(count):
        log.append_as_leader(produced(size=100, timestamp=NOW + number))
    return log


def reopened(tmp_path, **config):
    return log_in(tmp_path, **{"segment_bytes": 700, "index_interval_bytes": 250, **config})


def shape(log):
    """What every start must find again: ends, segments, and all index entries."""
    return (
        log.start_offset,
        log.end_offset,
        log.segments.base_offsets(),
        [offset_entries(segment) for segment in log.segments],
        [time_entries(segment) for segment in log.segments],
    )


def end(log, producer_id, kind=ControlType.COMMIT, **fields):
    return log.append_as_leader(marker(kind, producer_id=producer_id, **fields), origin=AppendOrigin.COORDINATOR)


def file(tmp_path, name):
    """A file of the partition directory: `7.log` is `00000000000000000007.log`."""
    stem, dot, suffix = name.partition(".")
    return tmp_path / "topic-0" / (f"{stem:0>20}{dot}{suffix}" if stem.isdigit() else name)


# With and without recovery.


def test_clean_and_unclean_start_find_the_same_log(tmp_path):
    log = segments_of_seven(tmp_path)
    log.close()
    expected = shape(reopened(tmp_path, mode="r"))
    assert (expected[1], expected[2]) == (100, list(range(0, 100, 7)))
    assert expected[3][0] == [(3, 300), (6, 600)]
    assert expected[4][0] == [(NOW + 3, 3), (NOW + 6, 6)]
    for recovery_point in (0, 50, 99, 100, 1000):
        crash(tmp_path, recovery_point)
        again = reopened(tmp_path)
        assert again.recovery_point == min(recovery_point, 100)
        again.close()
        assert shape(reopened(tmp_path, mode="r")) == expected


@pytest.mark.parametrize(
    ("recovery_point", "recovered"),
    [(0, (0, 7, 14, 21, 28)), (6, (0, 7, 14, 21, 28)), (14, (14, 21, 28)), (20, (14, 21, 28)), (30, (28,))],
)
def test_recovery_reads_the_segments_from_the_recovery_point_on(tmp_path, recovery_point, recovered):
    segments_of_seven(tmp_path, 30).close()
    crash(tmp_path, recovery_point)
    assert reopened(tmp_path).recovered == recovered


def test_torn_append_behind_the_recovery_point_is_cut(tmp_path):
    segments_of_seven(tmp_path, 10).close()
    crash(tmp_path, 10)
    with file(tmp_path, "7.log").open("ab") as log_file:
        log_file.write(batch(10, size=100)[:60])
    log = reopened(tmp_path)
    assert (log.end_offset, log.segments.active.size) == (10, 300)
    assert log.append_as_leader(produced()).first_offset == 10


def test_segments_behind_a_torn_tail_without_valid_batches_are_removed(tmp_path):
    segments_of_seven(tmp_path, 20).close()
    crash(tmp_path)
    file(tmp_path, "0.log").write_bytes(file(tmp_path, "0.log").read_bytes()[:650])
    for base in (7, 14):
        file(tmp_path, f"{base}.log").write_bytes(bytes(300))
    log = reopened(tmp_path)
    assert (log.end_offset, log.segments.base_offsets(), offsets(log)) == (6, [0], [0, 1, 2, 3, 4, 5])
    assert snapshots(log) == [6]


def test_damage_before_a_segment_with_valid_batches_is_a_hole_and_nothing_is_removed(tmp_path):
    segments_of_seven(tmp_path, 20).close()
    crash(tmp_path)
    file(tmp_path, "0.log").write_bytes(file(tmp_path, "0.log").read_bytes()[:650])
    log = reopened(tmp_path)
    assert (log.end_offset, log.segments.base_offsets()) == (20, [0, 7, 14])
    with pytest.raises(CorruptRecord, match="offsets 6 to 6 are lost here"):
        log.read(6)
    assert [record.offset for record in log.records(7)] == list(range(7, 20))


def test_hole_is_known_after_a_clean_restart_and_in_a_reader(tmp_path):
    segments_of_seven(tmp_path, 5).close()
    crash(tmp_path)
    content = bytearray(file(tmp_path, "0.log").read_bytes())
    content[250] ^= 1
    file(tmp_path, "0.log").write_bytes(bytes(content))
    reopened(tmp_path).close()
    for mode in ("r", "a"):
        log = reopened(tmp_path, mode=mode)
        assert log.end_offset == 5
        with pytest.raises(CorruptRecord):
            log.read(2)
        assert [record.offset for record in log.records(3)] == [3, 4]
        log.close()


def test_first_batch_of_a_segment_may_be_the_damaged_one(tmp_path):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(6):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    crash(tmp_path)
    content = bytearray(file(tmp_path, "3.log").read_bytes())
    content[50] ^= 1
    file(tmp_path, "3.log").write_bytes(bytes(content))
    for offset in snapshots(log):
        file(tmp_path, f"{offset}.snapshot").unlink()
    log = log_in(tmp_path, segment_bytes=300)
    assert (log.end_offset, log.producers.last_entry(1).last_sequence) == (6, 5)
    assert [record.offset for record in log.records(4)] == [4, 5]
    log.truncate_to(5)
    assert log.append_as_leader(idempotent(5)).first_offset == 5


# Indexes.


@pytest.mark.parametrize("is_clean", [True, False])
def test_missing_indexes_are_made_again(tmp_path, is_clean):
    segments_of_seven(tmp_path, 30).close()
    expected = shape(reopened(tmp_path, mode="r"))
    for path in (tmp_path / "topic-0").glob("*index"):
        path.unlink()
    if not is_clean:
        crash(tmp_path, 30)
    reopened(tmp_path).close()
    assert shape(reopened(tmp_path, mode="r")) == expected
    assert len(list((tmp_path / "topic-0").glob("*index"))) == 10


@pytest.mark.parametrize("garbage", [b"\x00" * 96, b"\xff" * 96, b"\x01" * 93, bytes(range(96))])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_garbage_in_any_index_is_replaced_even_after_a_clean_stop(tmp_path, suffix, garbage):
    segments_of_seven(tmp_path, 20).close()
    expected = shape(reopened(tmp_path, mode="r"))
    for base in (0, 14):
        file(tmp_path, f"{base}.{suffix}").write_bytes(garbage)
    log = reopened(tmp_path)
    assert log.end_offset == 20
    assert [log.find(offset=offset).offset for offset in range(20)] == list(range(20))
    assert [log.find(time=NOW + number).offset for number in range(20)] == list(range(20))
    log.close()
    assert shape(reopened(tmp_path, mode="r")) == expected


def test_garbled_entry_in_the_middle_of_the_active_index_is_noticed(tmp_path):
    log = log_in(tmp_path, index_interval_bytes=0)
    for number in range(8):
        log.append_as_leader(produced(size=100, timestamp=NOW + number))
    log.close()
    path = file(tmp_path, "0.index")
    sound = path.read_bytes()
    path.write_bytes(sound[:24] + struct.pack(">ii", 1, 600) + sound[32:])
    log = log_in(tmp_path, index_interval_bytes=0)
    assert [log.find(offset=offset).position for offset in range(8)] == [100 * offset for offset in range(8)]


def test_index_files_without_a_log_are_removed(tmp_path):
    segments_of_seven(tmp_path, 3).close()
    for suffix in (".index", ".timeindex", ".txnindex"):
        file(tmp_path, f"5{suffix}").write_bytes(b"x" * 24)
    log = reopened(tmp_path)
    assert not [name for name in names(log) if name.startswith("5.")]
    assert log.end_offset == 3


@pytest.mark.parametrize("magic", [0, 1])
def test_time_index_of_old_formats_is_made_again_by_what_they_know(tmp_path, magic):
    with log_in(tmp_path) as log:
        for first in (0, 3):
            records = [Record(first + place, NOW + first + place, b"k", b"v") for place in range(3)]
            log.append_as_follower(build_legacy(records, magic=magic, codec=Codec.GZIP if first else Codec.NONE))
    file(tmp_path, "0.timeindex").unlink()
    with log_in(tmp_path) as log:
        assert log.end_offset == 6
    assert file(tmp_path, "0.timeindex").stat().st_size == (0 if magic == 0 else 12)


def test_log_without_indexes_and_without_a_marker_is_read_by_a_reader(tmp_path):
    segments_of_seven(tmp_path, 20).close()
    expected = shape(reopened(tmp_path, mode="r"))
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    (tmp_path / "copy" / "topic-0").mkdir(parents=True)
    for path in (tmp_path / "topic-0").glob("*.log"):
        shutil.copy(path, tmp_path / "copy" / "topic-0")
    assert shape(reopened(tmp_path / "copy", mode="r")) == expected


# Files on their way in or out.


def test_deleted_files_are_removed_and_those_of_the_metadata_log_are_left(tmp_path):
    segments_of_seven(tmp_path, 3).close()
    for name in ("7.log.deleted", "7.index.deleted", "7.snapshot.deleted"):
        file(tmp_path, name).write_bytes(b"x")
    kept = file(tmp_path, "00000000000000000007-0000000001.checkpoint.deleted")
    kept.write_bytes(b"x")
    log = reopened(tmp_path)
    assert names(log, ".deleted") == ["7-0000000001.checkpoint.deleted"]
    assert log.segments.base_offsets() == [0]


def with_suffix(tmp_path, base, suffix):
    """Rename the files of a segment as a cleaning does."""
    for path in (tmp_path / "topic-0").glob(f"{base:020d}.*"):
        if path.suffix in (".log", ".index", ".timeindex"):
            path.rename(f"{path}{suffix}")


def cleaned_copy(tmp_path, base, data, suffix):
    """A segment that a cleaning has written."""
    other = tmp_path / "cleaning"
    log = log_in(other, index_interval_bytes=250)
    log.truncate_fully_and_start_at(base)
    log.append_as_follower(data)
    log.close()
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(file(other, f"{base}{kind}"), f"{file(tmp_path, f'{base}{kind}')}{suffix}")


def test_unfinished_cleaning_is_undone_with_every_swap_at_or_above_it(tmp_path):
    segments_of_seven(tmp_path, 30).close()
    file(tmp_path, "7.log.cleaned").write_bytes(batch(7, timestamp=NOW))
    file(tmp_path, "14.log.swap").write_bytes(batch(14, timestamp=NOW))
    log = reopened(tmp_path)
    assert offsets(log) == list(range(30))
    assert not [name for name in names(log) if name.endswith((".cleaned", ".swap"))]


def test_swap_below_an_unfinished_cleaning_is_finished(tmp_path):
    segments_of_seven(tmp_path, 30).close()
    cleaned_copy(tmp_path, 0, batch(3, timestamp=NOW), ".swap")
    file(tmp_path, "7.log.cleaned").write_bytes(batch(7, timestamp=NOW))
    assert offsets(reopened(tmp_path)) == [3, *range(7, 30)]


def test_finished_cleaning_replaces_the_segments_it_covers(tmp_path):
    segments_of_seven(tmp_path, 30).close()
    data = batch(2, timestamp=NOW) + batch(5, timestamp=NOW) + batch(11, timestamp=NOW)
    cleaned_copy(tmp_path, 0, data, ".swap")
    log = reopened(tmp_path)
    assert log.segments.base_offsets() == [0, 14, 21, 28]
    assert offsets(log) == [2, 5, 11, *range(14, 30)]
    assert not names(log, ".swap")


def test_swap_whose_old_segments_are_deleted_already_is_finished(tmp_path):
    segments_of_seven(tmp_path, 21).close()
    cleaned_copy(tmp_path, 0, batch(3, timestamp=NOW), ".swap")
    with_suffix(tmp_path, 0, ".deleted")
    log = reopened(tmp_path)
    assert offsets(log) == [3, *range(7, 21)]
    assert not names(log, ".deleted")


def test_swap_of_indexes_alone_is_renamed_and_checked(tmp_path):
    segments_of_seven(tmp_path, 10).close()
    for suffix in (".index", ".timeindex"):
        path = file(tmp_path, f"0{suffix}")
        path.rename(f"{path}.swap")
    log = reopened(tmp_path)
    assert offsets(log) == list(range(10))
    assert not names(log, ".swap")


# Ends.


def test_log_starts_at_its_first_segment_when_no_checkpoint_says_otherwise(tmp_path):
    log = log_in(tmp_path)
    log.truncate_fully_and_start_at(5)
    log.append_as_leader(produced(3))
    log.close()
    (tmp_path / "log-start-offset-checkpoint").unlink()
    assert log_in(tmp_path).start_offset == 5


def test_emptied_directory_goes_on_at_the_checkpoints_start(tmp_path):
    segments_of_seven(tmp_path, 3).close()
    shutil.rmtree(tmp_path / "topic-0")
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 500\n")
    log = reopened(tmp_path)
    assert (log.start_offset, log.end_offset) == (500, 500)
    assert log.append_as_leader(produced()).first_offset == 500


@pytest.mark.parametrize("is_clean", [True, False])
def test_log_start_beyond_the_log_end_deletes_nothing(tmp_path, is_clean):
    segments_of_seven(tmp_path, 10).close()
    if not is_clean:
        crash(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 500\n")
    for _ in range(2):
        log = reopened(tmp_path)
        assert (log.start_offset, log.end_offset, offsets(log)) == (0, 500, list(range(10)))
        log.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_offsets_below_a_log_start_beyond_the_end_are_not_given_out_twice(tmp_path, is_clean):
    segments_of_seven(tmp_path, 10).close()
    if not is_clean:
        crash(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 12\n")
    log = reopened(tmp_path)
    assert log.append_as_leader(produced()).first_offset == 12
    log.close()
    crash(tmp_path)
    log = reopened(tmp_path)
    assert (log.start_offset, log.end_offset, offsets(log)) == (0, 13, [*range(10), 12])
    assert log.append_as_leader(produced()).first_offset == 13


def test_segment_below_the_log_start_that_came_back_goes_again(tmp_path):
    log = segments_of_seven(tmp_path, 20)
    log.update_high_watermark(20)
    log.increment_start(10)
    log.close()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\ntopic 0 10\n"
    log = reopened(tmp_path)
    assert (log.start_offset, log.segments.base_offsets()) == (10, [7, 14])
    assert not file(tmp_path, "0.log").exists()


def test_damaged_checkpoints_count_as_empty(tmp_path):
    segments_of_seven(tmp_path, 10).close()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text("0\n7\nnonsense")
    log = reopened(tmp_path)
    assert (log.start_offset, log.end_offset) == (0, 10)


def test_overflowed_segment_is_split_when_recovery_finds_it(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(0, 2, size=100, timestamp=NOW))
    log.roll(INT_MAX + 100)
    log.append_as_follower(batch(INT_MAX + 100, 2, size=100, timestamp=NOW))
    log.close()
    crash(tmp_path)
    # As old compaction left it: two batches in one segment that are further apart than four bytes can say.
    first = file(tmp_path, "0.log")
    first.write_bytes(first.read_bytes() + batch(INT_MAX + 10, 2, size=100, timestamp=NOW))
    log = log_in(tmp_path)
    assert log.segments.base_offsets() == [0, INT_MAX + 10, INT_MAX + 100]
    assert offsets(log) == [0, 1, INT_MAX + 10, INT_MAX + 11, INT_MAX + 100, INT_MAX + 101]


# Leader epochs.


def four_epochs(tmp_path):
    with log_in(tmp_path) as log:
        for offset, epoch in [(104, 0), (106, 1), (108, 1), (110, 2)]:
            log.append_as_follower(batch(offset, 2, leader_epoch=epoch, timestamp=NOW))


def epochs(log):
    return [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]


@pytest.mark.parametrize(
    "content", [None, b"", b"0\n1\n0 104\n", b"\x00\x00", b"0\n9\n0 104\n"], ids=["lost", "empty", "stale", "zeros", "short"]
)
def test_epochs_are_learnt_again_from_the_batches(tmp_path, content):
    four_epochs(tmp_path)
    crash(tmp_path)
    path = file(tmp_path, "leader-epoch-checkpoint")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert epochs(log_in(tmp_path)) == [(0, 104), (1, 106), (2, 110)]


def test_epochs_at_or_behind_the_log_end_are_forgotten(tmp_path):
    four_epochs(tmp_path)
    file(tmp_path, "leader-epoch-checkpoint").write_text("0\n4\n0 104\n1 106\n2 110\n5 112\n")
    assert epochs(log_in(tmp_path)) == [(0, 104), (1, 106), (2, 110)]


def test_epochs_below_the_log_start_are_cut_to_it(tmp_path):
    four_epochs(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 107\n")
    assert epochs(log_in(tmp_path)) == [(1, 107), (2, 110)]


# Producers and transactions.


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("lost", ["none", "newest", "all"])
def test_producers_are_known_with_their_five_batches_whatever_snapshots_are_left(tmp_path, is_clean, lost):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(12):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    assert snapshots(log) == [3, 6, 9, 12]
    for offset in {"none": [], "newest": [12], "all": [3, 6, 9, 12]}[lost]:
        file(tmp_path, f"{offset}.snapshot").unlink()
    if not is_clean:
        crash(tmp_path)
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(7, 12):
        assert log.append_as_leader(idempotent(number, size=100)).first_offset == number
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(idempotent(6, size=100))
    assert log.append_as_leader(idempotent(12, size=100)).first_offset == 12


def test_damaged_snapshot_is_passed_over_for_an_older_one(tmp_path):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(7):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    for offset in (6, 7):
        path = file(tmp_path, f"{offset}.snapshot")
        path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    log = log_in(tmp_path, segment_bytes=300)
    assert log.producers.last_entry(1).last_sequence == 6


def test_snapshot_of_an_empty_log_is_removed(tmp_path):
    log = log_in(tmp_path)
    log.close()
    file(tmp_path, "42.snapshot").write_bytes(b"x")
    log = log_in(tmp_path)
    assert (snapshots(log), log.end_offset) == ([], 0)


def test_snapshots_between_segments_are_removed_but_for_the_one_of_the_last_stop(tmp_path):
    log = log_in(tmp_path, segment_bytes=300)
    for number in range(7):
        log.append_as_leader(idempotent(number, size=100))
    log.close()
    for offset in (1, 4):
        shutil.copy(file(tmp_path, "3.snapshot"), file(tmp_path, f"{offset}.snapshot"))
    log = log_in(tmp_path, segment_bytes=300)
    assert snapshots(log) == [3, 6, 7]


@pytest.mark.parametrize("recovery_point", [25, 30])
@pytest.mark.parametrize("left", [[], [10]])
def test_unclean_start_writes_the_snapshots_of_the_last_segments_again(tmp_path, left, recovery_point):
    log = log_in(tmp_path, segment_bytes=700)
    for number in range(30):
        log.append_as_leader(idempotent(number))
    assert (log.segments.base_offsets(), snapshots(log)) == ([0, 10, 20], [10, 20])
    log.close()
    crash(tmp_path, recovery_point)
    for offset in (10, 20, 30):
        if offset not in left:
            file(tmp_path, f"{offset}.snapshot").unlink()
    log = log_in(tmp_path, segment_bytes=700)
    assert snapshots(log) == [10, 20, 30]
    assert log.producers.last_entry(1).last_sequence == 29
    log.close()


@pytest.mark.parametrize("left", [[], [10]])
def test_clean_start_writes_the_snapshots_that_are_gone_from_the_last_segments_again(tmp_path, left):
    log = log_in(tmp_path, segment_bytes=700)
    for number in range(30):
        log.append_as_leader(idempotent(number))
    log.close()
    for offset in (10, 20, 30):
        if offset not in left:
            file(tmp_path, f"{offset}.snapshot").unlink()
    log = log_in(tmp_path, segment_bytes=700)
    assert snapshots(log) == [10, 20, 30]
    assert log.producers.last_entry(1).last_sequence == 29
    log.close()


def test_roll_and_stop_leave_a_snapshot_each(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced())
    log.roll()
    assert snapshots(log) == [1]
    log.append_as_leader(produced())
    log.close()
    assert snapshots(log) == [1, 2]


def test_snapshots_go_with_their_segments_and_their_files_after_the_delay(tmp_path):
    clock = ManualClock(NOW)
    log = log_in(tmp_path, clock=clock, segment_bytes=150, file_delete_delay_ms=1000)
    for number in range(3):
        log.append_as_leader(idempotent(number, size=100))
    assert snapshots(log) == [1, 2]
    log.update_high_watermark(3)
    log.delete_segments(list(log.segments)[:2])
    assert (log.start_offset, snapshots(log), log.segments.base_offsets()) == (2, [2], [2])
    assert "1.snapshot.deleted" in names(log)
    clock.advance(1000)
    log.scheduler.run_due()
    assert names(log, ".deleted") == []
    assert log.producers.last_entry(1).last_sequence == 2


def test_producer_of_the_first_record_is_known_after_the_second_was_cut_off(tmp_path):
    log = log_in(tmp_path, segment_bytes=150)
    log.append_as_leader(idempotent(0, size=100))
    log.append_as_leader(idempotent(1, size=100))
    assert snapshots(log) == [1]
    log.truncate_to(1)
    log.close()
    known = log_in(tmp_path, segment_bytes=150).producers.last_entry(1)
    assert (known.batches[0].first_offset, known.last_data_offset) == (0, 0)


def test_producer_that_was_silent_for_a_day_is_forgotten_when_its_snapshot_is_loaded(tmp_path):
    with log_in(tmp_path) as log:
        log.append_as_leader(idempotent(0))
    assert log_in(tmp_path, mode="r", clock=ManualClock(NOW + 86_399_999)).producers.last_entry(1) is not None
    assert log_in(tmp_path, mode="r", clock=ManualClock(NOW + 86_400_000)).producers.last_entry(1) is None


def two_producers(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0, producer_id=1))
    return log


def test_producers_below_a_log_start_inside_a_segment_are_known_after_a_crash(tmp_path):
    log = two_producers(tmp_path)
    log.append_as_leader(idempotent(0, producer_id=2))
    log.update_high_watermark(2)
    log.increment_start(1)
    log.close()
    crash(tmp_path)
    assert sorted(log_in(tmp_path).producers.producers) == [1, 2]


def test_producers_of_removed_segments_are_forgotten_after_a_crash(tmp_path):
    log = two_producers(tmp_path)
    log.roll()
    log.append_as_leader(idempotent(0, producer_id=2))
    log.update_high_watermark(2)
    log.increment_start(1)
    log.delete_segments([log.segments.first])
    log.close()
    crash(tmp_path)
    assert sorted(log_in(tmp_path).producers.producers) == [2]


def test_recovery_writes_the_transaction_index_again(tmp_path):
    """Producer 2 aborts while the transaction of producer 1, which began before, is still open."""
    log = log_in(tmp_path)
    log.truncate_fully_and_start_at(100)
    log.append_as_leader(transactional(0, 2, producer_id=1))
    log.append_as_leader(transactional(0, 2, producer_id=2))
    log.append_as_leader(produced(2))
    end(log, 2, ControlType.ABORT)
    end(log, 1)
    log.close()
    expected = [(2, 102, 106, 100)]
    crash(tmp_path)
    file(tmp_path, "100.txnindex").unlink()
    log = log_in(tmp_path)
    found = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in log.segments.active.txn_index.transactions()
    ]
    assert found == expected
    assert log.producers.map_end_offset == 108


def aborted_in(log):
    return [
        (segment.base_offset, aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for segment in log.segments
        for aborted in segment.txn_index.transactions()
    ]


@pytest.mark.parametrize("lost", ["last segment", "all segments", "last segment and snapshots", "all segments and snapshots"])
def test_aborted_transactions_are_found_again_without_indexes(tmp_path, lost):
    log = log_in(tmp_path, segment_bytes=400)
    log.append_as_leader(transactional(0, 2, producer_id=1, size=150))  # 0-1
    log.append_as_leader(transactional(0, 2, producer_id=2, size=150))  # 2-3
    log.append_as_leader(transactional(2, 2, producer_id=1, size=150))  # 4-5
    end(log, 1, ControlType.ABORT)  # 6
    log.append_as_leader(transactional(2, 2, producer_id=2, size=150))  # 7-8
    end(log, 2, ControlType.ABORT)  # 9
    log.append_as_leader(transactional(4, 2, producer_id=1, size=150))  # 10-11
    log.close()
    expected = [(4, 1, 0, 6, 2), (9, 2, 2, 9, 10)]
    assert aborted_in(log) == expected
    bases = log.segments.base_offsets()
    for base in bases if lost.startswith("all") else bases[-1:]:
        for suffix in (".index", ".txnindex"):
            file(tmp_path, f"{base}{suffix}").unlink(missing_ok=True)
    if lost.endswith("snapshots"):
        for offset in snapshots(log):
            file(tmp_path, f"{offset}.snapshot").unlink()
    again = log_in(tmp_path, segment_bytes=400)
    assert aborted_in(again) == expected
    assert again.first_unstable_offset == 10


def test_coordinator_epoch_that_goes_back_in_the_log_is_accepted_by_recovery(tmp_path):
    with log_in(tmp_path) as log:
        log.append_as_follower(placed(transactional(0), 0))
        log.append_as_follower(marker(ControlType.COMMIT, coordinator_epoch=5, offset=1, timestamp=NOW + 1))
        log.append_as_follower(placed(transactional(1), 2))
        log.append_as_follower(marker(ControlType.COMMIT, coordinator_epoch=3, offset=3, timestamp=NOW + 2))
    crash(tmp_path)
    log = log_in(tmp_path)
    assert (log.end_offset, log.producers.last_entry(1).last_timestamp) == (4, NOW + 2)


def test_open_transaction_stays_open_over_clean_and_unclean_starts(tmp_path):
    with log_in(tmp_path) as log:
        log.append_as_leader(produced(3))
        log.append_as_leader(transactional(0, 2))
    for _ in range(2):
        log = log_in(tmp_path)
        assert (log.first_unstable_offset, log.last_stable_offset) == (3, 3)
        log.close()
        crash(tmp_path)

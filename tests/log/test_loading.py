"""Loading a partition directory, whatever a stop, a crash, another broker or a person left there."""

from __future__ import annotations

import shutil
import struct

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.log.making import NOW, idempotent, log_in, names, offsets, produced, snapshots
from tests.log.starting import crash, file, reopened, segments_of_seven
from tests.segment.making import batch, offset_entries, time_entries

INT_MAX = 2**31 - 1


def shape(log):
    """What every start must find again: ends, segments, and all index entries."""
    return (
        log.start_offset,
        log.end_offset,
        log.segments.base_offsets(),
        [offset_entries(segment) for segment in log.segments],
        [time_entries(segment) for segment in log.segments],
    )


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

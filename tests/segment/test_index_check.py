"""Whether an index fits its log: asked at every start, cheap, and strict enough to notice every kind of damage that moves the log end."""

from __future__ import annotations

import struct

import pytest

from milepost.errors import CorruptIndex
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.segment.making import append, batch, offset_entries, segment_in, time_entries

# Ten batches of 100 bytes and two records, entries for every second one, base 40.
ENTRIES = [(45, 200), (49, 400), (53, 600), (57, 800)]
TIMES = [(45, 45), (49, 49), (53, 53), (57, 57), (59, 59)]


@pytest.fixture
def directory(tmp_path):
    segment = segment_in(tmp_path, 40, index_interval_bytes=150)
    append(segment, *[batch(40 + 2 * place, 2, size=100, timestamp=41 + 2 * place) for place in range(10)])
    assert offset_entries(segment) == ENTRIES
    segment.seal()
    segment.close_handles()
    assert time_entries(segment_in(tmp_path, 40)) == TIMES
    return tmp_path


def write_offsets(directory, entries):
    content = b"".join(struct.pack(">ii", offset - 40, position) for offset, position in entries)
    (directory / "00000000000000000040.index").write_bytes(content)


def write_times(directory, entries):
    content = b"".join(struct.pack(">qi", timestamp, offset - 40) for timestamp, offset in entries)
    (directory / "00000000000000000040.timeindex").write_bytes(content)


def check(directory):
    segment_in(directory, 40, index_interval_bytes=150).check_indexes()


def test_indexes_of_a_clean_stop_pass(directory):
    check(directory)


def test_empty_segment_needs_no_index_files(tmp_path):
    segment_in(tmp_path).check_indexes()


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_file_is_noticed(directory, suffix):
    (directory / f"00000000000000000040.{suffix}").unlink()
    with pytest.raises(CorruptIndex, match=f"40.{suffix}: missing, and its log has 1000 bytes"):
        check(directory)


@pytest.mark.parametrize(("suffix", "size"), [("index", 8), ("timeindex", 12)])
def test_length_that_is_no_multiple_of_an_entry_is_noticed(directory, suffix, size):
    path = directory / f"00000000000000000040.{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptIndex, match=f"not a whole number of {size}-byte entries"):
        check(directory)


@pytest.mark.parametrize(
    "last",
    [
        (57, 801),
        (57, 900),
        (58, 800),
        (57, 999),
        (57, 5000),
        (57, -1),
        (2**30, 800),
        (39, 800),
        (41, 0),
        (45, 200),
    ],
    ids=[
        "inside a batch",
        "behind its batch",
        "offset that ends no batch",
        "last byte",
        "behind the log",
        "negative position",
        "offset behind the log",
        "offset below the base",
        "below the entries before",
        "as the first entry",
    ],
)
def test_last_offset_entry_that_does_not_lead_to_its_batch_is_noticed(directory, last):
    write_offsets(directory, [*ENTRIES[:3], last])
    with pytest.raises(CorruptIndex):
        check(directory)


def test_first_entry_that_lies_behind_the_last_is_noticed(directory):
    write_offsets(directory, [(58, 900), *ENTRIES[1:]])
    with pytest.raises(CorruptIndex, match="which is not upwards"):
        check(directory)


def test_zero_tail_of_a_preallocated_index_is_noticed(directory):
    path = directory / "00000000000000000040.index"
    path.write_bytes(path.read_bytes() + bytes(80))
    with pytest.raises(CorruptIndex):
        check(directory)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_offset_index_that_lost_its_last_entries_still_leads_to_the_end(directory, kept):
    write_offsets(directory, ENTRIES[:kept])
    check(directory)
    assert segment_in(directory, 40).next_offset() == 60


def test_entry_of_a_whole_append_passes(directory):
    write_offsets(directory, [*ENTRIES[:2], (57, 600)])
    check(directory)


def test_time_index_without_its_closing_entry_is_noticed(directory):
    write_times(directory, TIMES[:4])
    with pytest.raises(CorruptIndex, match="the log holds timestamp 59"):
        check(directory)


def test_empty_time_index_over_records_with_times_is_noticed(directory):
    write_times(directory, [])
    with pytest.raises(CorruptIndex, match="the log holds timestamp 59"):
        check(directory)


@pytest.mark.parametrize(
    "entries",
    [
        [(99, 45), *TIMES[1:]],
        [*TIMES[:4], (59, 60)],
        [*TIMES[:4], (59, 39)],
        [(45, 39), *TIMES[1:]],
        [(45, 60), *TIMES[1:]],
        [*TIMES[:4], (60, 59)],
        [*TIMES[:4], (2**62, 59)],
        [*TIMES[:4], (59, 57)],
    ],
    ids=[
        "time goes back",
        "offset behind the log",
        "last offset below the base",
        "first offset below the base",
        "offset goes back",
        "newer than any record",
        "newer than any record ever",
        "offset of another batch",
    ],
)
def test_time_entries_that_cannot_be_true_are_noticed(directory, entries):
    write_times(directory, entries)
    with pytest.raises(CorruptIndex):
        check(directory)


def test_time_entry_of_a_record_inside_its_batch_passes(directory):
    write_times(directory, [*TIMES[:4], (59, 58)])
    check(directory)


def test_newest_record_long_before_the_end_passes(tmp_path):
    segment = segment_in(tmp_path, 40, index_interval_bytes=150)
    append(segment, batch(40, size=100, timestamp=99), *[batch(40 + place, size=100, timestamp=1) for place in range(1, 10)])
    segment.seal()
    segment.close_handles()
    assert time_entries(segment_in(tmp_path, 40)) == [(99, 40)]
    check(tmp_path)


def test_old_record_that_claims_to_be_newest_is_noticed(tmp_path):
    segment = segment_in(tmp_path, 40, index_interval_bytes=150)
    append(segment, batch(40, size=100, timestamp=99), *[batch(40 + place, size=100, timestamp=1) for place in range(1, 10)])
    segment.seal()
    segment.close_handles()
    write_times(tmp_path, [(98, 40)])
    with pytest.raises(CorruptIndex, match="98"):
        check(tmp_path)


# Kafka 2.4.1's cleaner writes the last record that it kept, where the batch goes on to its old last offset.


def cleaned(directory, offset):
    """A batch for offsets 40 to 49 of which compaction left 40 and 43, behind another; its index entry says `offset`."""
    segment = segment_in(directory, 30, index_interval_bytes=50)
    append(segment, batch(30, 2, size=100))
    records = [Record(40, 1000, b"k", b"v"), Record(43, 1000, b"l", b"v")]
    append(segment, build_batch(records, base_offset=40, last_offset=49))
    segment.seal()
    segment.close_handles()
    (directory / f"{30:020d}.index").write_bytes(struct.pack(">ii", offset - 30, 100))
    return segment_in(directory, 30)


def test_an_entry_for_the_last_record_that_compaction_kept_fits(tmp_path):
    segment = cleaned(tmp_path, 43)
    segment.check_indexes()
    assert segment.next_offset() == 50
    for offset in range(32, 50):
        assert segment.locate(offset).position == 100
        assert segment.position_of(offset) == 100
    assert offset_entries(segment) == [(43, 100)], "nothing was rebuilt"


@pytest.mark.parametrize("offset", [39, 40, 42, 44])
def test_an_entry_for_another_offset_inside_a_compacted_batch_does_not(tmp_path, offset):
    with pytest.raises(CorruptIndex, match=f"no batch from position 100 on ends at offset {offset}"):
        cleaned(tmp_path, offset).check_indexes()

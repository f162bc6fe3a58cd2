"""Recovery of one segment: valid batches stay, torn tails go, damage with valid batches behind it becomes a hole, indexes are made anew."""

from __future__ import annotations

import os
import struct

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord, SegmentOffsetOverflow
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from milepost.segment.file_records import Hole
from milepost.segment.index_rebuild import rebuild_indexes
from milepost.segment.recovery import has_valid_batch, recover
from tests.segment.making import append, batch, offset_entries, offsets_in, segment_in, time_entries

NAME = "00000000000000000000.log"
# Six batches of two records and 100 bytes: offsets 0 to 11.
SIX = [batch(2 * place, 2, size=100, timestamp=10 * place) for place in range(6)]
WHOLE = b"".join(SIX)
ENTRIES = [(5, 200), (9, 400)]
TIMES = [(20, 5), (40, 9), (50, 11)]


@pytest.fixture
def damaged(tmp_path):
    def make(content, **config):
        (tmp_path / NAME).write_bytes(content)
        return segment_in(tmp_path, **{"index_interval_bytes": 150, **config})

    return make


def test_sound_log_is_kept_and_both_indexes_are_made_anew(damaged):
    segment = damaged(WHOLE)
    found = recover(segment)
    assert (found.next_offset, found.bytes_cut, found.holes) == (12, 0, [])
    assert (offset_entries(segment), time_entries(segment)) == (ENTRIES, TIMES)


def test_recovered_indexes_are_those_that_the_appends_had_written(tmp_path, damaged):
    (tmp_path / "appended").mkdir()
    appended = segment_in(tmp_path / "appended", index_interval_bytes=150)
    append(appended, *SIX)
    appended.seal()
    recover(damaged(WHOLE))
    for suffix in (".log", ".index", ".timeindex"):
        name = "00000000000000000000" + suffix
        assert (tmp_path / name).read_bytes() == (tmp_path / "appended" / name).read_bytes()


def test_recovery_works_per_batch_whatever_the_profile(damaged):
    segment = damaged(WHOLE, index_profile="per-append")
    recover(segment)
    assert offset_entries(segment) == ENTRIES


def test_garbage_in_both_indexes_is_replaced_and_every_record_is_found(tmp_path, damaged):
    (tmp_path / "00000000000000000000.index").write_bytes(os.urandom(96))
    (tmp_path / "00000000000000000000.timeindex").write_bytes(os.urandom(95))
    segment = damaged(WHOLE)
    recover(segment)
    assert [segment.locate(offset).position for offset in range(12)] == [offset // 2 * 100 for offset in range(12)]
    assert time_entries(segment) == TIMES


def test_log_cut_at_every_byte_keeps_its_whole_batches(tmp_path, damaged):
    for end in range(len(WHOLE)):
        segment = damaged(WHOLE[:end])
        found = recover(segment)
        assert found.next_offset == end // 100 * 2
        assert found.bytes_cut == end % 100
        assert (tmp_path / NAME).stat().st_size == end - end % 100
        assert found.holes == []


def test_torn_tail_is_kept_beside_the_log(tmp_path, damaged):
    recover(damaged(WHOLE[:550]))
    assert (tmp_path / (NAME + ".cut-500")).read_bytes() == WHOLE[500:550]


@pytest.mark.parametrize("zeros", [1, 17, 18, 100, 65_536])
def test_tail_of_zeros_was_never_written_and_goes_without_a_trace(tmp_path, damaged, zeros):
    found = recover(damaged(WHOLE + bytes(zeros)))
    assert (found.next_offset, found.bytes_cut) == (12, zeros)
    assert (tmp_path / NAME).read_bytes() == WHOLE
    assert not list(tmp_path.glob("*.cut-*"))


def test_log_of_noise_alone_is_emptied_and_kept_beside(tmp_path, damaged):
    found = recover(damaged(b"\x07" * 300))
    assert (found.next_offset, found.bytes_cut) == (0, 300)
    assert (tmp_path / (NAME + ".cut-0")).read_bytes() == b"\x07" * 300


def test_empty_log_is_empty(damaged):
    assert recover(damaged(b"")).next_offset == 0


def flipped(position):
    content = bytearray(WHOLE)
    content[position] ^= 0x40
    return bytes(content)


@pytest.mark.parametrize("position", [500, 503, 508, 517, 521, 550, 599])
def test_changed_byte_in_the_last_batch_is_a_torn_tail(tmp_path, damaged, position):
    segment = damaged(flipped(position))
    found = recover(segment)
    assert (found.next_offset, found.bytes_cut, found.holes) == (10, 100, [])
    assert (tmp_path / NAME).stat().st_size == 500


@pytest.mark.parametrize("position", [200, 204, 206, 207, 208, 211, 216, 217, 230, 250, 299])
def test_changed_byte_with_a_valid_batch_behind_it_is_a_hole(tmp_path, damaged, position):
    segment = damaged(flipped(position))
    found = recover(segment)
    assert (found.next_offset, found.bytes_cut, found.holes) == (12, 0, [Hole(200, 300, 4, 6)])
    assert (tmp_path / NAME).read_bytes() == flipped(position)
    assert (tmp_path / (NAME + ".hole-200-300-4-6")).read_bytes() == flipped(position)[200:300]
    assert offsets_in(segment) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    with pytest.raises(CorruptRecord, match="offsets 4 to 5 are lost here"):
        segment.locate(4)


@pytest.mark.parametrize("length", [0, 13, 88 + 100, 88 + 1, 10_000, 2**31 - 1, -1])
def test_damaged_length_does_not_hide_the_batches_behind_it(damaged, length):
    content = bytearray(WHOLE)
    content[208:212] = length.to_bytes(4, "big", signed=True)
    found = recover(damaged(bytes(content)))
    assert (found.next_offset, found.holes) == (12, [Hole(200, 300, 4, 6)])


@pytest.mark.parametrize("offset", [5, 7, 9, 100, 2**31 - 2, 2**31, 2**62, 3, 0, -1])
def test_damaged_offset_which_the_checksum_does_not_cover_does_not_make_later_batches_look_old(damaged, offset):
    content = bytearray(WHOLE)
    content[200:208] = offset.to_bytes(8, "big", signed=True)
    segment = damaged(bytes(content))
    found = recover(segment)
    assert (found.next_offset, found.bytes_cut, found.holes) == (12, 0, [Hole(200, 300, 4, 6)])
    assert offsets_in(segment) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]


def test_zero_page_in_the_middle_is_a_hole(damaged):
    found = recover(damaged(WHOLE[:200] + bytes(200) + WHOLE[400:]))
    assert (found.next_offset, found.holes) == (12, [Hole(200, 400, 4, 8)])


def test_two_holes_are_told_apart(damaged):
    content = bytearray(WHOLE)
    content[150] ^= 1
    content[350] ^= 1
    segment = damaged(bytes(content))
    assert recover(segment).holes == [Hole(100, 200, 2, 4), Hole(300, 400, 6, 8)]
    assert offsets_in(segment) == [0, 1, 4, 5, 8, 9, 10, 11]


def test_hole_and_torn_tail_together(tmp_path, damaged):
    content = bytearray(WHOLE[:590])
    content[150] ^= 1
    found = recover(damaged(bytes(content)))
    assert (found.next_offset, found.bytes_cut, found.holes) == (10, 90, [Hole(100, 200, 2, 4)])
    assert (tmp_path / NAME).stat().st_size == 500


def test_indexes_over_a_hole_lead_to_the_batches_around_it(damaged):
    segment = damaged(flipped(250))
    recover(segment)
    assert offset_entries(segment) == [(7, 300), (11, 500)]
    assert [segment.locate(offset).position for offset in (0, 3, 6, 9, 11)] == [0, 100, 300, 400, 500]


def test_second_recovery_changes_no_byte(tmp_path, damaged):
    content = bytearray(WHOLE[:590])
    content[150] ^= 1
    recover(damaged(bytes(content)))
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = recover(segment_in(tmp_path, index_interval_bytes=150))
    assert (again.bytes_cut, again.holes) == (0, [Hole(100, 200, 2, 4)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_old_batch_that_came_back_behind_the_end_is_not_taken_for_data(damaged):
    found = recover(damaged(WHOLE + SIX[1]))
    assert (found.next_offset, found.bytes_cut) == (12, 100)


def test_batch_that_jumps_ahead_of_those_behind_it_is_the_damaged_one(damaged):
    segment = damaged(SIX[0] + SIX[3] + SIX[1] + SIX[2])
    assert recover(segment).next_offset == 6
    assert offsets_in(segment) == [0, 1, 2, 3, 4, 5]


def test_gap_between_batches_is_no_damage(damaged):
    segment = damaged(SIX[0] + SIX[4])
    found = recover(segment)
    assert (found.next_offset, found.bytes_cut, found.holes) == (10, 0, [])
    assert offsets_in(segment) == [0, 1, 8, 9]


def test_damage_at_the_end_of_a_segment_with_another_behind_it_is_a_hole_up_to_that(tmp_path, damaged):
    found = recover(damaged(flipped(550)), following=lambda: 12)
    assert (found.next_offset, found.bytes_cut, found.holes) == (12, 0, [Hole(500, 600, 10, 12)])
    assert (tmp_path / NAME).stat().st_size == 600


def test_tail_without_a_missing_offset_is_cut_even_with_a_segment_behind_it(tmp_path, damaged):
    found = recover(damaged(WHOLE + bytes(400)), following=lambda: 12)
    assert (found.next_offset, found.bytes_cut, found.holes) == (12, 400, [])
    assert (tmp_path / NAME).stat().st_size == 600


def test_every_valid_batch_is_handed_to_the_listener_in_order(damaged):
    heard = []
    recover(damaged(flipped(250)), lambda batch: heard.append(batch.base_offset))
    assert heard == [0, 2, 6, 8, 10]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_recovered_by_their_own_checksum(damaged, magic):
    plain = build_legacy([Record(offset, 1000 + offset, b"k", b"v") for offset in range(3)], magic=magic)
    wrapped = build_legacy([Record(offset, 1000 + offset, b"k", b"v") for offset in range(3, 6)], magic=magic, codec=Codec.GZIP)
    content = plain + wrapped
    segment = damaged(content)
    assert recover(segment).next_offset == 6
    assert time_entries(segment) == ([] if magic == 0 else [(1005, 5)])
    broken = content[:-1] + bytes([content[-1] ^ 1])
    assert recover(damaged(broken)).next_offset == 3


def test_time_entries_of_a_log_without_timestamps_are_none(tmp_path, damaged):
    recover(damaged(batch(0, timestamp=-1) + batch(1, timestamp=-1)))
    assert (tmp_path / "00000000000000000000.timeindex").stat().st_size == 0


def test_offset_that_does_not_fit_the_segment_is_left_to_the_split(damaged):
    with pytest.raises(SegmentOffsetOverflow) as found:
        recover(damaged(WHOLE + batch(2**31)), following=lambda: 2**31 + 1, next_base=2**31 + 1)
    assert (found.value.base_offset, found.value.offset) == (0, 2**31)


def test_offset_that_does_not_fit_the_last_segment_is_damage(damaged):
    assert recover(damaged(WHOLE + batch(2**31, size=100))).bytes_cut == 100


def test_full_index_takes_no_more_entries_in_recovery(damaged):
    segment = damaged(WHOLE, segment_index_bytes=36, index_interval_bytes=0)
    recover(segment)
    assert offset_entries(segment) == [(3, 100), (5, 200)]
    assert time_entries(segment) == [(10, 3), (20, 5), (50, 11)]


def test_rebuilt_indexes_of_a_trusted_log_leave_it_alone(tmp_path, damaged):
    segment = damaged(WHOLE + bytes(10))
    rebuild_indexes(segment)
    assert (offset_entries(segment), time_entries(segment)) == (ENTRIES, TIMES)
    assert (tmp_path / NAME).stat().st_size == 610


def test_rebuilt_indexes_of_the_active_segment_stay_open_for_appends(damaged):
    segment = damaged(WHOLE)
    segment.activate()
    rebuild_indexes(segment)
    append(segment, batch(12, 2, size=100), batch(14, 2, size=100), batch(16, 2, size=100))
    assert offset_entries(segment) == [*ENTRIES, (17, 800)]


def test_index_whose_order_is_broken_is_rebuilt_when_it_is_first_looked_into(tmp_path, damaged):
    segment = damaged(WHOLE)
    recover(segment)
    # Entries (9, 0) and (9, 400): offsets do not rise.
    (tmp_path / "00000000000000000000.index").write_bytes(bytes.fromhex("00000009 00000000 00000009 00000190"))
    again = segment_in(tmp_path, index_interval_bytes=150)
    assert again.locate(4).position == 200
    assert offset_entries(again) == ENTRIES


def test_index_whose_order_is_broken_is_rebuilt_before_the_segment_becomes_active(tmp_path, damaged):
    segment = damaged(WHOLE, index_interval_bytes=0)
    recover(segment)
    # The entry in the middle, (7, 300), now says that offset 1 lies at position 500.
    path = tmp_path / "00000000000000000000.index"
    sound = path.read_bytes()
    path.write_bytes(sound[:16] + bytes.fromhex("00000001 000001f4") + sound[24:])
    again = segment_in(tmp_path, index_interval_bytes=0)
    again.activate()
    assert [again.locate(offset).position for offset in range(12)] == [offset // 2 * 100 for offset in range(12)]
    append(again, batch(12, 2, size=100))
    assert again.locate(13).position == 600


@pytest.mark.parametrize("entry", [(4, 300), (6, 400), (6, 250), (5, 399), (6, 301)])
@pytest.mark.parametrize("is_active", [True, False])
def test_entry_that_keeps_the_order_but_leads_past_its_batch_gets_the_index_rebuilt(tmp_path, damaged, is_active, entry):
    recover(damaged(WHOLE, index_interval_bytes=0))
    # Entries (3, 100) (5, 200) (7, 300) (9, 400) (11, 500): the one in the middle is changed.
    path = tmp_path / "00000000000000000000.index"
    sound = path.read_bytes()
    path.write_bytes(sound[:16] + struct.pack(">ii", *entry) + sound[24:])
    segment = segment_in(tmp_path, index_interval_bytes=0)
    if is_active:
        segment.activate()
    for offset in range(12):
        assert segment.locate(offset).position == offset // 2 * 100


@pytest.mark.parametrize("entry", [(4, 300), (6, 400)])
def test_place_of_a_bound_is_not_misled_either(tmp_path, damaged, entry):
    recover(damaged(WHOLE, index_interval_bytes=0))
    path = tmp_path / "00000000000000000000.index"
    sound = path.read_bytes()
    path.write_bytes(sound[:16] + struct.pack(">ii", *entry) + sound[24:])
    segment = segment_in(tmp_path, index_interval_bytes=0)
    assert [segment.position_of(offset) for offset in range(12)] == [offset // 2 * 100 for offset in range(12)]


@pytest.mark.parametrize(("content", "valid"), [(WHOLE, True), (b"\7" * 50 + SIX[0], True), (b"\7" * 500, False), (b"", False)])
def test_segment_is_asked_whether_it_holds_any_valid_batch(damaged, content, valid):
    assert has_valid_batch(damaged(content)) is valid

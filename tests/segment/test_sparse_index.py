"""What both sparse indexes share: the file's life, and a search that looks into the warm section first."""

from __future__ import annotations

import os
import struct

import pytest

from milepost.errors import CorruptIndex, InvalidArgument
from milepost.files import Disk, HandlePool
from milepost.segment.offset_index import OffsetIndex, OffsetPosition
from milepost.segment.time_index import TimeIndex
from milepost.segment.trace import IndexSearch, Trace


def opened(tmp_path, kind, max_bytes=10_485_760):
    path = tmp_path / ("00000000000000000000" + (".index" if kind is OffsetIndex else ".timeindex"))
    index = kind(HandlePool(Disk()), str(path), 0, max_bytes)
    index.open_sealed(path.stat().st_size if path.exists() else 0)
    return index, path


def sealed(tmp_path, count, step=10):
    """An offset index of `count` entries (10, 0) (20, 100) (30, 200) … as it lies on the disk."""
    index, path = opened(tmp_path, OffsetIndex)
    path.write_bytes(b"".join(struct.pack(">ii", (slot + 1) * step, slot * 100) for slot in range(count)))
    index.open_sealed(count * 8)
    return index


@pytest.mark.parametrize(
    ("kind", "max_bytes", "size"),
    [
        (OffsetIndex, 67, 64),
        (TimeIndex, 67, 60),
        (OffsetIndex, 10_485_760, 10_485_760),
        (TimeIndex, 10_485_760, 10_485_756),
        (OffsetIndex, 8, 8),
    ],
)
def test_new_file_has_the_configured_size_rounded_down_to_whole_entries(tmp_path, kind, max_bytes, size):
    index, path = opened(tmp_path, kind, max_bytes)
    assert not path.exists()
    index.open_active()
    assert path.stat().st_size == size
    assert index.max_entries == size // index.entry_size


def test_preallocated_file_is_sparse(tmp_path):
    index, path = opened(tmp_path, OffsetIndex)
    index.open_active()
    assert path.stat().st_blocks * 512 < 65_536


@pytest.mark.parametrize(("kind", "size"), [(OffsetIndex, 7), (TimeIndex, 11)])
def test_configured_size_below_one_entry_is_refused(tmp_path, kind, size):
    index, _ = opened(tmp_path, kind, size)
    with pytest.raises(InvalidArgument, match=f"segment.index.bytes is {size}, less than one entry"):
        index.open_active()


def test_sealed_file_is_cut_to_its_entries_and_refuses_appends(tmp_path):
    index, path = opened(tmp_path, OffsetIndex)
    index.open_active()
    index.append(5, 50)
    index.append(6, 60)
    index.seal()
    assert path.read_bytes() == bytes.fromhex("00000005 00000032 00000006 0000003c")
    with pytest.raises(InvalidArgument, match="the index is sealed and takes no more entries"):
        index.append(7, 70)
    assert index.lookup(6) == OffsetPosition(6, 60)


def test_empty_sealed_file_has_no_bytes_and_can_be_searched(tmp_path):
    index, path = opened(tmp_path, OffsetIndex)
    index.open_active()
    index.seal()
    assert path.stat().st_size == 0
    assert index.lookup(3) == OffsetPosition(0, 0)


def test_sealing_twice_changes_nothing(tmp_path):
    index, path = opened(tmp_path, OffsetIndex)
    index.open_active()
    index.append(5, 50)
    index.seal()
    index.seal()
    assert path.stat().st_size == 8


def test_sealed_index_that_becomes_active_again_keeps_its_entries_and_has_room(tmp_path):
    index, path = opened(tmp_path, OffsetIndex, 64)
    index.open_active()
    index.append(5, 50)
    index.seal()
    again, _ = opened(tmp_path, OffsetIndex, 64)
    again.open_active()
    assert path.stat().st_size == 64
    again.append(6, 60)
    assert [again.entry(0), again.entry(1)] == [OffsetPosition(5, 50), OffsetPosition(6, 60)]


def test_length_that_is_no_multiple_of_the_entry_counts_whole_entries_only(tmp_path):
    index, path = opened(tmp_path, OffsetIndex)
    path.write_bytes(bytes.fromhex("00000005 00000032 000000"))
    index.open_sealed(11)
    assert index.entries == 1


def test_reset_forgets_everything_on_disk_too(tmp_path):
    index = sealed(tmp_path, 5)
    index.reset()
    index.seal()
    assert (tmp_path / "00000000000000000000.index").read_bytes() == b""
    assert index.entries == 0


def test_cut_entries_are_zeros_on_disk_and_not_entries_that_come_back(tmp_path):
    index, path = opened(tmp_path, OffsetIndex, 32)
    index.open_active()
    for offset in (1, 2, 3):
        index.append(offset, offset)
    index.keep_entries(1)
    assert path.read_bytes() == bytes.fromhex("00000001 00000001") + bytes(24)


def test_entries_survive_without_a_flush_since_they_are_written_through(tmp_path):
    index, path = opened(tmp_path, OffsetIndex, 64)
    index.open_active()
    index.append(5, 50)
    assert path.read_bytes()[:8] == bytes.fromhex("00000005 00000032")


def test_renamed_index_is_read_under_its_new_name(tmp_path):
    index = sealed(tmp_path, 3)
    os.rename(tmp_path / "00000000000000000000.index", tmp_path / "00000000000000000000.index.deleted")
    index.close_handle()
    index.rename(index.path + ".deleted")
    assert index.lookup(25) == OffsetPosition(20, 100)


@pytest.mark.parametrize("count", [1, 2, 3, 1023, 1024, 1025, 1026, 2049, 3000])
def test_search_agrees_with_a_linear_scan_in_and_around_the_warm_section(tmp_path, count):
    index = sealed(tmp_path, count)
    boundary = max(0, count - 1 - 1024)
    slots = {0, 1, boundary - 1, boundary, boundary + 1, count // 2, count - 2, count - 1} & set(range(count))
    for slot in slots:
        for target in ((slot + 1) * 10 - 1, (slot + 1) * 10, (slot + 1) * 10 + 1):
            expected = target // 10 - 1
            assert index.floor_slot(target) == (expected if expected >= 0 else None)


def search(index, target):
    trace = Trace()
    index.lookup(target, trace)
    [step] = trace.steps
    assert isinstance(step, IndexSearch)
    return step


def test_trace_tells_target_probes_answer_and_next_entry(tmp_path):
    index, _ = opened(tmp_path, OffsetIndex)
    index.open_active()
    for offset, position in [(6, 156), (14, 459), (22, 656), (26, 838), (31, 1050)]:
        index.append(offset, position)
    step = search(index, 23)
    assert (step.target, step.entries, step.slot, step.entry, step.next_entry) == (23, 5, 2, (22, 656), (26, 838))
    assert (step.probes[0].slot, step.probes[0].key) == (0, 6)
    assert step.warm
    assert step.pages == 1


def test_trace_before_the_first_entry_has_no_slot(tmp_path):
    step = search(sealed(tmp_path, 5), 3)
    assert (step.slot, step.next_entry) == (None, (10, 0))


def test_lookup_near_the_end_of_a_full_index_touches_three_pages_at_most(tmp_path):
    index = sealed(tmp_path, 262_144)
    for target in (2_621_440, 2_621_000, 2_615_000, 2_611_201):
        step = search(index, target)
        assert step.warm
        assert step.pages <= 3


def test_lookup_far_from_the_end_of_a_full_index_touches_eleven_pages_at_most(tmp_path):
    index = sealed(tmp_path, 262_144)
    for target in (10, 15, 123_456, 1_310_720, 2_000_003, 2_600_000):
        step = search(index, target)
        assert not step.warm
        assert step.pages <= 11


@pytest.mark.parametrize(
    "entries",
    [
        "00000005 00000032 00000005 00000033",
        "00000005 00000032 00000004 00000033",
        "00000005 00000032 00000006 00000031",
        "ffffffff 00000032",
        "00000005 ffffffff",
        "00000005 00000032 00000000 00000000",
    ],
    ids=["same offset", "offset goes back", "position goes back", "negative offset", "negative position", "zero tail"],
)
def test_broken_order_of_an_offset_index_is_found(tmp_path, entries):
    index, path = opened(tmp_path, OffsetIndex)
    path.write_bytes(bytes.fromhex(entries))
    index.open_sealed(path.stat().st_size)
    with pytest.raises(CorruptIndex, match="does not follow the entry before it; rebuild the index"):
        index.check_order()


def test_sound_order_passes(tmp_path):
    sealed(tmp_path, 1000).check_order()

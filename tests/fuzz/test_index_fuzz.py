"""Indexes under random content: searches agree with a linear scan, and no garbage moves the end of a log or hides a record."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.clock import ManualClock
from milepost.files import Disk, HandlePool, Overlay, replace_file
from milepost.log.open import open_log
from milepost.record.builder import build_batch
from milepost.record.kernel import check_entries
from milepost.record.records import Record
from milepost.segment.offset_index import OffsetIndex, OffsetPosition
from milepost.segment.time_index import TimeIndex, TimestampOffset
from tests.fuzz.coverage_guided import needs_atheris, run_target

INT_MAX = 2**31 - 1
BASE = 1000
CONFIG = {"index.interval.bytes": 150, "segment.index.bytes": 1024}

rising = st.lists(st.integers(0, INT_MAX), max_size=60, unique=True).map(sorted)
steps = st.lists(st.integers(0, 1000), min_size=60, max_size=60)
targets = st.integers(-10, INT_MAX + 10)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("index")


def offset_index(directory, offsets, gaps):
    """A sealed index with these relative offsets, at positions that rise by the gaps."""
    position, packed, entries = 0, b"", []
    for offset, gap in zip(offsets, gaps, strict=False):
        packed += struct.pack(">ii", offset, position)
        entries.append(OffsetPosition(BASE + offset, position))
        position += gap
    path = directory / "00000000000000001000.index"
    path.write_bytes(packed)
    index = OffsetIndex(HandlePool(Disk()), str(path), BASE, 10_485_760)
    index.open_sealed(len(packed))
    return index, entries


def time_index(directory, times, gaps):
    offset, packed, entries = 0, b"", []
    for time, gap in zip(times, gaps, strict=False):
        packed += struct.pack(">qi", time, offset)
        entries.append(TimestampOffset(time, BASE + offset))
        offset += gap
    path = directory / "00000000000000001000.timeindex"
    path.write_bytes(packed)
    index = TimeIndex(HandlePool(Disk()), str(path), BASE, 10_485_760)
    index.open_sealed(len(packed))
    return index, entries


@given(rising, steps, targets)
def test_offset_lookup_agrees_with_a_linear_scan(directory, offsets, gaps, target):
    index, entries = offset_index(directory, offsets, gaps)
    index.check_order()
    below = [entry for entry in entries if entry.offset <= BASE + target]
    assert index.lookup(BASE + target) == (below[-1] if below else OffsetPosition(BASE, 0))
    index.close_handle()


@given(rising, steps, st.integers(0, 60_000), st.integers(0, 5000))
def test_upper_bound_agrees_with_a_linear_scan(directory, offsets, gaps, position, size):
    index, entries = offset_index(directory, offsets, [gap + 1 for gap in gaps])
    behind = [entry for entry in entries if entry.position >= position + size]
    assert index.upper_bound(OffsetPosition(BASE, position), size) == (behind[0] if behind else None)
    index.close_handle()


@given(rising, steps, targets)
def test_truncated_offset_index_keeps_exactly_what_lies_below(directory, offsets, gaps, target):
    index, entries = offset_index(directory, offsets, gaps)
    index.open_active()
    index.truncate_to(BASE + target)
    kept = [entry for entry in entries if entry.offset < BASE + target]
    assert [index.entry(slot) for slot in range(index.entries)] == kept
    index.close_handle()


@given(rising, steps, targets)
def test_time_lookup_agrees_with_a_linear_scan(directory, times, gaps, target):
    index, entries = time_index(directory, times, gaps)
    index.check_order()
    below = [entry for entry in entries if entry.timestamp <= target]
    assert index.lookup(target) == (below[-1] if below else TimestampOffset(-1, BASE))
    index.close_handle()


@given(rising, steps, st.integers(-10, 60_000))
def test_truncated_time_index_keeps_exactly_what_lies_below(directory, times, gaps, target):
    index, entries = time_index(directory, times, [gap + 1 for gap in gaps])
    index.open_active()
    index.truncate_to(BASE + target)
    assert [index.entry(slot) for slot in range(index.entries)] == [entry for entry in entries if entry.offset < BASE + target]
    index.close_handle()


@settings(max_examples=30)
@given(st.integers(1, 5000), st.data())
def test_lookup_in_a_large_index_agrees_with_bisection(directory, count, data):
    offsets = [7 * slot + slot % 5 for slot in range(count)]
    index, entries = offset_index(directory, offsets, [3] * count)
    for _ in range(20):
        target = data.draw(st.integers(-5, 7 * count + 10))
        slot = bisect_right(offsets, target) - 1
        assert index.lookup(BASE + target) == (entries[slot] if slot >= 0 else OffsetPosition(BASE, 0))
    index.close_handle()


@pytest.mark.parametrize(("size", "layout"), [(8, ">ii"), (12, ">qi")])
@given(content=st.binary(max_size=240), entries=st.integers(0, 20))
def test_order_check_of_random_bytes_finds_the_first_broken_entry_or_none(kernel, size, layout, content, entries):
    entries = min(entries, len(content) // size)
    pairs = [struct.unpack_from(layout, content, slot * size) for slot in range(entries)]
    broken = -1
    for slot, (first, second) in enumerate(pairs):
        before = pairs[slot - 1] if slot else (-1, -1)
        if first < 0 or second < 0 or first <= before[0] or second < before[1]:
            broken = slot
            break
    assert kernel.check_entries(content, entries, size) == broken


def test_order_check_that_is_used_is_the_kernels():
    assert check_entries(struct.pack(">iiii", 1, 0, 1, 5), 2, 8) == 1


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A log of twelve batches of two records that was left clean."""
    path = tmp_path_factory.mktemp("sound") / "topic-0"
    with open_log(str(path), "a", CONFIG, clock=ManualClock(1000)) as log:
        for number in range(12):
            records = [Record(0, 10 * number, b"k", bytes(20)), Record(1, 10 * number + 5, b"k", bytes(20))]
            log.append(build_batch(records))
    return path


# Noise, and noise of the right shape: small numbers look like entries.
noise = st.binary(max_size=120)
small = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1500)), max_size=6)


@settings(max_examples=60)
@given(offsets=noise | small.map(lambda pairs: b"".join(struct.pack(">ii", *pair) for pair in pairs)), times=noise)
def test_garbage_in_the_indexes_moves_no_end_and_hides_no_record(sound, offsets, times):
    overlay = Overlay()
    replace_file(overlay, f"{sound}/00000000000000000000.index", offsets)
    replace_file(overlay, f"{sound}/00000000000000000000.timeindex", times)
    with open_log(str(sound), "r", CONFIG, clock=ManualClock(1000), disk=overlay) as log:
        assert log.end_offset == 24
        assert [record.offset for record in log.records()] == list(range(24))
        assert [log.find(offset=offset).offset for offset in range(24)] == list(range(24))
        assert [log.find(time=5 * number).offset for number in range(24)] == list(range(24))


@needs_atheris
def test_coverage_guided_inputs_find_no_other_error(tmp_path):
    offsets = struct.pack(">iiii", 3, 162, 7, 324)
    times = struct.pack(">qiqi", 15, 3, 35, 7)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "seed").write_bytes(bytes([len(offsets)]) + offsets + times)
    run_target("fuzz_index", tmp_path, corpus, "-runs=300", "-seed=1", "-max_len=300", "-len_control=0", "-rss_limit_mb=1024")

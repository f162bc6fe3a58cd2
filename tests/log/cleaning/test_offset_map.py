"""The offset map, compiled and as plain Python: the same answers from both."""

from __future__ import annotations

import functools
import hashlib
import random
import tracemalloc
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.codec.compression import Codec
from milepost.errors import InvalidArgument
from milepost.record.batch import HEADER_SIZE, RecordBatch
from milepost.record.builder import build_batch
from milepost.record.kernel import decode_records
from milepost.record.records import Record
from tests.conftest import twin


@pytest.fixture(scope="module", params=["compiled", "pure"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    return twin("milepost.log.cleaning.offset_map", request.param)


def batch(*pairs: tuple[bytes | None, bytes | None], base: int = 0, **given: object) -> bytes:
    return build_batch([Record(base + index, 1000, key, value) for index, (key, value) in enumerate(pairs)], **given)


def columns(data: bytes):
    view = RecordBatch(data)
    return decode_records(data, HEADER_SIZE, len(data), view.record_count, view.base_offset, view.base_timestamp)


# Slots and probes.


def test_probes_of_a_known_key_in_170_slots(module):
    digest = bytes.fromhex("b637b17af08aced8850c18cccde915da")
    assert module.OffsetMap(4096).slots == 170
    assert [module.probe(digest, attempt, 170) for attempt in (0, 1, 2, 12, 13, 14)] == [60, 84, 4, 4, 3, 2]


@pytest.mark.parametrize("attempt", range(30))
def test_probe_is_the_absolute_value_of_four_bytes_of_the_hash(module, attempt):
    for seed in range(200):
        digest = random.Random(seed).randbytes(16)
        start = min(attempt, 12)
        number = int.from_bytes(digest[start : start + 4], "big") + max(0, attempt - 12)
        signed = (number + 2**31) % 2**32 - 2**31
        assert module.probe(digest, attempt, 1_000_003) == (0 if signed == -(2**31) else abs(signed)) % 1_000_003


def test_smallest_signed_number_counts_as_zero(module):
    assert module.probe(bytes.fromhex("80000000" + "00" * 12), 0, 170) == 0


def test_hash_is_md5_for_keys_of_every_length_around_its_block(module):
    for size in range(260):
        key = random.Random(size).randbytes(size)
        assert module.md5(key) == hashlib.md5(key).digest(), size


# One key at a time.


@pytest.mark.parametrize("items", [10, 100, 1000, 5000])
def test_every_key_put_is_found_again_and_others_are_not(module, items):
    offsets = module.OffsetMap(items * 48)
    for number in range(items):
        offsets.put(b"key%d" % number, number)
    assert [offsets.get(b"key%d" % number) for number in range(items)] == list(range(items))
    assert [offsets.get(b"other%d" % number) for number in range(items)] == [-1] * items
    assert len(offsets) == items
    assert offsets.slots == 2 * items


def test_later_record_of_a_key_takes_the_place_of_the_earlier(module):
    offsets = module.OffsetMap(4096)
    offsets.put(b"k", 1)
    offsets.put(b"k", 42)
    assert (offsets.get(b"k"), len(offsets)) == (42, 1)


def test_cleared_map_knows_nothing(module):
    offsets = module.OffsetMap(4096)
    offsets.put(b"k", 7)
    offsets.clear()
    assert (offsets.get(b"k"), len(offsets), offsets.latest_offset) == (-1, 0, -1)


def test_empty_key_is_a_key(module):
    offsets = module.OffsetMap(4096)
    offsets.put(b"", 3)
    assert (offsets.get(b""), len(offsets)) == (3, 1)


def test_offset_zero_is_not_an_empty_slot(module):
    offsets = module.OffsetMap(4096)
    offsets.put(b"k", 0)
    assert (offsets.get(b"k"), len(offsets)) == (0, 1)


def test_map_without_a_free_slot_still_answers_and_takes_no_more(module):
    offsets = module.OffsetMap(24 * 40, load_factor=1.0)
    for number in range(40):
        offsets.put(b"key%d" % number, number)
    assert len(offsets) == offsets.slots
    assert [offsets.get(b"key%d" % number) for number in range(40)] == list(range(40))
    assert offsets.get(b"other") == -1
    with pytest.raises(InvalidArgument, match="all 40 slots"):
        offsets.put(b"other", 41)


def test_latest_offset_is_that_of_the_last_put(module):
    offsets = module.OffsetMap(4096)
    offsets.put(b"a", 0)
    offsets.put(b"b", 7_206_178)
    assert offsets.latest_offset == 7_206_178
    offsets.update_latest_offset(7_206_200)
    assert (offsets.latest_offset, offsets.get(b"b")) == (7_206_200, 7_206_178)


@pytest.mark.parametrize(("memory", "load_factor"), [(0, 0.9), (24, 0.9), (48, 0.9), (4096, 0.0), (4096, 1.5)])
def test_map_that_could_not_hold_two_keys_is_refused(module, memory, load_factor):
    with pytest.raises(InvalidArgument, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        module.OffsetMap(memory, load_factor)


def memory_of(*files: str) -> int:
    """What the code of these files has taken. Other threads of this process may be busy, too."""
    taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(inclusive=True, filename_pattern=file) for file in files])
    return sum(trace.size for trace in taken.traces)


def test_memory_grows_with_the_keys_and_ends_at_what_was_given(module):
    memory = functools.partial(memory_of, __file__, module.__file__)
    tracemalloc.start()
    try:
        offsets = module.OffsetMap(24 * 5000, load_factor=1.0)
        assert 24_576 <= memory() < 26_000
        for number in range(5000):
            offsets.put(b"key%d" % number, number)
        assert 120_000 <= memory() < 122_000
        offsets.clear()
        assert 24_576 <= memory() < 26_000
    finally:
        tracemalloc.stop()


# Whole batches.


def test_records_of_a_batch_from_the_first_dirty_offset_on_are_put(module):
    offsets = module.OffsetMap(4096)
    data = batch((b"a", b"1"), (b"b", b"1"), (None, b"1"), (b"a", b"2"), (b"c", None), base=10)
    assert offsets.put_records(data, HEADER_SIZE, len(data), 5, 10, 11) == 0
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [13, 11, 14]
    assert offsets.latest_offset == 14


def test_records_stop_before_the_first_that_finds_the_desired_number_of_keys(module):
    offsets = module.OffsetMap(24 * 4, load_factor=0.75)
    assert offsets.desired == 3
    data = batch((b"a", b""), (b"b", b""), (b"a", b""), (b"c", b""), (b"a", b""), (b"d", b""))
    # The fifth record's key is in the map already; a full map stops the build before it all the same.
    assert offsets.put_records(data, HEADER_SIZE, len(data), 6, 0, 0) == module.NO_ROOM_LEFT
    assert (len(offsets), offsets.latest_offset, offsets.get(b"a")) == (3, 3, 2)


def test_bytes_that_are_no_records_are_noticed(module):
    offsets = module.OffsetMap(4096)
    assert offsets.put_records(b"\xff" * 20, 0, 20, 1, 0, 0) == module.NOT_RECORDS
    assert offsets.put_records(b"\x0e\0\0\0\x7e\0\0\0", 0, 8, 1, 0, 0) == module.NOT_RECORDS
    with pytest.raises(InvalidArgument, match="bytes 0 to 9 of a buffer of 8"):
        offsets.put_records(b"\0" * 8, 0, 9, 1, 0, 0)


def test_run_of_plain_batches_is_put_and_ends_at_a_batch_of_another_kind(module):
    plain = batch((b"a", b"1"), base=0) + batch((b"b", b"1"), (b"a", b"2"), base=1)
    other = batch((b"c", b"1"), base=3, codec=Codec.LZ4)
    offsets = module.OffsetMap(4096)
    assert offsets.put_batches(plain + other, 0, 0) == (len(plain), False)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c"), offsets.latest_offset) == (2, 1, -1, 2)


@pytest.mark.parametrize("damage", ["a changed byte", "a cut", "legacy"])
def test_run_ends_at_a_batch_that_is_damaged_or_cut_or_older(module, damage):
    first, second = batch((b"a", b"1"), base=0), bytearray(batch((b"b", b"1"), base=1))
    if damage == "a changed byte":
        second[-2] ^= 1
    elif damage == "a cut":
        del second[-1:]
    else:
        second[16] = 1
    offsets = module.OffsetMap(4096)
    assert offsets.put_batches(first + second, 0, 0) == (len(first), False)
    assert offsets.get(b"b") == -1
    offsets.clear()
    offsets.update_latest_offset(-1)
    assert offsets.keep_batches(first + second, 0, 99, 0)[0] == len(first)


def test_latest_offset_after_a_batch_is_the_batchs_last_even_without_keys(module):
    offsets = module.OffsetMap(4096)
    data = batch((None, b"1"), (None, b"2"), base=5)
    assert offsets.put_batches(data, 0, 0) == (len(data), False)
    assert (offsets.latest_offset, len(offsets)) == (6, 0)


def test_run_says_that_the_map_is_full(module):
    offsets = module.OffsetMap(24 * 4, load_factor=0.5)
    first = batch((b"a", b""), base=0)
    second = batch((b"b", b""), (b"c", b""), base=1)
    assert offsets.put_batches(first + second, 0, 0) == (len(first), True)
    assert (len(offsets), offsets.latest_offset) == (2, 1)


def test_thousands_of_keys_in_one_batch_make_the_table_grow(module):
    data = batch(*((b"key%d" % number, b"") for number in range(3000)))
    offsets = module.OffsetMap(24 * 10_000)
    assert offsets.put_batches(data, 0, 0) == (len(data), False)
    assert len(offsets) == 3000
    assert all(offsets.get(b"key%d" % number) == number for number in range(3000))


# Judging.


def test_columns_are_reduced_to_what_survives(module):
    offsets = module.OffsetMap(4096)
    offsets.put(b"a", 3)
    offsets.put(b"b", 9)
    offsets.update_latest_offset(5)
    data = batch(
        (b"a", b"old"), (b"b", b"old"), (None, b"no key"), (b"a", b"new"), (b"x", b"once"), (b"t", None), (None, b"late")
    )
    rows = columns(data)
    assert offsets.keep_records(rows, data, True) == (4, 1, 1)
    assert list(rows.offsets) == [3, 4, 5, 6]
    assert [bytes(data[at : at + size]) for at, size in zip(rows.value_start, rows.value_length, strict=True) if size >= 0] == [
        b"new",
        b"once",
        b"late",
    ]


def test_tombstone_whose_time_is_up_goes_unless_it_lies_behind_the_map(module):
    offsets = module.OffsetMap(4096)
    offsets.update_latest_offset(0)
    data = batch((b"t", None), (b"u", None))
    rows = columns(data)
    assert offsets.keep_records(rows, data, False) == (1, 0, 1)
    assert list(rows.offsets) == [1]


def test_small_batches_are_kept_or_dropped_whole(module):
    offsets = module.OffsetMap(4096)
    pieces = [batch((b"k%d" % (number % 3), b"v"), base=number) for number in range(6)]
    data = b"".join(pieces)
    assert offsets.put_batches(data, 0, 0) == (len(data), False)
    end, kept, records, keyless = offsets.keep_batches(data, 0, 100, 2000)
    assert (end, records, keyless) == (len(data), 6, 0)
    size = len(pieces[0])
    assert kept == [(size * number, size, number, 1000, 1) for number in (3, 4, 5)]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (batch((b"a", b"1"), (b"b", b"2"), base=1), "survives in part"),
        (batch((b"t", None), base=1), "gets a delete horizon"),
        (batch((b"a", b"1"), base=1, producer_id=7, producer_epoch=0, base_sequence=0), "may be its producer's last"),
        (batch((b"a", b"1"), base=98), "ends where the pass ends"),
        (batch(*[(b"x", b"1")] * 20, base=1), "has many records"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_run_of_judged_batches_ends_at_one_that(module, second, reason):
    offsets = module.OffsetMap(4096)
    for key, newest in {b"t": 1, b"b": 2, b"x": 99, b"a": 99}.items():
        offsets.put(key, newest)
    first = batch((b"zz", b"1"), base=0)
    end, kept, _, _ = offsets.keep_batches(first + second, 0, 99, 2000)
    assert (end, len(kept)) == (len(first), 1), reason


def test_expired_tombstone_with_a_horizon_is_dropped_without_a_rewrite(module):
    data = batch((b"t", None), base=1, delete_horizon_ms=5000)
    offsets = module.OffsetMap(4096)
    offsets.put(b"t", 1)
    assert offsets.keep_batches(data, 0, 99, 4999)[1] == [(0, len(data), 1, 1000, 1)]
    assert offsets.keep_batches(data, 0, 99, 5000) == (len(data), [], 1, 0)


keys = st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"", b"long" * 30]))


@given(st.lists(st.tuples(keys, st.one_of(st.none(), st.just(b"v"))), min_size=1, max_size=40), st.booleans())
def test_both_ways_to_judge_a_batch_agree_with_a_dictionary(module, pairs, keep_tombstones):
    data = batch(*pairs)
    newest = {key: offset for offset, (key, _) in enumerate(pairs) if key is not None}
    offsets = module.OffsetMap(1 << 16)
    assert offsets.put_batches(data, 0, 0) == (len(data), False)
    assert {key: offsets.get(key) for key in newest} == newest
    rows = columns(data)
    kept, keyless, tombstones = offsets.keep_records(rows, data, keep_tombstones)
    survivors = [
        offset
        for offset, (key, value) in enumerate(pairs)
        if key is not None and newest[key] == offset and (value is not None or keep_tombstones)
    ]
    assert list(rows.offsets) == survivors
    assert kept == len(survivors)
    assert keyless == sum(key is None for key, _ in pairs)
    assert tombstones == sum(pairs[offset][1] is None for offset in survivors)

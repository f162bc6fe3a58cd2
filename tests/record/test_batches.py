"""Walking batches in memory: where it ends quietly, and where it raises."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptRecord
from milepost.record.batch import RecordBatch
from milepost.record.batches import batch_at, iter_batches, parse_start
from milepost.record.legacy import LegacyBatch

V0 = bytes.fromhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76")
V1 = bytes.fromhex("0000000000000006 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76")
V2 = bytes.fromhex(
    "0000000000000064 00000031 00000007 02 fb477e3a 0000 00000001 ffffffffffffffff"
    "0000018bcfe56805 0000000000000fa0 0002 0000000a 00000000"
)


def with_size(batch: bytes, size: int) -> bytes:
    return batch[:8] + size.to_bytes(4, "big", signed=True) + batch[12:]


def with_magic(batch: bytes, magic: int) -> bytes:
    return batch[:16] + bytes([magic]) + batch[17:]


def test_a_log_that_grew_through_all_formats_gives_each_batch_in_its_own():
    batches = list(iter_batches(V0 + V1 + V2 + V0))
    assert [type(batch) for batch in batches] == [LegacyBatch, LegacyBatch, RecordBatch, LegacyBatch]
    assert [batch.magic for batch in batches] == [0, 1, 2, 0]
    assert [batch.position for batch in batches] == [0, 28, 64, 125]
    assert [batch.last_offset for batch in batches] == [5, 6, 101, 5]
    assert all(batch.is_valid() for batch in batches)


def test_nothing_holds_no_batch():
    assert list(iter_batches(b"")) == []


def test_a_walk_twice_over_the_same_bytes_gives_the_same():
    data = V2 + V1 + V2[:40]
    assert (
        [bytes(batch.view()) for batch in iter_batches(data)] == [bytes(batch.view()) for batch in iter_batches(data)] == [V2, V1]
    )


@pytest.mark.parametrize("batch", [V0, V1, V2], ids=["magic 0", "magic 1", "magic 2"])
def test_a_partial_batch_at_the_end_ends_the_walk_wherever_it_is_cut(batch):
    for cut in range(len(batch)):
        assert [found.position for found in iter_batches(V2 + batch[:cut])] == [0], f"cut to {cut} bytes"


def test_start_and_end_bound_the_walk():
    data = V0 + V1 + V2
    assert [batch.magic for batch in iter_batches(data, 28)] == [1, 2]
    assert [batch.magic for batch in iter_batches(data, 0, 64)] == [0, 1]
    assert [batch.magic for batch in iter_batches(data, 28, 63)] == []


def test_up_to_16_trailing_bytes_are_not_looked_at():
    assert len(list(iter_batches(V2 + bytes(16)))) == 1
    with pytest.raises(CorruptRecord, match="position 61: size field 0, the smallest message has 14"):
        list(iter_batches(V2 + bytes(17)))


@pytest.mark.parametrize("size", [-2147483648, -1, 0, 13])
def test_a_size_below_every_message_is_corrupt(size):
    with pytest.raises(CorruptRecord, match=f"7.log: batch at position 28: size field {size}, the smallest message has 14"):
        list(iter_batches(V0 + with_size(V1, size), where="7.log"))


@pytest.mark.parametrize(("batch", "size", "smallest"), [(V1, 21, 22), (V2, 48, 49)])
def test_a_size_below_the_smallest_of_its_magic_is_corrupt(batch, size, smallest):
    with pytest.raises(CorruptRecord, match=f"size field {size}, the smallest of magic {batch[16]} is {smallest}"):
        list(iter_batches(with_size(batch, size)))


def test_a_size_above_the_allowed_one_is_corrupt_even_if_its_end_is_not_there():
    assert len(list(iter_batches(V2, max_size=49))) == 1
    with pytest.raises(CorruptRecord, match="size field 49, allowed are 48"):
        list(iter_batches(V2, max_size=48))
    with pytest.raises(CorruptRecord, match="size field 2147483647, allowed are 1048576"):
        list(iter_batches(with_size(V2, 2147483647), max_size=1048576))


@pytest.mark.parametrize(("byte", "magic"), [(3, 3), (127, 127), (128, -128), (255, -1)])
def test_an_unknown_magic_is_corrupt(byte, magic):
    with pytest.raises(CorruptRecord, match=f"position 61: magic {magic}, known are 0, 1 and 2"):
        list(iter_batches(V2 + with_magic(V2, byte)))


def test_batches_before_the_damage_are_given_before_the_error():
    walk = iter_batches(V2 + V1 + with_magic(V2, 9))
    assert next(walk).last_offset == 101
    assert next(walk).last_offset == 6
    with pytest.raises(CorruptRecord):
        next(walk)


def test_batch_at_takes_the_format_from_the_magic_byte():
    data = V0 + V1 + V2
    assert isinstance(batch_at(data, 0), LegacyBatch)
    assert batch_at(data, 28).magic == 1
    assert isinstance(batch_at(data, 64), RecordBatch)


def test_batch_at_the_end_names_what_is_left():
    with pytest.raises(CorruptRecord, match=r"a\.log: batch at position 50: 11 bytes are left, a batch starts with 17"):
        batch_at(V2, 50, where="a.log")
    with pytest.raises(CorruptRecord, match="batch at position 99: 0 bytes are left"):
        batch_at(V2, 99)


def test_the_start_of_a_batch_tells_its_whole_size():
    assert parse_start(V2[:17], 0) == (61, 2)
    assert parse_start(V0 + V1, 28) == (36, 1)

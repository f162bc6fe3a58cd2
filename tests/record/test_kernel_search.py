"""What the kernel looks for: the next batch behind damage, the first index entry out of order."""

from __future__ import annotations

import struct
import zlib

import pytest

from milepost.errors import InvalidArgument
from milepost.record.batches import batch_at
from tests.record.octets import LONG_MAX, TIME, WORKED, octets

# The commit marker of producer 4000 epoch 2 at offset 102.
MARKER = bytes.fromhex(
    "0000000000000066000000420000000702 2d78afa4 0030 00000000 0000018bcfe56be8 0000018bcfe56be8 0000000000000fa0 0002 ffffffff"
    "00000001 20000000 08 00000001 0c 000000000003 00"
)
# Offset 5, key k, value v.
V0 = bytes.fromhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76")
V1 = bytes.fromhex("0000000000000005 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76")


# find_batch


def test_batch_behind_damage_is_found(kernel):
    file = b"\xff" * 100 + WORKED + MARKER
    assert kernel.find_batch(file, 0, len(file), 0, LONG_MAX) == 100
    assert kernel.find_batch(file, 100, len(file), 0, LONG_MAX) == 100
    assert kernel.find_batch(file, 101, len(file), 0, LONG_MAX) == 188
    assert kernel.find_batch(file, 189, len(file), 0, LONG_MAX) == -1


@pytest.mark.parametrize("batch", [V0, V1, WORKED, MARKER], ids=["magic 0", "magic 1", "magic 2", "marker"])
def test_batch_is_found_behind_every_kind_of_filling(kernel, batch):
    for filling in (bytes(200), b"\x01" * 77, b"\x02" * 61, WORKED[:-1], V1[:-1], bytes(range(256))):
        file = memoryview(bytearray(filling + batch + filling))
        assert kernel.find_batch(file, 0, len(file), 0, LONG_MAX) == len(filling)


def test_batch_with_a_damaged_byte_is_not_found_unless_the_byte_is_outside_its_crc(kernel):
    unprotected = set(range(16)) - set(range(8, 12))  # base offset and leader epoch
    for position in range(88):
        damaged = bytearray(WORKED)
        damaged[position] ^= 0x01
        assert (kernel.find_batch(damaged, 0, 88, 0, LONG_MAX) == 0) == (position in unprotected), position


def test_batch_must_end_by_the_end(kernel):
    assert kernel.find_batch(WORKED, 0, 87, 0, LONG_MAX) == -1
    assert kernel.find_batch(V0 + V0, 0, 28 + 27, 0, LONG_MAX) == 0
    assert kernel.find_batch(b"", 0, 0, 0, LONG_MAX) == -1


@pytest.mark.parametrize(
    ("low", "high", "found"), [(100, 101, 0), (101, 200, -1), (0, 100, -1), (0, 99, -1), (0, 101, 0), (-5, LONG_MAX, 0)]
)
def test_both_offsets_must_be_plausible(kernel, low, high, found):
    assert kernel.find_batch(WORKED, 0, 88, low, high) == found


@pytest.mark.parametrize(("low", "high", "found"), [(5, 5, 0), (6, 9, -1), (0, 4, -1)])
def test_offset_of_a_message_must_be_plausible(kernel, low, high, found):
    for message in (V0, V1):
        assert kernel.find_batch(message, 0, len(message), low, high) == found


def test_negative_offset_is_never_plausible(kernel):
    for batch in (WORKED, V0, V1):
        negative = b"\x80" + batch[1:]
        assert kernel.find_batch(negative, 0, len(negative), -LONG_MAX - 1, LONG_MAX) == -1


def test_message_whose_fields_do_not_fill_it_is_no_message_though_its_crc_is_right(kernel):
    body = octets("00 00 00000002 6b 00000001 76")
    forged = V0[:12] + struct.pack(">I", zlib.crc32(body)) + body
    assert batch_at(forged, 0).is_valid()
    assert kernel.find_batch(forged, 0, 28, 0, LONG_MAX) == -1


def test_message_with_null_key_and_null_value_is_found(kernel):
    body = octets("01 00 0000018bcfe56800 ffffffff ffffffff")
    message = octets("0000000000000005 00000016") + struct.pack(">I", zlib.crc32(body)) + body
    assert kernel.find_batch(b"?" + message, 0, 35, 0, 9) == 1


# check_entries


def offset_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_offset_index_of_the_articles_is_in_order(kernel):
    index = offset_index((6, 156), (14, 459), (22, 656), (26, 838), (31, 1050))
    assert kernel.check_entries(index, 5, 8) == -1
    assert kernel.check_entries(memoryview(index), 5, 8) == -1


@pytest.mark.parametrize(
    ("entries", "slot"),
    [
        ([], -1),
        ([(0, 0)], -1),
        ([(-1, 0)], 0),
        ([(0, -1)], 0),
        ([(6, 156), (6, 459)], 1),
        ([(6, 156), (5, 459)], 1),
        ([(6, 156), (14, 156)], -1),
        ([(6, 156), (14, 155)], 1),
        ([(6, 156), (14, 459), (0, 0), (0, 0)], 2),
        ([(6, 156), (2147483647, 2147483647)], -1),
        ([(6, 156), (-2147483648, 459)], 1),
    ],
)
def test_first_slot_of_an_offset_index_that_breaks_the_order(kernel, entries, slot):
    assert kernel.check_entries(offset_index(*entries), len(entries), 8) == slot


@pytest.mark.parametrize(
    ("entries", "slot"),
    [
        ([], -1),
        ([(0, 0)], -1),
        ([(-1, 0)], 0),
        ([(10, -1)], 0),
        ([(TIME, 3), (TIME + 1, 3), (LONG_MAX, 2147483647)], -1),
        ([(TIME, 3), (TIME, 4)], 1),
        ([(TIME, 3), (TIME - 1, 4)], 1),
        ([(TIME, 3), (TIME + 1, 2)], 1),
        ([(TIME, 3), (TIME + 1, 4), (0, 0)], 2),
        ([(2**32, 0), (2**32 - 1, 0)], 1),
    ],
)
def test_first_slot_of_a_time_index_that_breaks_the_order(kernel, entries, slot):
    assert kernel.check_entries(time_index(*entries), len(entries), 12) == slot


def test_only_the_entries_asked_for_are_looked_at(kernel):
    assert kernel.check_entries(offset_index((6, 156), (14, 459), (0, 0)), 2, 8) == -1


@pytest.mark.parametrize(("entries", "kind"), [(3, 8), (-1, 8), (2, 12), (2**61, 8), (1, 16)])
def test_entries_that_are_not_there(kernel, entries, kind):
    with pytest.raises(InvalidArgument, match=f"entries of {kind} bytes"):
        kernel.check_entries(bytes(16), entries, kind)

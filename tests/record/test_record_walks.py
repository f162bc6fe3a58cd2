"""Walks over many records, compiled and as plain Python: every test runs on each.

Record bytes are written out by hand: length · attributes · timestamp delta · offset delta · key length · key · ..
"""

from __future__ import annotations

from types import ModuleType

import pytest

from milepost.errors import InvalidArgument, InvalidRecord
from tests.conftest import twin

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
# k=v · no key, 5 ms later · k=v, 2 ms later, with a header
THREE = bytes.fromhex("10 00 00 00 02 6b 02 76 00  0c 00 0a 02 01 00 00  16 00 04 04 02 6b 02 76 02 02 68 01".replace(" ", ""))


@pytest.fixture(scope="module", params=["compiled", "pure"])
def walks(request: pytest.FixtureRequest) -> ModuleType:
    return twin("milepost.record.record_walks", request.param)


def at_offset(delta: str) -> bytes:
    """A record with no key and no value."""
    body = bytes.fromhex("00 00" + delta + "01 00 00")
    return bytes([2 * len(body)]) + body


def refused(walks, data: bytes, count: int, earliest=LONG_MIN, latest=LONG_MAX, needs_key=False, most=10, base_timestamp=100):
    return walks.refused_records(data, 0, len(data), count, base_timestamp, earliest, latest, needs_key, most)


def test_records_in_sequence_stay_as_they_are(walks):
    assert bytes(walks.renumber_records(THREE, 0, len(THREE), 3)) == THREE


@pytest.mark.parametrize("delta", ["00", "7e", "ffffffff0f", "feffffff0f"], ids=["0", "63", "-2147483648", "2147483647"])
def test_records_are_numbered_from_zero(walks, delta):
    data = b"\xff" + at_offset(delta) * 3 + b"\xff"
    assert bytes(walks.renumber_records(data, 1, len(data) - 1, 3)) == at_offset("00") + at_offset("02") + at_offset("04")


def test_number_of_more_bytes_makes_the_record_longer(walks):
    found = bytes(walks.renumber_records(at_offset("00") * 65, 0, 65 * 7, 65))
    assert found[64 * 7 :] == bytes.fromhex("0e 00 00 80 01 01 00 00")


def test_everything_behind_the_number_is_kept(walks):
    shuffled = THREE[9:16] + THREE[:9] + THREE[16:]
    expected = bytes.fromhex("0c 00 0a 00 01 00 00  10 00 00 02 02 6b 02 76 00".replace(" ", "")) + THREE[16:]
    assert bytes(walks.renumber_records(shuffled, 0, len(shuffled), 3)) == expected


@pytest.mark.parametrize(
    ("time", "delta", "expected"),
    [
        (100, 0, (0, 0, 100)),
        (101, 0, (1, 1, 105)),
        (100, 2, (2, 2, 102)),
        (103, 2, None),
        (106, 0, None),
        (LONG_MIN, 1, (1, 1, 105)),
    ],
)
def test_first_record_that_is_not_older_and_not_before_an_offset(walks, time, delta, expected):
    assert walks.find_record(THREE, 0, len(THREE), 3, 100, time, delta) == expected


def test_damage_is_named_before_anything_is_found(walks):
    with pytest.raises(InvalidRecord, match="left over at position 28"):
        walks.find_record(THREE + b"\0", 0, len(THREE) + 1, 3, 100, 0, 0)


def test_no_record_is_refused_without_a_reason(walks):
    assert refused(walks, THREE, 3) == (0, False, [])


def test_record_without_a_key_is_refused_where_one_is_needed(walks):
    assert refused(walks, THREE, 3, needs_key=True) == (1, False, [(1, 105, True)])


def test_record_outside_of_the_times_is_refused(walks):
    assert refused(walks, THREE, 3, earliest=101, latest=104) == (2, True, [(0, 100, False), (1, 105, False)])


def test_key_goes_before_time(walks):
    assert refused(walks, THREE, 3, latest=104, needs_key=True) == (1, False, [(1, 105, True)])


def test_record_without_a_timestamp_is_at_no_wrong_time(walks):
    assert refused(walks, THREE, 3, earliest=0, base_timestamp=-1) == (0, False, [])


def test_all_that_are_refused_are_counted_and_the_first_are_named(walks):
    data = at_offset("00") * 1000
    assert refused(walks, data, 1000, needs_key=True, most=2) == (1000, False, [(0, 100, True), (1, 100, True)])
    mixed = THREE[:9] + data
    assert refused(walks, mixed, 1001, latest=99, needs_key=True, most=1) == (1001, True, [(0, 100, False)])


@pytest.mark.parametrize("data", [b"\x7e\0", b"\x80" * 12])
def test_nothing_behind_the_end_is_read(walks, data):
    """Nobody comes here without a scan before; but the memory could have changed since."""
    with pytest.raises(InvalidRecord, match="changed after they were scanned"):
        walks.renumber_records(data, 0, len(data), 1)
    with pytest.raises(InvalidRecord, match="changed after they were scanned"):
        refused(walks, data, 1, needs_key=True)
    with pytest.raises(InvalidArgument, match="of a buffer of"):
        walks.renumber_records(data, 0, len(data) + 1, 1)

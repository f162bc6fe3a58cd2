"""The names of the files of a partition directory."""

from __future__ import annotations

import pytest

from milepost.segment import names


@pytest.mark.parametrize(
    ("offset", "name"),
    [(0, "00000000000000000000.log"), (32, "00000000000000000032.log"), (2**63 - 1, "09223372036854775807.log")],
)
def test_stem_is_the_offset_in_twenty_digits(offset, name):
    assert names.file_name(offset, names.LOG) == name
    assert names.offset_of(name) == offset


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("00000000000000000251.log.swap", 251),
        ("00000000000000000251.timeindex.cleaned", 251),
        ("00000000000000000251.snapshot", 251),
        ("7.log", 7),
        ("leader-epoch-checkpoint", None),
        ("partition.metadata", None),
        (".lock", None),
        ("", None),
    ],
)
def test_offset_is_the_number_before_the_first_dot(name, offset):
    assert names.offset_of(name) == offset


@pytest.mark.parametrize(
    ("name", "is_log"),
    [
        ("00000000000000000251.log", True),
        ("000000000000000000000251.log", True),
        ("251.log", False),
        ("00000000000000000251.log.deleted", False),
        ("0000000000000000025x.log", False),
        ("\u0660" * 20 + ".log", False),
        ("-0000000000000000251.log", False),
        (".log", False),
        ("00000000000000000251.index", False),
    ],
)
def test_segment_file_has_twenty_plain_digits_and_nothing_behind_its_suffix(name, is_log):
    assert names.is_segment_file(name, names.LOG) is is_log


def test_hole_name_tells_where_the_damage_lies():
    name = names.hole_name(94, 1144, 1354, 115, 119)
    assert name == "00000000000000000094.log.hole-1144-1354-115-119"
    assert names.parse_hole_name(name) == (94, 1144, 1354, 115, 119)


@pytest.mark.parametrize(
    "name", ["00000000000000000094.log", "00000000000000000094.log.hole-1144-1354-115", "00000000000000000094.log.cut-1721", "x"]
)
def test_other_names_tell_of_no_hole(name):
    assert names.parse_hole_name(name) is None

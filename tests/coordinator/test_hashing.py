"""Java's String.hashCode as the place of a group or transactional id."""

from __future__ import annotations

import pytest

from milepost.coordinator.hashing import java_hash_code, partition_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Hello World", -862545276),
        ("polygenelubricants", -2147483648),
        ("😀", 1772899),  # two UTF-16 units: 0xD83D, 0xDE00
    ],
)
def test_hash_codes_are_java_s(text, expected):
    assert java_hash_code(text) == expected


def test_the_partition_is_the_absolute_hash_modulo_the_count():
    assert partition_of("hello", 50) == 22
    assert partition_of("Hello World", 50) == 26


def test_the_one_hash_without_an_absolute_value_is_partition_0():
    assert partition_of("polygenelubricants", 50) == 0

"""Texts in Java's `.properties` format, and what Java's own reader makes of them."""

from __future__ import annotations

import pytest

from milepost.config.properties_file import parse_properties
from milepost.errors import InvalidConfiguration


def values(text: str) -> dict[str, str]:
    return {name: entry.value for name, entry in parse_properties(text).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("  a=b", {"a": "b"}),
        ("a==b", {"a": "=b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=b ", {"a": "b "}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
        ("\n \n\t\n", {}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_name_ends_at_the_first_separator(text, expected):
    assert values(text) == expected


@pytest.mark.parametrize("text", ["# a=b", "! a=b", "   # a=b", "# a=b \\"])
def test_comment_is_left_out_and_never_joins_the_next_line(text):
    assert values(text + "\nc=d") == {"c": "d"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\\\\\nc", {"a": "b\\c"}),
        ("a=b\\", {"a": "b"}),
        ("a\\\n=b", {"a": "b"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    ],
)
def test_backslash_at_the_end_joins_the_next_line_when_it_is_not_escaped_itself(text, expected):
    assert values(text) == expected


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_three_line_endings_are_known(ending):
    assert values(f"a=b{ending}# x{ending}c=d\\{ending}  e{ending}") == {"a": "b", "c": "de"}


def test_unicode_line_separator_is_part_of_a_value():
    assert values("a=b\u2028c\x0bd") == {"a": "b\u2028c\x0bd"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\=b=c", {"a=b": "c"}),
        (r"a\ b\:c d", {"a b:c": "d"}),
        (r"a=\t\n\r\f\\", {"a": "\t\n\r\f\\"}),
        (r"a=C:\\logs\dir", {"a": "C:\\logsdir"}),
        (r"a=caf\u00e9", {"a": "café"}),
        (r"a=\ud83d\ude80", {"a": "\U0001f680"}),
        (r"a=\  b", {"a": "  b"}),
        (r"\#a=b", {"#a": "b"}),
    ],
)
def test_escapes_mean_what_they_mean_in_java(text, expected):
    assert values(text) == expected


def test_broken_unicode_escape_names_the_file_and_the_line():
    with pytest.raises(InvalidConfiguration, match=r"^server\.properties, line 3: .u needs four hexadecimal digits"):
        parse_properties("# one\n\na=\\u12g4", "server.properties")


def test_entry_knows_the_line_it_starts_on():
    entries = parse_properties("# head\na=1,\\\n  2\n\nb=3")
    assert (entries["a"].line, entries["b"].line) == (2, 5)


def test_byte_order_mark_is_no_part_of_the_first_name():
    assert values("\ufeffa=b") == {"a": "b"}

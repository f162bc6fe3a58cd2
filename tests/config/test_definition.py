"""One property's value: what each type reads, what it refuses, and what the refusal says."""

from __future__ import annotations

import pytest

from milepost.config.definition import LIST, B, D, I, L, Property, S
from milepost.errors import InvalidConfiguration


@pytest.mark.parametrize(
    ("type", "given", "expected"),
    [
        (B, "true", True),
        (B, " FALSE ", False),
        (B, True, True),
        (I, "4096", 4096),
        (I, " +7 ", 7),
        (I, -1, -1),
        (I, "2147483647", 2147483647),
        (L, "9223372036854775807", 9223372036854775807),
        (L, "-9223372036854775808", -9223372036854775808),
        (D, "0.5", 0.5),
        (D, "1e-2", 0.01),
        (D, 1, 1.0),
        (S, " producer ", "producer"),
        (LIST, "compact, delete", ("compact", "delete")),
        (LIST, "", ()),
        (LIST, "  ", ()),
        (LIST, "a,a,b", ("a", "b")),
        (LIST, ["a", "b"], ("a", "b")),
        (LIST, frozenset({"b", "a"}), ("a", "b")),
    ],
)
def test_value_of_its_type_is_read(type, given, expected):
    assert Property("a.b", type, None, "").parse(given) == expected


@pytest.mark.parametrize(
    ("type", "given"),
    [
        (B, "yes"),
        (B, 1),
        (B, ""),
        (I, ""),
        (I, "1_000"),
        (I, "1e3"),
        (I, "0x10"),
        (I, "4096.0"),
        (I, 4096.0),
        (I, True),
        (I, "2147483648"),
        (I, -2147483649),
        (I, "٣"),
        (I, "9" * 5000),
        (L, "9223372036854775808"),
        (D, "half"),
        (D, "nan"),
        (D, "inf"),
        (D, "1_0.5"),
        (D, 10**400),
        (D, False),
        (S, 7),
        (LIST, 7),
        (LIST, ["a", 7]),
        (LIST, {"a": 1}),
        (S, None),
    ],
)
def test_value_of_another_type_is_refused(type, given):
    with pytest.raises(InvalidConfiguration, match=r"^a\.b = "):
        Property("a.b", type, None, "").parse(given)


def test_no_value_is_fine_where_it_may_be_absent():
    assert Property("log.roll.ms", L, None, "", nullable=True).parse(None) is None


@pytest.mark.parametrize("given", [1, 9, -1])
def test_bounds_belong_to_the_range_and_an_extra_value_may_lie_outside(given):
    assert Property("compression.gzip.level", I, -1, "", low=1, high=9, also=(-1,)).parse(given) == given


@pytest.mark.parametrize(
    ("prop", "given", "sentence"),
    [
        (
            Property("segment.bytes", I, 0, "", low=14),
            "abc",
            "segment.bytes = 'abc' is not allowed: give a whole number from 14 to 2147483647.",
        ),
        (
            Property("compression.gzip.level", I, -1, "", low=1, high=9, also=(-1,)),
            0,
            "compression.gzip.level = 0 is not allowed: give a whole number from 1 to 9, or -1.",
        ),
        (
            Property("min.cleanable.dirty.ratio", D, 0.5, "", low=0, high=1),
            "1.5",
            "min.cleanable.dirty.ratio = '1.5' is not allowed: give a number from 0 to 1.",
        ),
        (Property("preallocate", B, False, ""), "on", "preallocate = 'on' is not allowed: give true or false."),
        (
            Property("cleanup.policy", LIST, (), "", choices=("compact", "delete")),
            "keep",
            "cleanup.policy = 'keep' is not allowed: give any of compact, delete.",
        ),
        (
            Property("message.timestamp.type", S, "", "", choices=("CreateTime", "LogAppendTime")),
            "createtime",
            "message.timestamp.type = 'createtime' is not allowed: give one of CreateTime, LogAppendTime.",
        ),
        (
            Property("throttled", LIST, (), "", pattern=r"[0-9]+:[0-9]+", pattern_doc="partition:broker pairs"),
            "0:1,2",
            "throttled = '0:1,2' is not allowed: give partition:broker pairs.",
        ),
    ],
)
def test_refusal_is_a_sentence_with_the_name_the_value_and_what_is_allowed(prop, given, sentence):
    with pytest.raises(InvalidConfiguration) as refused:
        prop.parse(given)
    assert str(refused.value) == sentence
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [(B, True, "true"), (L, -1, "-1"), (D, 0.5, "0.5"), (LIST, ("compact", "delete"), "compact,delete"), (L, None, "")],
)
def test_value_is_written_as_in_a_properties_file(type, value, text):
    assert Property("a.b", type, None, "").format(value) == text

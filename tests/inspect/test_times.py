"""Times as people write them: the articles' 1526384718288 is 2018-05-15T11:45:18.288Z."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument
from milepost.inspect.times import format_time, parse_time


@pytest.mark.parametrize(
    ("text", "ms", "unit"),
    [
        ("1526384718288", 1526384718288, "epoch milliseconds"),
        (" 1526384718288 ", 1526384718288, "epoch milliseconds"),
        ("100000000000", 100000000000, "epoch milliseconds"),
        ("9223372036854775807", 9223372036854775807, "epoch milliseconds"),
        ("1526384718", 1526384718000, "epoch seconds"),
        ("99999999999", 99999999999000, "epoch seconds"),
        ("0", 0, "epoch seconds"),
        ("1526384718.288", 1526384718288, "epoch seconds"),
        ("1526384718.2", 1526384718200, "epoch seconds"),
        ("1526384718.28899", 1526384718288, "epoch seconds"),
        ("5000ms", 5000, "epoch milliseconds"),
        ("5000 ms", 5000, "epoch milliseconds"),
        ("5000s", 5000000, "epoch seconds"),
        ("1526384718288ms", 1526384718288, "epoch milliseconds"),
        ("2018-05-15T11:45:18.288Z", 1526384718288, "ISO 8601"),
        ("2018-05-15t11:45:18,288z", 1526384718288, "ISO 8601"),
        ("2018-05-15T13:45:18.288+02:00", 1526384718288, "ISO 8601"),
        ("2018-05-15T13:45:18.288+0200", 1526384718288, "ISO 8601"),
        ("2018-05-15T17:15:18.288+05:30", 1526384718288, "ISO 8601"),
        ("2018-05-15T08:45:18.288-03", 1526384718288, "ISO 8601"),
        ("2018-05-15T11:45:18.288999Z", 1526384718288, "ISO 8601"),
        ("2018-05-15T11:45:18", 1526384718000, "ISO 8601 without a zone, taken as UTC"),
        ("2018-05-15 11:45", 1526384700000, "ISO 8601 without a zone, taken as UTC"),
        ("2018-05-15", 1526342400000, "ISO 8601 without a zone, taken as UTC"),
        ("1970-01-01T00:00Z", 0, "ISO 8601"),
        ("9999-12-31T23:59:59.999Z", 253402300799999, "ISO 8601"),
    ],
)
def test_time_is_read_and_its_unit_is_said(text, ms, unit):
    assert parse_time(text) == (ms, unit)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "none of 1526384718288"),
        ("yesterday", "none of 1526384718288"),
        ("1e9", "none of"),
        ("1_000", "none of"),
        ("١٥٢٦", "none of"),
        ("2018-05-15T", "none of"),
        ("2018-05-15Z", "none of"),
        ("2018-13-01", "no date: month must be in 1..12"),
        ("2018-02-30T00:00Z", "no date: day"),
        ("2018-05-15T25:00", "no date: hour"),
        ("-1", "before 1970"),
        ("-1526384718288ms", "before 1970"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("1970-01-01T00:00+01:00", "before 1970"),
        ("9223372036854775808", "64 bits"),
        ("9223372036854776s", "64 bits"),
        ("9" * 5000, "none of"),
    ],
)
def test_text_that_is_no_time_is_refused_with_the_reason(text, reason):
    with pytest.raises(InvalidArgument, match=reason):
        parse_time(text)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1526384718288, "2018-05-15T11:45:18.288Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (253402300799999, "9999-12-31T23:59:59.999Z"),
        (253402300800000, "after the year 9999"),
        (9223372036854775807, "after the year 9999"),
        (-1, "no timestamp"),
        (-1000, "-1000 ms, before 1970"),
    ],
)
def test_time_is_shown_as_iso_8601(ms, text):
    assert format_time(ms) == text

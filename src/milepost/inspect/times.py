"""Times as people write them, read as Kafka keeps them: milliseconds since 1970 in UTC.

    written as                      understood as
    1526384718288                   epoch milliseconds: a whole number from 100,000,000,000 on (as seconds: the year 5138)
    1526384718                      epoch seconds: a whole number below that (as milliseconds: before March 1973)
    1526384718.288                  epoch seconds: a number with a point
    5000ms, 5000s                   the unit that is written
    2018-05-15T11:45:18.288Z        ISO 8601; also +02:00 for Z, a space for T, without fraction, seconds or time of day
    2018-05-15 11:45                ISO 8601 without a zone: taken as UTC, and the answer says so

The reading is a guess for bare numbers, so every answer carries the unit it understood and whoever shows a time shows that too.
Digits below a millisecond are cut off. Times before 1970 are refused: Kafka's negative "timestamps" are questions (-1 latest,
-2 earliest, -3 largest timestamp), not times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from milepost.errors import InvalidArgument

FIRST_MILLISECONDS = 100_000_000_000
MAX_TIME = 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

MILLISECONDS_UNIT = "epoch milliseconds"
SECONDS_UNIT = "epoch seconds"
ISO_UNIT = "ISO 8601"
ISO_UNIT_NO_ZONE = "ISO 8601 without a zone, taken as UTC"

_NUMBER = re.compile(r"(\d{1,19})(?:\.(\d{1,30}))?\s*(ms|s)?", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,30}))?)?\s*(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)


class Time(NamedTuple):
    """Milliseconds since the epoch, and in which unit they were written."""

    ms: int
    unit: str


def parse_time(text: str) -> Time:
    """The time that `text` means; InvalidArgument with the accepted forms when it means none."""
    text = text.strip()
    if number := _NUMBER.fullmatch(text):
        return _from_number(text, *number.groups())
    if iso := _ISO.fullmatch(text):
        return _from_iso(text, iso)
    if re.fullmatch(r"-\d+(\.\d+)?\s*(ms|s)?", text, re.ASCII):
        raise InvalidArgument(f"time {text!r} lies before 1970: give a time that a record can have")
    raise InvalidArgument(
        f"time {shortened(text)!r} is none of 1526384718288 (epoch milliseconds), 1526384718 (epoch seconds) "
        "and 2018-05-15T11:45:18.288Z (ISO 8601)"
    )


def _from_number(text: str, whole: str, fraction: str | None, unit: str | None) -> Time:
    number = int(whole)
    if unit is None:
        unit = "s" if fraction is not None or number < FIRST_MILLISECONDS else "ms"
    ms = number if unit == "ms" else number * 1000 + _milliseconds(fraction)
    if ms > MAX_TIME:
        raise InvalidArgument(f"time {text!r} is {ms} ms; a timestamp has 64 bits and ends at {MAX_TIME}")
    return Time(ms, MILLISECONDS_UNIT if unit == "ms" else SECONDS_UNIT)


def _from_iso(text: str, match: re.Match[str]) -> Time:
    year, month, day, hour, minute, second, fraction, utc, sign, zone_hours, zone_minutes = match.groups()
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=zone)
    except ValueError as error:
        raise InvalidArgument(f"time {text!r} looks like ISO 8601 but is no date: {error}") from None
    ms = (moment - EPOCH) // MILLISECOND + _milliseconds(fraction)
    if ms < 0:
        raise InvalidArgument(f"time {text!r} lies before 1970: give a time that a record can have")
    return Time(ms, ISO_UNIT if utc or sign else ISO_UNIT_NO_ZONE)


def shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _milliseconds(fraction: str | None) -> int:
    """The first three digits behind the point, as a number."""
    return int((fraction or "").ljust(3, "0")[:3])


def format_time(ms: int) -> str:
    """ISO 8601 in UTC with milliseconds. What no calendar holds is said in words."""
    if ms < 0:
        return "no timestamp" if ms == -1 else f"{ms} ms, before 1970"
    try:
        moment = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return "after the year 9999"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"

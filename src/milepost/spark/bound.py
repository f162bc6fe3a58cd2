"""Where a read starts or ends, as the options say it: before any log was looked at.

    kind        from the option                               meaning for each partition
    earliest    startingOffsets=earliest                      the first offset there is
    latest      startingOffsets=latest, endingOffsets=latest  behind the last offset there is
    offsets     …Offsets={"t":{"0":23}}                       that offset; -2 is earliest, -1 latest
    timestamp   …Timestamp=1526384718283                      the first record that is not older; also 2018-05-15T11:45:18Z
    timestamps  …OffsetsByTimestamp={"t":{"0":1526…}}         the same, a time per partition
    back        startingOffsets=-10m                          the first record not older than so long before the query began
    last        startingOffsets=last 100                      that many offsets before the end

A global timestamp wins over timestamps per partition, and those over offsets, whatever else is given: the connector's order.
`back` and `last` are ours; where nothing is new enough for `back`, the read starts at the end.

A time is read as `milepost explain` reads one (`inspect/times`): a number of ten or eleven digits is seconds, which the connector would
take for milliseconds of January 1970. Smaller ones are milliseconds as there. Where that is a guess, a warning says what was understood.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from milepost.errors import InvalidArgument
from milepost.inspect.times import FIRST_MILLISECONDS, ISO_UNIT, MILLISECONDS_UNIT, Time, format_time, parse_time
from milepost.spark.option_values import duration_ms, partition_numbers, partition_times
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.spark")

EARLIEST, LATEST, OFFSETS, TIMESTAMP, TIMESTAMPS, BACK, LAST = (
    "earliest", "latest", "offsets", "timestamp", "timestamps", "back", "last",
)  # fmt: skip
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
FIRST_SECONDS = 1_000_000_000
"""A bare number below it, as seconds before September 2001, is milliseconds."""
_BACK = re.compile(r"-(\d+\s*[a-z]+)")
_LAST = re.compile(r"last\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Bound:
    kind: str
    number: int = 0
    """Milliseconds since the epoch (timestamp), milliseconds (back), or offsets (last)."""
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    option: str = ""
    """The option it comes from, for errors."""


def starting(options: Mapping[str, str], *, streaming: bool) -> Bound:
    timed = _timed(options, "starting")
    if timed is not None:
        return timed
    name = "startingOffsets"
    text = options.get(name, LATEST if streaming else EARLIEST).strip()
    lower = text.lower()
    if lower == EARLIEST:
        return Bound(EARLIEST, option=name)
    if lower == LATEST:
        if not streaming:
            raise InvalidArgument("startingOffsets is latest, where a batch query would find nothing; earliest is the default")
        return Bound(LATEST, option=name)
    if found := _BACK.fullmatch(lower):
        return Bound(BACK, duration_ms(found[1], name), option=name)
    if found := _LAST.fullmatch(lower):
        return Bound(LAST, int(found[1]), option=name)
    if not text.startswith("{"):
        raise InvalidArgument(
            f'startingOffsets is {text!r}; earliest, latest, a time back such as -10m, "last 100" or JSON by topic is expected'
        )
    return _offsets(text, name, None if streaming else LATEST_OFFSET)


def ending(options: Mapping[str, str]) -> Bound:
    timed = _timed(options, "ending")
    if timed is not None:
        return timed
    name = "endingOffsets"
    text = options.get(name, LATEST).strip()
    if text.lower() == LATEST:
        return Bound(LATEST, option=name)
    if text.lower() == EARLIEST:
        raise InvalidArgument("endingOffsets is earliest, where a query would find nothing; latest is the default")
    if not text.startswith("{"):
        raise InvalidArgument(f"endingOffsets is {text!r}; latest or JSON by topic is expected")
    return _offsets(text, name, EARLIEST_OFFSET)


def _timed(options: Mapping[str, str], prefix: str) -> Bound | None:
    name = f"{prefix}Timestamp"
    if name in options:
        return Bound(TIMESTAMP, _time(options[name], name), option=name)
    name = f"{prefix}OffsetsByTimestamp"
    if name in options:
        return Bound(TIMESTAMPS, by_partition=_times(partition_times(options[name], name), name), option=name)
    return None


def _times(given: Mapping[TopicPartition, str], name: str) -> dict[TopicPartition, int]:
    known = {text: _time(text, name) for text in sorted(set(given.values()))}
    return {partition: known[text] for partition, text in given.items()}


def _time(text: str, name: str) -> int:
    """Epoch milliseconds; says which unit was understood where that is a guess."""
    text = text.strip()
    is_number = text.isascii() and text.isdecimal()
    try:
        time = Time(int(text), MILLISECONDS_UNIT) if is_number and int(text) < FIRST_SECONDS else parse_time(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from None
    if time.unit != ISO_UNIT and time.ms != 0 and not (is_number and int(text) >= FIRST_MILLISECONDS):
        logger.warning("%s is %s, read as %s: %s", name, text, time.unit, format_time(time.ms))
    return time.ms


def _offsets(text: str, name: str, illegal: int | None) -> Bound:
    offsets = partition_numbers(text, name)
    for partition, offset in offsets.items():
        if offset == illegal:
            word = LATEST if illegal == LATEST_OFFSET else EARLIEST
            raise InvalidArgument(f"{name}: {partition} has {offset}, which is {word}; a batch query would find nothing there")
        if offset < EARLIEST_OFFSET:
            raise InvalidArgument(f"{name}: {partition} has {offset}; offsets count from 0, -2 is earliest and -1 latest")
    return Bound(OFFSETS, by_partition=offsets, option=name)

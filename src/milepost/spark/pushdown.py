"""What a WHERE clause allows to leave out, read from the filters that Spark hands to a source.

    filter on   leaves out
    topic       other topics             (=, IN)
    partition   other partitions         (=, IN)
    offset      offsets outside          (=, IN, <, <=, >, >=)
    timestamp   everything before the first record that is new enough (>, >=, =); everything from the first record that is too new on
                (<, <=, =) only when timestampsOrdered promises that times rise along the log

Spark applies every filter again, so this can only save reading. It is off unless option `pushdown` is true, because PySpark 4.3 keeps what
was pushed down on the loaded DataFrame: one that is used twice (a union with itself, a count after a filter) gives the rows
of the last filter everywhere, without a word. Use it on a DataFrame that is used once. Without it, bounds are given as
options, which have no such trap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from milepost.spark.offset_range import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pruning:
    """What may be left out; ends are exclusive, times are epoch milliseconds."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = MAX
    time: int | None = None
    end_time: int | None = None

    def wants(self, offsets: OffsetRange) -> bool:
        topic_is_wanted = self.topics is None or offsets.partition.topic in self.topics
        return topic_is_wanted and (self.partitions is None or offsets.partition.partition in self.partitions)

    def within(self, offsets: OffsetRange) -> OffsetRange:
        start = min(max(offsets.start, self.start), offsets.end)
        return OffsetRange(offsets.partition, start, max(start, min(offsets.end, self.end)))


def pruning_of(filters: Iterable[Filter]) -> Pruning:
    """The filters hold all at once; what is not understood leaves nothing out."""
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start, end, time, end_time = 0, MAX, -MAX, MAX
    for each in filters:
        kind = type(each).__name__
        column, value = getattr(each, "attribute", None), getattr(each, "value", None)
        if value is None:
            continue
        low, high = _bounds(kind, value)
        if column == ("topic",) and kind in ("EqualTo", "EqualNullSafe", "In"):
            topics = _both(topics, _values(value))
        elif column == ("partition",) and kind in ("EqualTo", "EqualNullSafe", "In"):
            partitions = _both(partitions, _values(value))
        elif column == ("offset",) and low is not None:
            start = max(start, low)
        if column == ("offset",) and high is not None:
            end = min(end, high)
        if column == ("timestamp",) and kind != "In":
            earliest, latest = _times(kind, value)
            time, end_time = max(time, earliest), min(end_time, latest)
    return Pruning(topics, partitions, start, end, None if time == -MAX else time, None if end_time == MAX else end_time)


def _values(value: Any) -> frozenset[Any]:
    return frozenset(value) if isinstance(value, list | tuple) else frozenset([value])


def _both(known: frozenset[Any] | None, more: frozenset[Any]) -> frozenset[Any]:
    return more if known is None else known & more


def _bounds(kind: str, value: Any) -> tuple[int | None, int | None]:
    """The first value that passes, and the one behind the last."""
    if kind == "In" and isinstance(value, list | tuple) and value and all(isinstance(each, int) for each in value):
        return min(value), max(value) + 1
    if not isinstance(value, int):
        return None, None
    bounds = {
        "EqualTo": (value, value + 1),
        "EqualNullSafe": (value, value + 1),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "LessThan": (None, value),
        "LessThanOrEqual": (None, value + 1),
    }
    return bounds.get(kind, (None, None))


def _times(kind: str, value: Any) -> tuple[int, int]:
    """Milliseconds: no record before the first passes, and none from the second on."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return -MAX, MAX
    # A record's time is whole milliseconds, the filter's may lie between two.
    floor = (value - EPOCH) // MILLISECOND
    ceiling = -((EPOCH - value) // MILLISECOND)
    bounds = {
        "EqualTo": (ceiling, floor + 1),
        "EqualNullSafe": (ceiling, floor + 1),
        "GreaterThan": (floor + 1, MAX),
        "GreaterThanOrEqual": (ceiling, MAX),
        "LessThan": (-MAX, ceiling),
        "LessThanOrEqual": (-MAX, floor + 1),
    }
    return bounds.get(kind, (-MAX, MAX))

"""Records by the hour of their timestamp, in Arrow: for figures per hour, and for directories per date and hour.

An hour is its number since 1970 in UTC; None is for records without a timestamp. Time zones are not asked for: containers often have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MICROSECONDS = 3_600_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def hour_numbers(timestamps: pa.Array) -> pa.Array:
    """Of timestamps in microseconds; null where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    moments = timestamps.view(pa.int64())
    # Arrow divides towards zero; hours before 1970 are rounded down, too.
    lowest = pc.min(moments).as_py()
    if lowest is not None and lowest < 0:
        moments = pc.if_else(pc.less(moments, 0), pc.subtract(moments, MICROSECONDS - 1), moments)
    return pc.divide(moments, MICROSECONDS)


def by_hour(batch: pa.RecordBatch, timestamps: pa.Array) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """The rows of each hour, in their order. A batch that lies within one hour comes as it is."""
    import pyarrow.compute as pc

    hours = hour_numbers(timestamps)
    bounds = pc.min_max(hours).as_py()
    if bounds["min"] == bounds["max"] and hours.null_count in (0, len(hours)):
        yield bounds["min"], batch
        return
    for hour in sorted((hour for hour in pc.unique(hours).to_pylist()), key=lambda hour: (hour is None, hour)):
        yield hour, batch.filter(pc.is_null(hours) if hour is None else pc.equal(hours, hour))


def start_of(hour: int) -> datetime | None:
    """None for hours that no calendar has."""
    try:
        return EPOCH + timedelta(hours=hour)
    except OverflowError:
        return None

"""A DataFrame in one call, and always a fresh one.

    read(spark, "data", "page_visits", columns=("value", "offset"), time=(1526384718283, None))

What is pruned is pruned through options: fewer columns by a schema, fewer bytes by offsets and times. Each call loads anew, so it sees
what was appended meanwhile, and two DataFrames over one log never share a plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from milepost.errors import InvalidArgument
from milepost.spark.columns import COLUMNS, RECORDS, Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    path: str | Sequence[str],
    topic: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    time: tuple[int | None, int | None] | None = None,
    view: str = RECORDS,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """The log below `path`, of one topic (or several, separated by commas) or of all.

    `time` is (from, to) in epoch milliseconds, of which either may be None; `columns` are those that are read at all; `options` are
    those of the format.
    """
    reader = spark.read.format("milepost").option("path", path if isinstance(path, str) else json.dumps(list(path)))
    if topic is not None:
        reader = reader.option("subscribe", topic)
    start, end = time or (None, None)
    if start is not None:
        reader = reader.option("startingTimestamp", start)
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    if end is not None:
        reader = reader.option("endingTimestamp", end)
    for name, value in {"view": view, **(options or {})}.items():
        reader = reader.option(name, str(value).lower() if isinstance(value, bool) else str(value))
    if columns is not None:
        known = COLUMNS.get(view, {})
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise InvalidArgument(f"columns {', '.join(unknown)}: the view {view} has {', '.join(known)}")
        reader = reader.schema(Columns(view, tuple(columns)).ddl())
    return reader.load()

"""Which part of a log a job reads, said in the words of the source's options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from milepost.spark.options import SourceOptions


def log_options(
    paths: str | Sequence[str] | None,
    topics: str | None = None,
    *,
    time: tuple[int | None, int | None] = (None, None),
    offsets: tuple[str | None, str | None] = (None, None),
    more: Mapping[str, str] | None = None,
    bootstrap_servers: str | None = None,
) -> SourceOptions:
    """Options of a batch read, over files or from brokers.

    `time` is in epoch milliseconds, `offsets` are written as startingOffsets and endingOffsets take them.
    """
    given = {}
    if paths is not None:
        given["path"] = paths if isinstance(paths, str) else json.dumps(list(paths))
    if bootstrap_servers is not None:
        given["kafka.bootstrap.servers"] = bootstrap_servers
    if topics is not None:
        given["subscribe"] = topics
    named = {"startingTimestamp": time[0], "endingTimestamp": time[1], "startingOffsets": offsets[0], "endingOffsets": offsets[1]}
    given |= {name: str(value) for name, value in named.items() if value is not None}
    if time[0] is not None:
        given["startingOffsetsByTimestampStrategy"] = "latest"
    return SourceOptions.parse({**given, **(more or {})}, streaming=False)

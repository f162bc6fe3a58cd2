"""The public names of `milepost.spark`, each with the module that has it."""

from __future__ import annotations

import sys
from importlib import import_module

PUBLIC = {
    "MilepostDataSource": "milepost.spark.source",
    "backfill": "milepost.spark.jobs.backfill",
    "compact": "milepost.spark.jobs.compact",
    "export": "milepost.spark.jobs.export",
    "load": "milepost.spark.jobs.load",
    "read": "milepost.spark.frames",
    "reindex": "milepost.spark.jobs.reindex",
    "session": "milepost.spark.spark_session",
    "stats": "milepost.spark.jobs.stats",
    "verify": "milepost.spark.jobs.verify",
}


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module 'milepost.spark' has no attribute {name!r}; its public names are {', '.join(PUBLIC)}")
    value: object = getattr(import_module(PUBLIC[name]), name)
    # Else a module of that name, now that it is imported, would be found in its place.
    setattr(sys.modules["milepost.spark"], name, value)
    return value


def __dir__() -> list[str]:
    return sorted(PUBLIC)

"""The public names of `milepost.spark`, each with the module that has it."""

from __future__ import annotations

from importlib import import_module

PUBLIC = {
    "MilepostDataSource": "milepost.spark.source",
    "read": "milepost.spark.frames",
    "session": "milepost.spark.session",
}


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module 'milepost.spark' has no attribute {name!r}; its public names are {', '.join(PUBLIC)}")
    value: object = getattr(import_module(PUBLIC[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(PUBLIC)

"""The Kafka log in Python: byte-compatible segments and sparse indexes to embed, serve, explain, verify and repair.

A sparse index is mileposts: go to the last one not past you, then walk.

    with milepost.open_log("data/page_visits-0", mode="a") as log:
        log.append([milepost.Record(offset=0, timestamp=1526384718283, key=b"user", value=b"GET /home")])
        found = log.find(offset=0, trace=True)

    with milepost.Broker() as broker:
        print(broker.bootstrap_servers)

The names below are looked up when they are first used, so `import milepost` costs next to nothing and a program
that only reads a configuration never loads the log.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from milepost._version import __version__ as __version__

if TYPE_CHECKING:
    from milepost import errors as errors
    from milepost.broker.embedded import EmbeddedBroker
    from milepost.codec.compression import Codec as Codec
    from milepost.config import BrokerConfig as BrokerConfig
    from milepost.config import LogConfig as LogConfig
    from milepost.errors import MilepostError as MilepostError
    from milepost.log.log import Log as Log
    from milepost.log.open import open_log as open_log
    from milepost.record.batch import RecordBatch as RecordBatch
    from milepost.record.batch import TimestampType as TimestampType
    from milepost.record.builder import build_batch as build_batch
    from milepost.record.records import Record as Record

    Broker = EmbeddedBroker

# Public name → module that has it; a module with no colon is itself the value.
PUBLIC = {
    "Broker": "milepost.broker.embedded:EmbeddedBroker",
    "BrokerConfig": "milepost.config:BrokerConfig",
    "Codec": "milepost.codec.compression:Codec",
    "Log": "milepost.log.log:Log",
    "LogConfig": "milepost.config:LogConfig",
    "MilepostError": "milepost.errors:MilepostError",
    "Record": "milepost.record.records:Record",
    "RecordBatch": "milepost.record.batch:RecordBatch",
    "TimestampType": "milepost.record.batch:TimestampType",
    "build_batch": "milepost.record.builder:build_batch",
    "errors": "milepost.errors",
    "open_log": "milepost.log.open:open_log",
}

if os.environ.get("MILEPOST_PURE") == "1":
    from milepost._build import prefer_source

    prefer_source()


def __getattr__(name: str) -> object:
    if name not in PUBLIC:
        raise AttributeError(f"module 'milepost' has no attribute {name!r}; its public names are {', '.join(PUBLIC)}")
    module, _, attribute = PUBLIC[name].partition(":")
    value: object = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})

"""The levels of this program's loggers, as settings of resource type 8 (KIP-412): for the moment, not stored.

A logger is named as in Python (`milepost.broker`), `root` for the one above all. Kafka's levels and Python's:

    FATAL  ERROR  WARN  INFO  DEBUG  TRACE
    50     40     30    20    10     5

A logger without a level of its own has that of the nearest above it. Taking a level away goes back to that.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from milepost.broker.configs.config_entries import ConfigEntry, ConfigSource
from milepost.errors import InvalidConfiguration, InvalidRequest

if TYPE_CHECKING:
    from milepost.broker.parts import Parts

LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}
ROOT = "root"
OURS = "milepost"
NO_TYPE = 0


class LoggerSettings:
    def __init__(self, broker: Parts, name: str):
        if name != str(broker.node_id):
            raise InvalidRequest(f"loggers of broker {name[:60]!r}: this is broker {broker.node_id}")

    def entries(self) -> list[ConfigEntry]:
        return [
            ConfigEntry(name, level_name(logger.getEffectiveLevel()), ConfigSource.LOGGER, False, NO_TYPE, "", ())
            for name, logger in sorted(known_loggers().items())
        ]

    def change(self, levels: dict[str, str | None], validate_only: bool) -> None:
        """Give loggers levels, or take them away (None); all of them or none."""
        loggers = known_loggers()
        for name, level in levels.items():
            if name not in loggers:
                raise InvalidConfiguration(f"there is no logger {name[:60]!r} here: {', '.join(sorted(loggers))}")
            if level is None and name == ROOT:
                raise InvalidRequest("the root logger has none above it: it needs a level")
            if level is not None and level not in LEVELS:
                raise InvalidConfiguration(f"{name}: {level[:60]!r} is no level: {', '.join(LEVELS)}")
        for name, level in levels.items() if not validate_only else ():
            loggers[name].setLevel(logging.NOTSET if level is None else LEVELS[level])


def known_loggers() -> dict[str, logging.Logger]:
    """This program's, as far as it is loaded by now."""
    names = (name for name in logging.root.manager.loggerDict if name == OURS or name.startswith(f"{OURS}."))
    return {ROOT: logging.root, **{name: logging.getLogger(name) for name in names}}


def level_name(level: int) -> str:
    """Kafka's name for a level, or for the next one that lets no less through."""
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")

"""Znodes that say nothing we understand. Whoever reads one keeps what was last good; it is counted for the metrics, and the log shows it.

A znode without content is not one of them: it was made and not written yet.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

logger = logging.getLogger("milepost.cluster")

P = ParamSpec("P")
T = TypeVar("T")
SHOWN = 80


class Unreadable:
    count = 0
    """How many this process has read."""


def counted(parse: Callable[Concatenate[bytes, P], T | None]) -> Callable[Concatenate[bytes, P], T | None]:
    """For functions that give None for what they do not understand."""

    @functools.wraps(parse)
    def parsed(data: bytes, /, *arguments: P.args, **options: P.kwargs) -> T | None:
        found = parse(data, *arguments, **options)
        if found is None and data:
            Unreadable.count += 1
            logger.warning("a znode is ignored: %s does not understand %r", parse.__name__, data[:SHOWN])
        return found

    return parsed

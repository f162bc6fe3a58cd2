"""Znodes that cannot be parsed. Their reader keeps the last good value; they are counted for the metrics, and logged.

A znode without content is not one of them: it was made and not written yet.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

logger = logging.getLogger("milepost.cluster")

P = ParamSpec("P")
T = TypeVar("T")
SHOWN = 80


class Unreadable:
    count = 0
    """How many this process has read."""


def understood(parse: Callable[Concatenate[dict[str, Any], P], T | None]) -> Callable[Concatenate[bytes, P], T | None]:
    """Makes a function of a znode's bytes of one of its JSON object. It gives None where there is no object, or not the expected one."""

    @functools.wraps(parse)
    def parsed(data: bytes, /, *arguments: P.args, **options: P.kwargs) -> T | None:
        found = None
        try:
            content = json.loads(data)
            found = parse(content, *arguments, **options) if isinstance(content, dict) else None
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            pass  # not what was expected
        if found is None and data:
            Unreadable.count += 1
            logger.warning("a znode is ignored: %s cannot parse %r", parse.__name__, data[:SHOWN])
        return found

    return parsed

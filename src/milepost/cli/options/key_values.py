"""Options of the form KEY=VALUE that may be given several times."""

from __future__ import annotations

from collections.abc import Sequence

import click


def pairs(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> list[tuple[str, str]]:
    """A callback: the pairs in their order, keys may repeat. The value may be empty and may hold further equals signs."""
    found = []
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is no KEY=VALUE")
        found.append((key, value))
    return found

"""`-X key=value`: any topic property by Kafka's name, as often as wanted. The last one counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _split(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is no key=value, such as index.interval.bytes=4096")
        settings[name.strip()] = value.strip()
    return settings


def topic_properties(command: F) -> F:
    """The option `-X`; the command gets the properties as a dictionary named `settings`."""
    option = click.option(
        "-X", "settings", multiple=True, metavar="KEY=VALUE", callback=_split, help="A topic property by Kafka's name."
    )
    return option(command)

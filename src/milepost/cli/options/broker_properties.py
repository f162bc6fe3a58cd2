"""`-X key=value`: any broker property by Kafka's name, as often as wanted. The last one counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from milepost.cli.options.key_values import pairs

F = TypeVar("F", bound=Callable[..., Any])


def _as_dictionary(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    return {name.strip(): value for name, value in pairs(context, parameter, given)}


def broker_properties(command: F) -> F:
    """The option; the command gets the properties as a dictionary of that name."""
    option = click.option(
        "-X", "properties", multiple=True, metavar="KEY=VALUE", callback=_as_dictionary, help="A broker property by Kafka's name."
    )
    return option(command)

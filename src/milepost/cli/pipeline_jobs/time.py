"""Options that choose a slice of a log by time or by offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def milliseconds(context: click.Context, parameter: click.Parameter, given: str | None) -> int | None:
    from milepost.inspect.times import parse_time

    return None if given is None else parse_time(given).ms


def time_options(command: F) -> F:
    """--time-from and --time-to; the command gets them in milliseconds."""
    for name, text in (("--time-to", "Only records before this time."), ("--time-from", "Only records from this time on.")):
        command = click.option(name, metavar="TIME", callback=milliseconds, help=text)(command)
    return command

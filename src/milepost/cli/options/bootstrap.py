"""`--bootstrap-server HOST:PORT`: which cluster a command talks to. A broker that is not there ends the program with exit code 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "127.0.0.1:9092"


def bootstrap_server(command: F) -> F:
    """The option; the command gets its text as `bootstrap`."""
    option = click.option(
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT",
        default=DEFAULT,
        help=f"A broker, or several with commas between them. Default: {DEFAULT}",
    )
    return option(command)


def connect(bootstrap: str) -> Cluster:
    # Here and not at the top: `--help` needs no client.
    from milepost.client.cluster import Cluster

    return Cluster(bootstrap)

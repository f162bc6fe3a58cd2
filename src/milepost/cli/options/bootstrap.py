"""`--bootstrap-server HOST:PORT` and `--client-config FILE`: which cluster a command talks to, and how it connects to one that is secured.

The file holds Kafka's properties of clients (`client/security`); a password on the command line could be read by everybody on the machine.
A broker that is not there, or does not let the user in, ends the program with exit code 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "127.0.0.1:9092"
CLIENT_CONFIG = "milepost.client_config"


def bootstrap_server(command: F) -> F:
    """The options; the command gets the text of the first as `bootstrap`."""
    option = click.option(
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT",
        default=DEFAULT,
        help=f"A broker, or several with commas between them. Default: {DEFAULT}",
    )
    security = click.option(
        "--client-config",
        metavar="FILE",
        expose_value=False,
        callback=remember,
        help="Properties of the client for a secured cluster: security.protocol, sasl.*, ssl.*",
    )
    return option(security(command))


def remember(context: click.Context, parameter: click.Parameter, file: str | None) -> None:
    context.meta[CLIENT_CONFIG] = file


def connect(bootstrap: str) -> Cluster:
    # Here and not at the top: `--help` needs no client.
    from milepost.client.cluster import Cluster

    file = click.get_current_context().meta.get(CLIENT_CONFIG)
    if file is None:
        return Cluster(bootstrap)
    from milepost.client.security import client_security
    from milepost.config.properties_file import parse_properties
    from milepost.files import Disk, read_file

    entries = parse_properties(read_file(Disk(), file).decode("utf-8", "replace"), file).values()
    return Cluster(bootstrap, security=client_security({entry.name: entry.value for entry in entries}))

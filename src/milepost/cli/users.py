"""`milepost users create|list|delete`: who may log in by SCRAM, and with which password.

A password is asked for, or is the first line of the standard input; on the command line everybody on the machine could read it. With
`--data` the users are those of a broker that does not run: the first one, when there is no other way in yet.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.terminal.columns import write_columns
from milepost.cli.terminal.output import line_writer
from milepost.codec.text import shown
from milepost.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.group(name="users", short_help="Create, list and delete users who log in by SCRAM.")
def command() -> None:
    """Users who log in by SCRAM: of ours, or of any Kafka from 2.7 on."""


@command.command(name="create")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS),
    default=MECHANISMS,
    help="For which; as often as wanted. Default: both.",
)
@click.option("--iterations", type=click.IntRange(4096, 16384), metavar="N", default=4096, help="4096 to 16384. Default: 4096")
@click.option("--data", metavar="DIR", help="The data directory of a broker that does not run, instead of one that does.")
@bootstrap_server
def create(name: str, mechanisms: Iterable[str], iterations: int, data: str | None, bootstrap: str) -> None:
    """Give the user NAME a password, or another one."""
    password = read_password()
    if data is not None:
        from milepost.broker.stored_users import store_password

        store_password(data, name, password, mechanisms, iterations)
    else:
        from milepost.client.users import set_password

        with connect(bootstrap) as cluster:
            set_password(cluster, name, password, mechanisms, iterations)
    line_writer()(f"user {shown(name)} has a password for {', '.join(mechanisms)}")


def read_password() -> str:
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise InvalidArgument("the password is empty: give it when asked, or as the first line of the standard input")
    return password


@command.command(name="list")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per user.")
def list_(bootstrap: str, as_json: bool) -> None:
    """List the users, with their mechanisms and how many iterations each has."""
    from milepost.client.users import list_users

    with connect(bootstrap) as cluster:
        users = list_users(cluster)
    write = line_writer()
    if as_json:
        for user in users:
            write(json.dumps({"name": user.name, "iterations": user.iterations}))
    elif users:
        rows = [(shown(user.name), mechanism, count) for user in users for mechanism, count in sorted(user.iterations.items())]
        write_columns(write, ("user", "mechanism", "iterations"), rows)


@command.command(name="delete")
@click.argument("name")
@bootstrap_server
def delete(name: str, bootstrap: str) -> None:
    """Take the user NAME away; connections that are logged in go on."""
    from milepost.client.users import delete_user

    with connect(bootstrap) as cluster:
        delete_user(cluster, name)
    line_writer()(f"user {shown(name)} is gone")

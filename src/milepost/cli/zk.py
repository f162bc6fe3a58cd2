"""`milepost zk tree|get|watch`: look at the znodes of a cluster. Nothing is written.

Which ZooKeeper: `--zookeeper HOST:PORT[/PATH]`, or the one of the cluster that `milepost cluster start` started in `--data`.
Content that is JSON is shown readable. Exit code 2 for a path that is not there, 4 when no ZooKeeper answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from milepost.cli.cluster import DEFAULT_DATA
from milepost.cli.terminal.output import line_writer
from milepost.cli.terminal.stopping import stop_on_signals
from milepost.codec.text import shown

if TYPE_CHECKING:
    from milepost.cluster.zookeeper.reader import Znode, ZooKeeperReader

F = TypeVar("F", bound=Callable[..., Any])

WIDTH = 110


def which_zookeeper(command: F) -> F:
    """The options; the command gets them as `zookeeper` and `data`."""
    named = click.option(
        "--zookeeper", metavar="HOST:PORT[/PATH]", help="Any ZooKeeper. Default: the one of the cluster in --data."
    )
    directory = click.option(
        "--data", metavar="DIR", default=DEFAULT_DATA, help=f"Where a cluster's files are. Default: ./{DEFAULT_DATA}"
    )
    return named(directory(command))


def connected(zookeeper: str | None, data: str) -> ZooKeeperReader:
    from milepost.cluster.local.cluster import LocalCluster
    from milepost.cluster.zookeeper.reader import ZooKeeperReader

    return ZooKeeperReader(zookeeper or LocalCluster.found(data).zookeeper)


@click.group(name="zk", short_help="Look at the znodes of a cluster: tree, get, watch.")
def command() -> None:
    """The znodes of a cluster: what brokers and controller write down."""


@command.command(name="tree")
@click.argument("path", default="/", metavar="[PATH]")
@which_zookeeper
@click.option("--json", "as_json", is_flag=True, help="One JSON object per znode.")
def tree(path: str, zookeeper: str | None, data: str, as_json: bool) -> None:
    """A znode and all below it, with their contents in one line each."""
    write = line_writer()
    with connected(zookeeper, data) as reader:
        top = path.rstrip("/") or "/"
        for node in reader.walk(top):
            write(json.dumps(as_object(node)) if as_json else branch(node, top))


@command.command(name="get")
@click.argument("path")
@which_zookeeper
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def get(path: str, zookeeper: str | None, data: str, as_json: bool) -> None:
    """One znode: its content, its version, the transaction that made it, and whose it is if it is ephemeral."""
    write = line_writer()
    with connected(zookeeper, data) as reader:
        node = reader.get(path.rstrip("/") or "/")
    if as_json:
        write(json.dumps(as_object(node)))
        return
    write(f"version {node.version}, czxid {node.czxid}{owner(node)}, children {node.children}")
    held = shown_data(node)
    content = parsed(held)
    if isinstance(content, dict | list):
        write(json.dumps(content, indent=2, ensure_ascii=False))
    elif held:
        write(shown(held.decode(errors="backslashreplace")))


@command.command(name="watch")
@click.argument("path", default="/", metavar="[PATH]")
@which_zookeeper
@click.option("--max-changes", type=click.IntRange(min=1), metavar="N", help="End after so many. Default: when interrupted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change.")
def watch(path: str, zookeeper: str | None, data: str, max_changes: int | None, as_json: bool) -> None:
    """Print every change of a znode and of all below it, from now on, until interrupted."""
    from milepost.cluster.zookeeper.changes import Changes

    with stop_on_signals() as stop, connected(zookeeper, data) as reader:
        changes = Changes(reader, path.rstrip("/") or "/", lambda: stop.is_asked)
        click.echo(f"watching {path} at {reader.connect}", err=True)
        for number, change in enumerate(changes, 1):
            fields: dict[str, object] = {"time": change.time, "change": change.kind, "path": change.path}
            fields |= {} if change.node is None else as_object(change.node)
            text = "" if change.node is None else f"  {summary(change.node)}"
            # At once, also into a pipe.
            click.echo(json.dumps(fields) if as_json else f"{change.time}  {change.kind:<7}  {change.path}{text}")
            if number == max_changes:
                break


def shown_data(node: Znode) -> bytes:
    """All but the secret of the brokers: what is printed ends in terminals and tickets."""
    from milepost.cluster.zookeeper.znodes import SECRET

    return b'{"secret":"not shown"}' if node.path.endswith(SECRET) else node.data


def parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def as_object(node: Znode) -> dict[str, object]:
    """`content` is the JSON in it if there is some; `data` always what is there."""
    return {
        "path": node.path,
        "version": node.version,
        "czxid": node.czxid,
        "ephemeral_owner": node.ephemeral_owner,
        "children": node.children,
        "content": parsed(shown_data(node)),
        "data": shown_data(node).decode(errors="backslashreplace"),
    }


def branch(node: Znode, top: str) -> str:
    """A line of the tree: indented by its depth, the name, and what is in it."""
    below = node.path.removeprefix(top if top != "/" else "").strip("/")
    depth = below.count("/") + 1 if below else 0
    name = node.path.rpartition("/")[2] if below else node.path
    return f"{'  ' * depth}{name}  {summary(node)}".rstrip()


def summary(node: Znode) -> str:
    data = shown_data(node)
    content = parsed(data)
    text = json.dumps(content, ensure_ascii=False) if isinstance(content, dict | list) else data.decode(errors="backslashreplace")
    text = shown(text)
    if len(text) > WIDTH:
        text = f"{text[: WIDTH - 1]}…"
    return f"{text}{'  (ephemeral)' if node.ephemeral_owner else ''}{f'  v{node.version}' if node.version else ''}".strip()


def owner(node: Znode) -> str:
    return f", ephemeral of session 0x{node.ephemeral_owner:x}" if node.ephemeral_owner else ""

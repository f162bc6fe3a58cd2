"""`milepost config`: settings, their values, and where each comes from.

show        what this program would run with: flags, environment, file, defaults
describe    what a topic or a broker runs with, over the wire
alter       change settings of a topic or a broker, over the wire
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.options.key_values import pairs
from milepost.cli.terminal.output import line_writer
from milepost.codec.text import shown
from milepost.config.broker import BrokerConfig
from milepost.config.definition import Value
from milepost.config.sources import Resolved, Setting, Source, from_environment, from_file, from_flags, resolve
from milepost.config.topic import LogConfig
from milepost.files import Disk, read_file

if TYPE_CHECKING:
    from milepost.client.configs import ConfigEntry, Resource

F = TypeVar("F", bound=Callable[..., Any])


@click.group(name="config", short_help="Show the settings, their values and where each comes from.")
def command() -> None:
    """Settings by Kafka's property names: a flag beats the environment, which beats the file, which beats the default."""


@command.command(name="show")
@click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="A .properties file, such as Kafka's server.properties."
)
@click.option("-X", "flags", multiple=True, metavar="KEY=VALUE", help="A property by Kafka's name; as often as wanted.")
@click.option("--topic", "is_topic", is_flag=True, help="The properties of a topic instead of the broker's.")
@click.option("--changed", is_flag=True, help="Only settings that do not have their default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per setting.")
def show(file: str | None, flags: tuple[str, ...], is_topic: bool, changed: bool, as_json: bool) -> None:
    """Show what milepost would run with, one setting a line: name, value, source.

    Properties come from --config FILE, from the environment (KAFKA_LOG_SEGMENT_BYTES is log.segment.bytes) and from -X. With --topic
    the environment is not asked: it names the broker's properties.
    """
    layers = [from_flags(flags)]
    if file is not None:
        layers.append(from_file(read_file(Disk(), file, 1 << 20).decode("utf-8", "replace"), file))
    resolved: Resolved[LogConfig] | Resolved[BrokerConfig]
    resolved = resolve(LogConfig, *layers) if is_topic else resolve(BrokerConfig, from_environment(os.environ), *layers)
    write = line_writer()
    for setting in resolved.settings:
        if not changed or setting.source is not Source.DEFAULT:
            write(as_line(setting, as_json))
    warn = line_writer(err=True)
    for warning in resolved.warnings():
        warn(f"milepost: {warning}")


def as_line(setting: Setting, as_json: bool) -> str:
    if as_json:
        value = list(setting.value) if isinstance(setting.value, tuple) else setting.value
        return json.dumps({"name": setting.name, "value": value, "source": str(setting.source), "place": setting.place})
    return f"{setting.name}={as_property(setting.value)}  ({setting.place})"


def as_property(value: Value) -> str:
    """As it is written in a .properties file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


# Over the wire.


def resource_options(command: F) -> F:
    """Whose settings: `topic`, `broker` or `all_brokers`."""
    for option in (
        click.option("--all-brokers", is_flag=True, help="What every broker takes that has no value of its own."),
        click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="The settings of this broker."),
        click.option("--topic", metavar="NAME", help="The settings of this topic."),
    ):
        command = option(command)
    return command


def resource_of(topic: str | None, broker: int | None, all_brokers: bool) -> Resource:
    from milepost.client.configs import Resource, ResourceType

    if (topic is not None) + (broker is not None) + all_brokers != 1:
        raise click.UsageError("--topic, --broker and --all-brokers: give one of them")
    if topic is not None:
        return Resource(ResourceType.TOPIC, topic)
    return Resource(ResourceType.BROKER, "" if broker is None else str(broker))


@command.command(name="describe")
@click.argument("names", metavar="[KEY…]", nargs=-1)
@resource_options
@click.option("--changed", is_flag=True, help="Only settings that do not have their default.")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per setting.")
def describe(
    names: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    changed: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """The settings of a topic or a broker as it runs, one a line: all, or those named."""
    from milepost.client.configs import describe_configs

    resource = resource_of(topic, broker, all_brokers)
    with connect(bootstrap) as cluster:
        entries = describe_configs(cluster, resource, names or None)
    write = line_writer()
    for entry in entries:
        if not (changed and entry.is_default):
            write(entry_line(entry, as_json))
    missing = [name for name in names if name not in {entry.name for entry in entries}]
    if missing:
        line_writer(err=True)(f"milepost: {resource} has no setting {', '.join(missing)}")


def entry_line(entry: ConfigEntry, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "is_read_only": entry.is_read_only,
                "is_sensitive": entry.is_sensitive,
            }
        )
    value = "(hidden)" if entry.is_sensitive else shown(entry.value or "")
    return f"{shown(entry.name)}={value}  ({entry.source.name.lower().replace('_', ' ')}{', read-only' if entry.is_read_only else ''})"


@command.command(name="alter")
@resource_options
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", callback=pairs, help="Give a setting this value; repeatable."
)
@click.option("--unset", "deletions", multiple=True, metavar="KEY", help="Take a setting's own value away; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only ask whether the broker would take it.")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def alter(
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    changes: list[tuple[str, str]],
    deletions: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change settings of a topic or a broker while it runs; the others stay as they are."""
    from milepost.client.configs import alter_configs

    resource = resource_of(topic, broker, all_brokers)
    if not changes and not deletions:
        raise click.UsageError("nothing to change: give --set KEY=VALUE or --unset KEY")
    with connect(bootstrap) as cluster:
        alter_configs(cluster, resource, dict(changes), deletions, validate_only=dry_run)
    if as_json:
        told = {"resource": str(resource), "set": dict(changes), "unset": list(deletions), "applied": not dry_run}
        line_writer()(json.dumps(told))
    else:
        line_writer()(f"{resource}: the broker would take this" if dry_run else f"{resource}: changed")

"""`milepost config show`: every setting, its value, and where it comes from."""

from __future__ import annotations

import json
import os

import click

from milepost.cli.output import line_writer
from milepost.config.broker import BrokerConfig
from milepost.config.definition import Value
from milepost.config.sources import Resolved, Setting, Source, from_environment, from_file, from_flags, resolve
from milepost.config.topic import LogConfig
from milepost.files import Disk, read_file


@click.group(name="config", short_help="Show the settings, their values and where each comes from.")
def command() -> None:
    """Settings by Kafka's property names: a flag beats the environment, which beats the file, which beats the default."""


@command.command(name="show")
@click.option("--config", "file", type=click.Path(), metavar="FILE", help="A .properties file, such as Kafka's server.properties.")
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

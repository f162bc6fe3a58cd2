"""Settings and where each came from: a flag beats the environment, which beats the file, which beats the default.

    source       spelled                                what `place` says
    default      (not at all)                           default
    file         log.segment.bytes=4096                 server.properties, line 12
    environment  KAFKA_LOG_SEGMENT_BYTES=4096           KAFKA_LOG_SEGMENT_BYTES
    flag         -X log.segment.bytes=4096              -X log.segment.bytes

A setting that does not parse raises InvalidConfiguration with its place. A name that is no property is an error
when a person typed it for this program (a flag), and comes back in `Resolved.unknown` when it may be meant for
another one: a Kafka `server.properties` holds many properties that a log has no use for, and images for containers
keep variables such as KAFKA_HEAP_OPTS. The caller names each in a warning, so nothing is ignored silently. What promises
more than is served (`unserved`) is an error wherever it stands.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from milepost.config.configuration import Configuration, nearest, unknown
from milepost.config.definition import Value
from milepost.config.properties_file import parse_properties
from milepost.config.unserved import unkept_promise
from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

C = TypeVar("C", bound=Configuration)
PREFIX = "KAFKA_"
UNDERSCORES = re.compile("_+")


class Source(enum.IntEnum):
    """In order of strength."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3

    def __str__(self) -> str:
        return self.name.lower()


@frozen_dataclass
class Setting:
    name: str
    value: Value
    source: Source
    place: str


@frozen_dataclass
class Resolved(Generic[C]):
    """A configuration, the setting behind each of its properties, and the settings that are none of its properties."""

    config: C
    settings: tuple[Setting, ...]
    unknown: tuple[Setting, ...]

    def warnings(self) -> tuple[str, ...]:
        names = self.config.names()
        return tuple(
            f"{setting.place}: {setting.name} is not a {self.config.kind} milepost knows, so it has no effect"
            + (f"; did you mean {near}?" if (near := nearest(setting.name, names)) else ".")
            for setting in self.unknown
        )


def from_file(text: str, file: str) -> list[Setting]:
    entries = parse_properties(text, file).values()
    return [Setting(entry.name, entry.value, Source.FILE, f"{file}, line {entry.line}") for entry in entries]


def from_environment(environment: Mapping[str, str]) -> list[Setting]:
    """KAFKA_LOG_SEGMENT_BYTES is log.segment.bytes; as in Kafka's images two underscores are one, and three a hyphen."""
    return [
        Setting(UNDERSCORES.sub(spelled, variable[len(PREFIX) :].lower()), value, Source.ENVIRONMENT, variable)
        for variable, value in environment.items()
        if variable.startswith(PREFIX) and len(variable) > len(PREFIX)
    ]


def spelled(underscores: re.Match[str]) -> str:
    return {1: ".", 2: "_", 3: "-"}.get(len(underscores.group()), "_")


def from_flags(flags: Iterable[str]) -> list[Setting]:
    """Each flag is `key=value`, as after -X."""
    settings = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals or not name.strip():
            raise InvalidConfiguration(f"-X {flag}: give a property as key=value, such as log.segment.bytes=4096.")
        settings.append(Setting(name.strip(), value, Source.FLAG, f"-X {name.strip()}"))
    return settings


def resolve(cls: type[C], *layers: Iterable[Setting]) -> Resolved[C]:
    """The configuration that the settings make together, the strongest source winning, later over earlier."""
    chosen: dict[str, Setting] = {}
    promises: dict[str, Setting] = {}
    strangers: list[Setting] = []
    names = cls.names()
    for setting in sorted((setting for layer in layers for setting in layer), key=lambda setting: setting.source):
        name = cls.aliases.get(setting.name, setting.name)
        if cls.takes(name):
            chosen[name] = Setting(name, parse_in_place(cls, setting), setting.source, setting.place)
        elif cls.is_promise(name):
            promises[name.lower()] = setting
        elif setting.source is Source.FLAG:
            raise unknown(setting.name, names, cls.kind)
        else:
            strangers.append(setting)
    ensure_kept(promises.values())
    config = parse_together(cls, chosen)
    settings = tuple(chosen.get(name, Setting(name, value, Source.DEFAULT, "default")) for name, value in config.items())
    return Resolved(config, settings, tuple(strangers))


def ensure_kept(promises: Iterable[Setting]) -> None:
    """Of one property given in several places the last counts; what is left is named in one go."""
    faults = [(each.place, fault) for each in promises if (fault := unkept_promise(each.name, each.value)) is not None]
    if faults:
        raise InvalidConfiguration("; ".join(f"{place}: {fault}" for place, fault in faults) + ".")


def parse_together(cls: type[C], chosen: Mapping[str, Setting]) -> C:
    try:
        return cls.parse({setting.name: setting.value for setting in chosen.values()})
    except InvalidConfiguration as error:
        at_fault = chosen.get(error.name or "")
        if at_fault is None:
            raise
        raise InvalidConfiguration(f"{at_fault.place}: {error}", error.name) from None


def parse_in_place(cls: type[Configuration], setting: Setting) -> Value:
    try:
        return cls.read(cls.aliases.get(setting.name, setting.name), setting.value)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{setting.place}: {error}") from None

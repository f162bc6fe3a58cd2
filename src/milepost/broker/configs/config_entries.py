"""Settings as DescribeConfigs and CreateTopics show them: the value in force, where it comes from, and what would be next.

A *synonym* is a place that has a value for the setting: the topic or group itself, then the broker property behind it as
`dynamic_config` orders its places. The first synonym is the one in force. A setting that the broker was started with
counts as STATIC_BROKER when its value is not the default.

Not as Kafka: for a topic property with several broker properties behind it (`retention.ms`) Kafka leaves the synonyms
out unless the first of them (`log.retention.ms`) is set; here they are all shown.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from milepost.broker.configs.dynamic_config import ALL_BROKERS, DYNAMIC
from milepost.config.broker import BrokerConfig
from milepost.config.configuration import properties
from milepost.config.definition import Property, Type, Value
from milepost.config.group import GroupConfig
from milepost.config.topic import LogConfig

if TYPE_CHECKING:
    from milepost.cluster.view import ClusterView


class ConfigSource(IntEnum):
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


NO_MORE = ("message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms")
"""Properties of topics that Kafka 4 has dropped: shown where they are set."""
WIRE_TYPES = {Type.BOOLEAN: 1, Type.STRING: 2, Type.INT: 3, Type.LONG: 5, Type.DOUBLE: 6, Type.LIST: 7}
SECRETS = ("password", "secret", "jaas.config")


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    wire_type: int
    doc: str
    synonyms: tuple[Synonym, ...]

    @property
    def is_sensitive(self) -> bool:
        return any(word in self.name for word in SECRETS)

    @property
    def shown(self) -> str | None:
        """The value, unless it is a secret."""
        return None if self.is_sensitive else self.value


class Placed(Protocol):
    """Where the properties of a broker come from."""

    @property
    def node_id(self) -> int: ...
    @property
    def static_config(self) -> BrokerConfig: ...
    @property
    def cluster(self) -> ClusterView: ...


class BrokerPlaces:
    """The places that broker properties have their values from, gathered once for as many topics as a request is about."""

    def __init__(self, broker: Placed):
        stored = broker.cluster.broker_configs
        static = {name: BrokerConfig.property(name).format(value) for name, value in broker.static_config.changed().items()}
        self._places: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
            (stored.get(str(broker.node_id), {}), ConfigSource.DYNAMIC_BROKER),
            (stored.get(ALL_BROKERS, {}), ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (static, ConfigSource.STATIC_BROKER),
            (DEFAULTS, ConfigSource.DEFAULT),
        )
        self._found: dict[tuple[str, ...], tuple[Synonym, ...]] = {}
        self._inherited: dict[tuple[str, Value], ConfigEntry] = {}

    def synonyms(self, names: tuple[str, ...]) -> tuple[Synonym, ...]:
        """Where the values of broker properties that stand for one another come from, the strongest first."""
        found = self._found.get(names)
        if found is None:
            found = self._found[names] = tuple(
                Synonym(name, values[name], source) for values, source in self._places for name in names if name in values
            )
        return found

    def inherited(self, prop: Property, value: Value) -> ConfigEntry:
        """An entry that most topics have in common: a property that they do not set themselves."""
        key = prop.name, value
        made = self._inherited.get(key)
        if made is None:
            synonyms = self.synonyms(prop.broker)
            source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
            made = self._inherited[key] = entry(prop, value, source, False, synonyms)
        return made


def topic_entries(given: Mapping[str, str], settings: LogConfig, places: BrokerPlaces) -> list[ConfigEntry]:
    """Every property that Kafka has for a topic that sets `given` and so has `settings`, by name."""
    shown = [prop for prop in sorted_properties(LogConfig) if prop.name not in NO_MORE or prop.name in given]
    return inherited_entries(shown, given, settings, places, ConfigSource.TOPIC)


def group_entries(given: Mapping[str, str], settings: GroupConfig, places: BrokerPlaces) -> list[ConfigEntry]:
    return inherited_entries(sorted_properties(GroupConfig), given, settings, places, ConfigSource.GROUP)


def inherited_entries(
    properties: list[Property],
    given: Mapping[str, str],
    settings: LogConfig | GroupConfig,
    places: BrokerPlaces,
    own: ConfigSource,
) -> list[ConfigEntry]:
    entries = []
    for prop in properties:
        value = settings.get(prop.name)
        if prop.name in given:
            synonyms = (Synonym(prop.name, given[prop.name], own), *places.synonyms(prop.broker))
            entries.append(entry(prop, value, own, False, synonyms))
        else:
            entries.append(places.inherited(prop, value))
    return entries


def broker_entries(config: BrokerConfig, places: BrokerPlaces) -> list[ConfigEntry]:
    """Every property of this broker, by name."""
    entries = []
    for prop in sorted_properties(BrokerConfig):
        synonyms = places.synonyms(BEHIND.get(prop.name, (prop.name,)))
        if not synonyms or synonyms[0].name != prop.name:
            synonyms = ()
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        entries.append(entry(prop, config.get(prop.name), source, prop.name not in DYNAMIC, synonyms))
    return entries


def all_brokers_entries(stored: Mapping[str, str]) -> list[ConfigEntry]:
    """What is stored for all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries = []
    for name, value in sorted(stored.items()):
        prop = BrokerConfig.property(name)
        entries.append(entry(prop, prop.parse(value), source, False, (Synonym(name, value, source),)))
    return entries


def entry(prop: Property, value: Value, source: ConfigSource, is_read_only: bool, synonyms: tuple[Synonym, ...]) -> ConfigEntry:
    return ConfigEntry(prop.name, text(prop, value), source, is_read_only, WIRE_TYPES[prop.type], prop.doc, synonyms)


def text(prop: Property, value: Value) -> str | None:
    return None if value is None else prop.format(value)


@functools.cache
def sorted_properties(kind: type[LogConfig] | type[GroupConfig] | type[BrokerConfig]) -> list[Property]:
    return sorted(properties(kind).values(), key=lambda prop: prop.name)


# log.roll.ms → (log.roll.ms, log.roll.hours): a broker property and those that it wins over.
BEHIND = {
    name: prop.broker[place:]
    for prop in properties(LogConfig).values()
    for place, name in enumerate(prop.broker)
    if len(prop.broker) > 1
}

DEFAULTS = {prop.name: prop.format(prop.default) for prop in properties(BrokerConfig).values() if prop.default is not None}

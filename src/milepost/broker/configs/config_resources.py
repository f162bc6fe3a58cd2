"""Whose settings a request is about: a topic's, this broker's, those of all brokers, or a group's.

    type  name                        what it is
    2     a topic                     TopicSettings
    4     this broker's id            BrokerSettings, stored for this broker
    4     ""                          BrokerSettings, stored for all brokers
    16    a subscription of metrics   ClientMetricsSettings: checked, never stored
    32    a group, known or not       GroupSettings

Settings are stored under a property's own name in one spelling (`internal.segment.bytes` as `segment.bytes`, ` 5000`
as `5000`), and only if everything that they would touch is valid with them. What is wrong with a broker's setting is 42
INVALID_REQUEST, with a topic's or group's 40 INVALID_CONFIG, as in Kafka. The levels of loggers (8) are in `config_loggers`.

What is `given` is in force and shown; what is `stored` is what a change begins with. They differ where a cluster has stored what this
broker cannot apply (`cluster_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from milepost.broker.configs.config_entries import (
    BrokerPlaces,
    ConfigEntry,
    all_brokers_entries,
    broker_entries,
    group_entries,
    topic_entries,
)
from milepost.broker.configs.dynamic_config import ALL_BROKERS, DYNAMIC, check_change, in_force, settings_of_topics
from milepost.broker.topic_errors import InvalidTopic, UnknownTopic
from milepost.config.broker import BrokerConfig
from milepost.config.client_metrics import ClientMetricsConfig
from milepost.config.configuration import Configuration
from milepost.config.definition import Value
from milepost.config.group import GroupConfig
from milepost.config.topic import LogConfig
from milepost.errors import InvalidConfiguration, InvalidRequest
from milepost.topic_partition import topic_name_fault

if TYPE_CHECKING:
    from milepost.cluster.view import ClusterView
    from milepost.log.manager import LogManager

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


class Configured(Protocol):
    """What has settings."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def static_config(self) -> BrokerConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def logs(self) -> LogManager: ...


class TopicSettings:
    properties: type[Configuration] = LogConfig

    def __init__(self, broker: Configured, name: str):
        fault = topic_name_fault(name)
        if fault is not None:
            raise InvalidTopic(f"topic name {name[:60]!r}: {fault}")
        if name not in broker.cluster.topics:
            raise UnknownTopic(f"there is no topic {name}")
        self.broker = broker
        self.name = name
        self.given: Mapping[str, str] = broker.cluster.topics[name].configs
        self.stored = broker.cluster.stored_topic_configs(name)

    def value(self, name: str) -> Value:
        """What is in force."""
        return self.broker.logs.config_of(self.name).get(name)

    def entries(self, places: BrokerPlaces) -> list[ConfigEntry]:
        return topic_entries(self.given, self.broker.logs.config_of(self.name), places)

    def check(self, given: Mapping[str, str]) -> None:
        LogConfig.parse(given, self.broker.config)


class BrokerSettings:
    properties: type[Configuration] = BrokerConfig

    def __init__(self, broker: Configured, name: str):
        if name not in (ALL_BROKERS, str(broker.node_id)):
            raise InvalidRequest(f"broker {name[:60]!r}: this is broker {broker.node_id}; name it, or no broker to mean all")
        self.broker = broker
        self.name = name
        self.given: Mapping[str, str] = broker.cluster.broker_configs.get(name, {})
        self.stored = broker.cluster.stored_broker_configs(name)

    def value(self, name: str) -> Value:
        return self.broker.config.get(name)

    def entries(self, places: BrokerPlaces) -> list[ConfigEntry]:
        return all_brokers_entries(self.given) if self.name == ALL_BROKERS else broker_entries(self.broker.config, places)

    def check(self, given: Mapping[str, str]) -> None:
        try:
            fixed = sorted(name for name in given if self.properties.property(name).name not in DYNAMIC)
            if fixed:
                raise InvalidRequest(
                    f"{', '.join(fixed)}: may not change while the broker runs; set it where the broker is started"
                )
            config = self.config_with(given)
            check_change(self.broker.config, config)
            settings_of_topics(self.broker.cluster, config)
        except InvalidConfiguration as fault:
            raise InvalidRequest(str(fault)) from fault

    def config_with(self, given: Mapping[str, str]) -> BrokerConfig:
        stored = {**self.broker.cluster.broker_configs, self.name: given}
        return in_force(self.broker.static_config, stored, self.broker.node_id)


class GroupSettings:
    properties: type[Configuration] = GroupConfig

    def __init__(self, broker: Configured, name: str):
        if not name:
            raise InvalidRequest("there are no settings of all groups: name one, or set the broker's group.consumer properties")
        self.broker = broker
        self.name = name
        self.given: Mapping[str, str] = broker.cluster.group_configs.get(name, {})
        self.stored = self.given

    def value(self, name: str) -> Value:
        return GroupConfig.in_force(self.given, self.broker.config).get(name)

    def entries(self, places: BrokerPlaces) -> list[ConfigEntry]:
        return group_entries(self.given, GroupConfig.in_force(self.given, self.broker.config), places)

    def check(self, given: Mapping[str, str]) -> None:
        GroupConfig.parse(given, self.broker.config)


class ClientMetricsSettings:
    """They are checked, and then refused: metrics of clients are not collected here."""

    properties: type[Configuration] = ClientMetricsConfig
    given: Mapping[str, str] = {}
    stored: Mapping[str, str] = {}

    def __init__(self, name: str):
        if not name:
            raise InvalidRequest("the name of a subscription of client metrics is empty")
        self.name = name

    def value(self, name: str) -> Value:
        return ClientMetricsConfig().get(name)

    def entries(self, places: BrokerPlaces) -> list[ConfigEntry]:
        raise InvalidRequest(f"client metrics {self.name[:60]!r}: metrics of clients are not collected here")

    def check(self, given: Mapping[str, str]) -> None:
        ClientMetricsConfig.validated(given)
        raise InvalidRequest(f"client metrics {self.name[:60]!r}: metrics of clients are not collected here; nothing was changed")


Settings = TopicSettings | BrokerSettings | GroupSettings | ClientMetricsSettings


def settings_of(broker: Configured, resource_type: int, name: str) -> Settings:
    """The settings a request names; what is not there raises the error to answer."""
    if resource_type == TOPIC:
        return TopicSettings(broker, name)
    if resource_type == BROKER:
        return BrokerSettings(broker, name)
    if resource_type == GROUP:
        return GroupSettings(broker, name)
    if resource_type == CLIENT_METRICS:
        return ClientMetricsSettings(name)
    raise InvalidRequest(
        f"resource type {resource_type}: only topics ({TOPIC}), brokers ({BROKER}) and groups ({GROUP}) have settings here"
    )


def canonical(properties: type[Configuration], given: Mapping[str, str]) -> dict[str, str]:
    """The same settings under the properties' own names and in one spelling; an alias wins over the name it stands for."""
    spelled = {}
    for name in sorted(given, key=lambda name: (name in properties.aliases, name)):
        prop = properties.property(name)
        spelled[prop.name] = prop.format(prop.parse(given[name]))
    return spelled


def ensure_value(name: str, value: str | None) -> str:
    if value is None:
        raise InvalidRequest(f"{name}: null is no value; give one, or leave the setting out")
    return value

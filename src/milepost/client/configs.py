"""Settings over the wire: what a topic or a broker runs with and where each value comes from (DescribeConfigs), and changes
of single ones (IncrementalAlterConfigs, which leaves the others alone; brokers have it since Kafka 2.3).

    resource           type   name
    a topic            2      its name
    a broker           4      its node id
    all brokers        4      the empty name: what a broker takes that has no value of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.retrying import failed
from milepost.errors import InvalidArgument
from milepost.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest

T = TypeVar("T")

SET, DELETE = 0, 1


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Resource:
    kind: ResourceType
    name: str

    def __str__(self) -> str:
        if self.kind is ResourceType.TOPIC:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "all brokers"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    """None for what a broker keeps to itself (`is_sensitive`)."""
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_configs(cluster: Cluster, resource: Resource, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """The settings of a resource, by name: all, or those asked for that exist."""
    asked = DescribeConfigsRequest.Resource(
        resource_type=resource.kind, resource_name=resource.name, configuration_keys=None if names is None else list(names)
    )

    def work(connection: Connection) -> list[ConfigEntry]:
        response: DescribeConfigsResponse = connection.ask(DescribeConfigsRequest(resources=[asked]))
        for result in response.results:
            if result.error_code:
                raise failed(f"settings of {resource}", result.error_code, result.error_message)
        rows = [row for result in response.results for row in result.configs]
        return sorted((_entry(row) for row in rows), key=lambda entry: entry.name)

    return _at(cluster, resource, work)


def alter_configs(
    cluster: Cluster,
    resource: Resource,
    changes: Mapping[str, str],
    deletions: Iterable[str] = (),
    *,
    validate_only: bool = False,
) -> None:
    """Give settings a value of their own, or (`deletions`) take it away again."""
    Config = IncrementalAlterConfigsRequest.Resource.Config
    configs = [Config(name=name, config_operation=SET, value=value) for name, value in changes.items()]
    configs += [Config(name=name, config_operation=DELETE, value=None) for name in deletions]
    if not configs:
        raise InvalidArgument(f"{resource}: nothing to change is named")
    asked = IncrementalAlterConfigsRequest.Resource(resource_type=resource.kind, resource_name=resource.name, configs=configs)

    def work(connection: Connection) -> None:
        response = connection.ask(IncrementalAlterConfigsRequest(resources=[asked], validate_only=validate_only))
        for row in response.responses:
            if row.error_code:
                raise failed(f"settings of {resource}", row.error_code, row.error_message)

    _at(cluster, resource, work)


def _at(cluster: Cluster, resource: Resource, work: Callable[[Connection], T]) -> T:
    """A broker answers for its own settings, any broker for a topic's."""
    if resource.kind is ResourceType.BROKER and resource.name:
        if not (resource.name.isascii() and resource.name.isdigit()):
            raise InvalidArgument(f"broker {resource.name!r} is no node id")
        return cluster.on_node(int(resource.name), work)
    return cluster.on_any(work)


def _entry(row: DescribeConfigsResponse.Result.Config) -> ConfigEntry:
    try:
        source = ConfigSource(row.config_source)
    except ValueError:
        source = ConfigSource.UNKNOWN
    return ConfigEntry(row.name, row.value, source, row.read_only, row.is_sensitive)

"""IncrementalAlterConfigs (key 44): some settings of a topic, broker or group, or levels of loggers; the others stay as they are.

    0  SET       to the value
    1  DELETE    back to the default; also of a name that does not exist, as in Kafka
    2  APPEND    the parts of the value to a list, those that are not in it yet
    3  SUBTRACT  the parts of the value from a list

A list that is not set begins with the value in force. All operations on a resource take effect together or, when one is refused,
not at all. In a cluster what is stored is read first, as in Kafka: another broker may have changed it a moment ago (AlterConfigs
replaces it whatever it is, and reads nothing). Levels of loggers are this broker's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.configs.alter_configs import changing_each
from milepost.broker.configs.config_loggers import LoggerSettings
from milepost.broker.configs.config_resources import LOGGER, Settings, ensure_value, settings_of
from milepost.broker.topic_requests import repeated
from milepost.config.definition import Type
from milepost.errors import BrokerUnavailable, InvalidConfiguration, InvalidRequest
from milepost.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

SET, DELETE, APPEND, SUBTRACT = range(4)
Resource = IncrementalAlterConfigsRequest.Resource


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> Work[IncrementalAlterConfigsResponse]:
    context.goes_on = True
    broker = context.broker

    return broker.topology.topics.in_turn(altering(request, broker))


def altering(request: IncrementalAlterConfigsRequest, broker: Parts) -> Work[IncrementalAlterConfigsResponse]:
    is_fresh = yield from broker.topology.configs.refreshing(request.resources)

    def prepare(resource: Resource) -> tuple[Settings, dict[str, str]] | None:
        if not is_fresh:
            raise BrokerUnavailable("ZooKeeper is not available; nothing was changed")
        ensure_once(resource)
        if resource.resource_type == LOGGER:
            alter_loggers(resource, LoggerSettings(broker, resource.resource_name), request.validate_only)
            return None
        return changed(resource, broker)

    response: IncrementalAlterConfigsResponse = yield from changing_each(request, broker, IncrementalAlterConfigsResponse, prepare)
    return response


def ensure_once(resource: Resource) -> None:
    twice = repeated(config.name for config in resource.configs)
    if twice:
        raise InvalidRequest(f"{', '.join(sorted(twice))}: in the request more than once")


def changed(resource: Resource, broker: Parts) -> tuple[Settings, dict[str, str]]:
    """Whose settings a resource names, and what they would be."""
    settings = settings_of(broker, resource.resource_type, resource.resource_name)
    given = dict(settings.stored)
    for config in resource.configs:
        name = settings.properties.aliases.get(config.name, config.name)
        if config.config_operation == DELETE:
            given.pop(name, None)
        else:
            given[name] = operate(settings, name, config.config_operation, ensure_value(name, config.value))
    return settings, given


def alter_loggers(resource: Resource, settings: LoggerSettings, validate_only: bool) -> None:
    levels: dict[str, str | None] = {}
    for config in resource.configs:
        if config.config_operation not in (SET, DELETE):
            raise InvalidRequest(f"{config.name}: the level of a logger can be set and deleted, nothing else")
        is_set = config.config_operation == SET
        levels[config.name] = ensure_value(config.name, config.value) if is_set else None
    settings.change(levels, validate_only)


def operate(settings: Settings, name: str, operation: int, value: str) -> str:
    """The new text of a setting."""
    if operation == SET:
        return value
    if operation not in (APPEND, SUBTRACT):
        raise InvalidRequest(
            f"{name}: operation {operation} is none of set {SET}, delete {DELETE}, append {APPEND}, subtract {SUBTRACT}"
        )
    prop = settings.properties.property(name)
    if prop.type is not Type.LIST:
        raise InvalidConfiguration(
            f"{name} is no list but a {prop.type.value}: it can be set, not appended to or subtracted from"
        )
    parts = [part.strip() for part in value.split(",")]
    before = settings.stored[name] if name in settings.stored else prop.format(settings.value(name))
    kept = [part.strip() for part in before.split(",")] if before else []
    if operation == APPEND:
        return ",".join(kept + [part for part in parts if part not in kept])
    return ",".join(part for part in kept if part not in parts)

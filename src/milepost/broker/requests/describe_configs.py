"""DescribeConfigs (key 32): settings of topics, brokers, groups and loggers with their sources and, when asked for, synonyms and
documentation.

Of a broker by its id: everything, what cannot be changed marked read-only. Of the broker "" (all brokers): only what is stored
for all. Keys that are not named, or an empty list of them, mean all; a key that does not exist is left out of the answer.

Every resource is answered in its place, also one that is named again, up to MOST_REPEATS times in all: a request of ten bytes a
resource would else be answered with four thousand for each. For the same reason an answer has MOST_BYTES, or a little more: resources
behind that are refused (42).

Of a cluster: what is stored now, since another broker may have changed it a moment ago; without ZooKeeper, as far as this broker knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.configs.config_entries import BrokerPlaces, ConfigEntry
from milepost.broker.configs.config_loggers import LoggerSettings
from milepost.broker.configs.config_resources import LOGGER, settings_of
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

MOST_REPEATS = 100
MOST_BYTES = 24 << 20
OVERHEAD = 4
"""Bytes around each text."""
Resource = DescribeConfigsRequest.Resource
Result = DescribeConfigsResponse.Result


def handle(request: DescribeConfigsRequest, context: Context) -> Work[DescribeConfigsResponse]:
    yield from context.broker.topology.configs.refreshing(request.resources)
    shown = ShownConfigs(request, context.broker)
    results: list[Result] = []
    seen: set[tuple[int, str]] = set()
    for number, resource in enumerate(request.resources):
        if number - len(seen) >= MOST_REPEATS:
            results.append(refuse(resource, InvalidRequest(f"resources are named again more than {MOST_REPEATS} times")))
        else:
            seen.add((resource.resource_type, resource.resource_name))
            results.append(describe(resource, context.broker, shown))
        yield
    return DescribeConfigsResponse(results=results)


def describe(resource: Resource, broker: Parts, shown: ShownConfigs) -> Result:
    try:
        if shown.bytes > MOST_BYTES:
            raise InvalidRequest(f"the settings asked for take more than {MOST_BYTES >> 20} MB; ask for fewer at once")
        if resource.resource_type == LOGGER:
            entries = LoggerSettings(broker, resource.resource_name).entries()
        else:
            entries = settings_of(broker, resource.resource_type, resource.resource_name).entries(shown.places)
    except MilepostError as error:
        return refuse(resource, error)
    keys = set(resource.configuration_keys or ())
    configs = [shown.config(resource.resource_type, entry) for entry in entries if not keys or entry.name in keys]
    return Result(resource_type=resource.resource_type, resource_name=resource.resource_name, configs=configs)


def refuse(resource: Resource, error: MilepostError) -> Result:
    return Result(
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


class ShownConfigs:
    """Settings as the answer shows them. What resources have in common is the same object in all of them: there are sixty for each."""

    def __init__(self, request: DescribeConfigsRequest, broker: Parts):
        self.places = BrokerPlaces(broker)
        self.bytes = 0
        """About as many as the answer has so far."""
        self._request = request
        self._made: dict[tuple[int, str, str | None, int], tuple[Result.Config, int]] = {}

    def config(self, kind: int, entry: ConfigEntry) -> Result.Config:
        key = kind, entry.name, entry.value, entry.source
        made = self._made.get(key)
        if made is None:
            shown = self._config(entry)
            texts = [shown.name, shown.value, shown.documentation]
            texts += [text for each in shown.synonyms for text in (each.name, each.value)]
            made = self._made[key] = shown, sum(OVERHEAD + len(text or "") for text in texts)
        self.bytes += made[1]
        return made[0]

    def _config(self, entry: ConfigEntry) -> Result.Config:
        synonyms = entry.synonyms if self._request.include_synonyms else ()
        return Result.Config(
            name=entry.name,
            value=entry.shown,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
            synonyms=[
                Result.Config.Synonym(name=each.name, value=None if entry.is_sensitive else each.value, source=each.source)
                for each in synonyms
            ],
            config_type=entry.wire_type,
            documentation=entry.doc if self._request.include_documentation else None,
        )

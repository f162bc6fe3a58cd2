"""DescribeConfigs (key 32): settings of topics, brokers, groups and loggers with their sources and, when asked for, synonyms and
documentation.

Of a broker by its id: everything, what cannot be changed marked read-only. Of the broker "" (all brokers): only what is stored
for all. Keys that are not named, or an empty list of them, mean all; a key that does not exist is left out of the answer.

Every resource is answered in its place, also one that is named again, up to MOST_REPEATS times in all: a request of ten bytes a
resource would else be answered with four thousand for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.config_entries import BrokerPlaces, ConfigEntry
from milepost.broker.config_loggers import LoggerSettings
from milepost.broker.config_resources import LOGGER, settings_of
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context

KEY = 32
MOST_REPEATS = 100
Resource = DescribeConfigsRequest.Resource
Result = DescribeConfigsResponse.Result


def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    places = BrokerPlaces(context.broker)
    results = []
    seen: set[tuple[int, str]] = set()
    for number, resource in enumerate(request.resources):
        if number - len(seen) >= MOST_REPEATS:
            results.append(refuse(resource, InvalidRequest(f"resources are named again more than {MOST_REPEATS} times")))
            continue
        seen.add((resource.resource_type, resource.resource_name))
        results.append(describe(resource, request, context.broker, places))
    return DescribeConfigsResponse(results=results)


def describe(resource: Resource, request: DescribeConfigsRequest, broker: Broker, places: BrokerPlaces) -> Result:
    try:
        if resource.resource_type == LOGGER:
            entries = LoggerSettings(broker, resource.resource_name).entries()
        else:
            entries = settings_of(broker, resource.resource_type, resource.resource_name).entries(places)
    except MilepostError as error:
        return refuse(resource, error)
    keys = set(resource.configuration_keys or ())
    configs = [config(entry, request) for entry in entries if not keys or entry.name in keys]
    return Result(resource_type=resource.resource_type, resource_name=resource.resource_name, configs=configs)


def refuse(resource: Resource, error: MilepostError) -> Result:
    return Result(
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def config(entry: ConfigEntry, request: DescribeConfigsRequest) -> Result.Config:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return Result.Config(
        name=entry.name,
        value=entry.shown,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            Result.Config.Synonym(name=synonym.name, value=None if entry.is_sensitive else synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=entry.wire_type,
        documentation=entry.doc if request.include_documentation else None,
    )

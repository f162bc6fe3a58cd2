"""Settings of topics and brokers that a client changes in a cluster: checked here, stored in ZooKeeper, heard of by everybody.

Any broker may do it for a topic or for all brokers; a broker's own settings are changed at that broker. Whoever adds to what is stored
reads it first: another broker may have changed it a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from milepost.broker.configs.config_resources import BROKER, TOPIC, BrokerSettings, Settings, TopicSettings, canonical
from milepost.broker.gathering import Gathering
from milepost.broker.topic_requests import repeated
from milepost.cluster.settings import ALL_BROKERS, broker_entity, topic_entity
from milepost.errors import BrokerUnavailable, InvalidRequest, MilepostError

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work
    from milepost.protocol.messages import (
        AlterConfigsRequest,
        AlterConfigsResponse,
        DescribeConfigsRequest,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

Done = Callable[[MilepostError | None], object]
ChangeOne = Callable[[Any, "ClusterParts", Done], None]


def changing_each(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    context: Context,
    answer: type[AlterConfigsResponse] | type[IncrementalAlterConfigsResponse],
    change_one: ChangeOne,
) -> Work[None]:
    """Do `change_one` for every resource of a request, and answer when the last is done; what is wrong with one is told of that one."""
    broker = cast("ClusterParts", context.broker)
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers = Gathering[Any](len(request.resources), lambda parts: context.answer(answer(responses=parts)))
    for place, resource in enumerate(request.resources):

        def done(error: MilepostError | None, place: int = place, resource: Any = resource) -> None:
            part = answer.Response(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
            if error is not None:
                part.error_code, part.error_message = error.code, str(error)
            answers.put(place, part)

        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise InvalidRequest("the resource is in the request more than once")
            change_one(resource, broker, done)
        except MilepostError as error:
            done(error)
        yield


def change(settings: Settings, given: Mapping[str, str], validate_only: bool, broker: ClusterParts, done: Done) -> None:
    """Put `given` in the place of all that is stored, if it is valid. Raises what is wrong with it."""
    entity = entity_of(settings)
    settings.check(given)
    if validate_only:
        done(None)
        return

    def stored(is_stored: bool) -> None:
        done(None if is_stored else BrokerUnavailable("ZooKeeper did not take the settings; nothing was changed"))

    broker.settings.store(entity, canonical(settings.properties, given), stored)


def entities(request: DescribeConfigsRequest | IncrementalAlterConfigsRequest, broker: ClusterParts) -> Work[list[str]]:
    """Where ZooKeeper has what a request is about, each once."""
    found: dict[str, None] = {}
    for each in request.resources:
        if each.resource_type == TOPIC and each.resource_name in broker.cluster.topics:
            found[topic_entity(each.resource_name)] = None
        elif each.resource_type == BROKER:
            found.update(dict.fromkeys((broker_entity(ALL_BROKERS), broker_entity(str(broker.node_id)))))
        yield
    return list(found)


def entity_of(settings: Settings) -> str:
    if isinstance(settings, TopicSettings):
        return topic_entity(settings.name)
    if isinstance(settings, BrokerSettings):
        return broker_entity(settings.name)
    raise InvalidRequest("a cluster with ZooKeeper keeps no settings of groups: set the brokers' group.consumer properties")

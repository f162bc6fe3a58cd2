"""IncrementalAlterConfigs (key 44) in a cluster: see `broker/cluster_configs`. Levels of loggers are this broker's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker import cluster_configs
from milepost.broker.apis.incremental_alter_configs import Resource, alter_loggers, changed, ensure_once
from milepost.broker.config_loggers import LoggerSettings
from milepost.broker.config_resources import LOGGER
from milepost.broker.gathering import Gathering
from milepost.broker.topic_requests import repeated
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 44
Response = IncrementalAlterConfigsResponse.Response


def handle(request: IncrementalAlterConfigsRequest, context: Context) -> None:
    broker = cast("ClusteredBroker", context.broker)
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers = Gathering[Response](
        len(request.resources), lambda parts: context.answer(IncrementalAlterConfigsResponse(responses=parts))
    )
    for place, resource in enumerate(request.resources):

        def done(error: MilepostError | None, place: int = place, resource: Resource = resource) -> None:
            response = Response(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
            if error is not None:
                response.error_code, response.error_message = error.code, str(error)
            answers.put(place, response)

        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise InvalidRequest("the resource is in the request more than once")
            ensure_once(resource)
            if resource.resource_type == LOGGER:
                alter_loggers(resource, LoggerSettings(broker, resource.resource_name), request.validate_only)
                done(None)
            else:
                cluster_configs.change(*changed(resource, broker), request.validate_only, broker, done)
        except MilepostError as error:
            done(error)

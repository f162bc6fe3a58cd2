"""AlterConfigs (key 33) in a cluster: see `broker/cluster_configs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker import cluster_configs
from milepost.broker.apis.alter_configs import Resource, replaced
from milepost.broker.gathering import Gathering
from milepost.broker.topic_requests import repeated
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 33
Response = AlterConfigsResponse.Response


def handle(request: AlterConfigsRequest, context: Context) -> None:
    broker = cast("ClusteredBroker", context.broker)
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers = Gathering[Response](len(request.resources), lambda parts: context.answer(AlterConfigsResponse(responses=parts)))
    for place, resource in enumerate(request.resources):

        def done(error: MilepostError | None, place: int = place, resource: Resource = resource) -> None:
            response = Response(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
            if error is not None:
                response.error_code, response.error_message = error.code, str(error)
            answers.put(place, response)

        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise InvalidRequest("the resource is in the request more than once")
            cluster_configs.change(*replaced(resource, broker), request.validate_only, broker, done)
        except MilepostError as error:
            done(error)

"""AlterConfigs (key 33): the settings of a topic or broker, all of them at once; what is not named goes back to its default.

Deprecated in Kafka for that reason: two clients undo each other's work. IncrementalAlterConfigs replaces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.config_resources import Settings, change, ensure_value, settings_of
from milepost.broker.topic_requests import repeated
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context

KEY = 33
Resource = AlterConfigsRequest.Resource


def handle(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        response = AlterConfigsResponse.Response(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise InvalidRequest("the resource is in the request more than once")
            replace(resource, context.broker, request.validate_only)
        except MilepostError as error:
            response.error_code, response.error_message = error.code, str(error)
        responses.append(response)
    return AlterConfigsResponse(responses=responses)


def replace(resource: Resource, broker: Broker, validate_only: bool) -> None:
    change(*replaced(resource, broker), validate_only)


def replaced(resource: Resource, broker: Broker) -> tuple[Settings, dict[str, str]]:
    """Whose settings a resource names, and what they would be."""
    twice = repeated(config.name for config in resource.configs)
    if twice:
        raise InvalidRequest(f"{', '.join(sorted(twice))}: in the request more than once")
    settings = settings_of(broker, resource.resource_type, resource.resource_name)
    return settings, {config.name: ensure_value(config.name, config.value) for config in resource.configs}

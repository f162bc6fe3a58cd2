"""AlterConfigs (key 33): the settings of a topic or broker, all of them at once; what is not named goes back to its default.

Deprecated in Kafka for that reason: two clients undo each other's work. IncrementalAlterConfigs replaces it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.configs.alter_configs import changing_each
from milepost.broker.configs.config_resources import Settings, ensure_value, settings_of
from milepost.broker.topic_requests import repeated
from milepost.errors import InvalidRequest
from milepost.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

Resource = AlterConfigsRequest.Resource


def handle(request: AlterConfigsRequest, context: Context) -> Work[AlterConfigsResponse]:
    context.goes_on = True
    broker = context.broker
    work = changing_each(request, broker, AlterConfigsResponse, partial(replaced, broker=broker))
    return broker.topology.topics.in_turn(work)


def replaced(resource: Resource, broker: Parts) -> tuple[Settings, dict[str, str]]:
    """Whose settings a resource names, and what they would be."""
    twice = repeated(config.name for config in resource.configs)
    if twice:
        raise InvalidRequest(f"{', '.join(sorted(twice))}: in the request more than once")
    settings = settings_of(broker, resource.resource_type, resource.resource_name)
    return settings, {config.name: ensure_value(config.name, config.value) for config in resource.configs}

"""ListConfigResources (key 74): what has settings, of some types or of all.

    32  groups               those that something is set for
    16  metrics of clients   none here
    8   loggers              by the broker that has them
    4   brokers
    2   topics

They come in that order, as in Kafka. Version 0 was ListClientMetricsResources and asks for type 16 alone. A type that does not exist is 35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.configs.config_resources import BROKER, CLIENT_METRICS, GROUP, LOGGER, TOPIC
from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

TYPES = (GROUP, CLIENT_METRICS, LOGGER, BROKER, TOPIC)
Resource = ListConfigResourcesResponse.ConfigResource


def handle(request: ListConfigResourcesRequest, context: Context) -> Work[ListConfigResourcesResponse]:
    asked = (set(request.resource_types) or set(TYPES)) if context.version >= 1 else {CLIENT_METRICS}
    if not asked.issubset(TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    cluster = context.broker.cluster
    names = {
        GROUP: list(cluster.group_configs),
        LOGGER: [str(context.broker.node_id)],
        BROKER: [str(context.broker.node_id)],
        TOPIC: list(cluster.topics),
    }
    found = yield from collected(
        Resource(resource_name=name, resource_type=kind) for kind in TYPES if kind in asked for name in names.get(kind, ())
    )
    return ListConfigResourcesResponse(config_resources=found)

"""AlterConfigs (key 33) in a cluster: see `broker/configs/cluster_configs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.apis.alter_configs import Resource, replaced
from milepost.broker.configs import cluster_configs
from milepost.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 33


def handle(request: AlterConfigsRequest, context: Context) -> Work[None]:
    context.goes_on = True

    def replace(resource: Resource, broker: ClusterParts, done: cluster_configs.Done) -> None:
        cluster_configs.change(*replaced(resource, broker), request.validate_only, broker, done)

    return cluster_configs.changing_each(request, context, AlterConfigsResponse, replace)

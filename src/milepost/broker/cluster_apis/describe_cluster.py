"""DescribeCluster (key 60) in a cluster: the brokers that are alive, and who of them is the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker import authorized_operations
from milepost.broker.apis import describe_cluster
from milepost.protocol.messages import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 60


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    if request.endpoint_type != describe_cluster.BROKERS:
        return describe_cluster.handle(request, context)
    broker = cast("ClusterParts", context.broker)
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=broker.cluster.cluster_id,
        controller_id=broker.controller_id,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=each.broker_id, host=end.host, port=end.port, rack=each.rack)
            for each, end in broker.neighbours(context.listener)
        ],
        cluster_authorized_operations=authorized_operations.ON_CLUSTER if asked else authorized_operations.NOT_ASKED,
    )

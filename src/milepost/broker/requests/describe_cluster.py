"""DescribeCluster (key 60): the brokers that are alive, who of them is the controller, and what the client may do.

From version 1 a client says which kind of node it wants to hear about: 1 brokers, 2 the controllers of a KRaft quorum, which
there are none of here (114).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker import authorized_operations
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    broker = context.broker
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message="this listener is a broker's; there are no others to ask"
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"endpoint type {request.endpoint_type} is neither {BROKERS} (brokers) nor {CONTROLLERS} (controllers)",
        )
    view = broker.topology.view
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=broker.cluster.cluster_id,
        controller_id=view.controller_id,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in view.brokers(context.listener)
        ],
        cluster_authorized_operations=authorized_operations.ON_CLUSTER if asked else authorized_operations.NOT_ASKED,
    )

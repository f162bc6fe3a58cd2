"""DescribeClientQuotas (key 48) in a cluster: what ZooKeeper says now, since another broker may have changed it a moment ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import describe_client_quotas
from milepost.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 48


def handle(request: DescribeClientQuotasRequest, context: Context) -> Work[DescribeClientQuotasResponse]:
    broker = cast("ClusterParts", context.broker)
    yield broker.member.with_fresh_quotas
    return (yield from describe_client_quotas.handle(request, context))

"""DescribeConfigs (key 32) in a cluster: what ZooKeeper says now, since another broker may have changed it a moment ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import describe_configs
from milepost.broker.configs.cluster_configs import entities
from milepost.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 32


def handle(request: DescribeConfigsRequest, context: Context) -> Work[DescribeConfigsResponse]:
    broker = cast("ClusterParts", context.broker)
    named = yield from entities(request, broker)
    # Without ZooKeeper, as far as this broker knows.
    yield lambda resume: broker.member.with_fresh_settings(named, resume, resume)
    return (yield from describe_configs.handle(request, context))

"""DescribeConfigs (key 32) in a cluster: what ZooKeeper says now, since another broker may have changed it a moment ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import describe_configs
from milepost.broker.cluster_configs import entities
from milepost.protocol.messages import DescribeConfigsRequest

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 32


def handle(request: DescribeConfigsRequest, context: Context) -> None:
    broker = cast("ClusteredBroker", context.broker)

    def describe() -> None:
        context.answer(describe_configs.handle(request, context))

    # Without ZooKeeper, as far as this broker knows.
    broker.member.with_fresh_settings(entities(request, broker), describe, describe)

"""DescribeConfigs (key 32) in a cluster: what ZooKeeper says now, since another broker may have changed it a moment ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import describe_configs
from milepost.broker.config_resources import BROKER, TOPIC
from milepost.cluster.settings import ALL_BROKERS, broker_entity, topic_entity
from milepost.protocol.messages import DescribeConfigsRequest

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 32


def handle(request: DescribeConfigsRequest, context: Context) -> None:
    broker = cast("ClusteredBroker", context.broker)
    named = [(each.resource_type, each.resource_name) for each in request.resources]
    entities = [topic_entity(name) for kind, name in named if kind == TOPIC and name in broker.cluster.topics]
    if any(kind == BROKER for kind, _ in named):
        entities += [broker_entity(ALL_BROKERS), broker_entity(str(broker.node_id))]

    def describe() -> None:
        context.answer(describe_configs.handle(request, context))

    # Without ZooKeeper, as far as this broker knows.
    broker.member.with_fresh_settings(entities, describe, describe)

"""ConsumerGroupDescribe (key 69): groups of the consumer protocol, with epochs, subscriptions and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 69


def handle(request: ConsumerGroupDescribeRequest, context: Context) -> ConsumerGroupDescribeResponse:
    service = context.broker.groups.consumer_groups
    assert service is not None, "the broker starts with it"
    return service.describe(request)

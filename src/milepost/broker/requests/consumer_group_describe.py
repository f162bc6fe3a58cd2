"""ConsumerGroupDescribe (key 69): groups of the consumer protocol, with epochs, subscriptions and assignments; each once.

While the feature group.version is at 0 the protocol is not served: 35 for every group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.features import GROUP_VERSION, level_of
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: ConsumerGroupDescribeRequest, context: Context) -> Work[ConsumerGroupDescribeResponse]:
    if not level_of(context.broker.cluster, GROUP_VERSION):
        unserved = ErrorCode.UNSUPPORTED_VERSION
        refused = []
        for name in request.group_ids:
            refused.append(ConsumerGroupDescribeResponse.Group(error_code=unserved, group_id=name))
            yield
        return ConsumerGroupDescribeResponse(groups=refused)
    request.group_ids = list(dict.fromkeys(request.group_ids))
    service = context.broker.groups.consumer_groups
    assert service is not None, "the broker starts with it"
    return (yield from service.describe(request))

"""FindCoordinator (key 10): who looks after a group (key type 0) or a transactional id (1). On a single broker: this one.

In a cluster it is the leader of the key's partition of `__consumer_offsets` or `__transaction_state`. The first who asks has the topic
made. Until its partition has a leader the answer is 15 COORDINATOR_NOT_AVAILABLE, and clients ask again.

Version 4 asks for several at once. Coordinators of share groups (key type 2, version 6) are not served: 42, as for
any other type. The message is Kafka's own, `NONE` up to version 3 and empty from version 4, when all is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.topology.protocols import Coordinator
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

GROUP, TRANSACTION = 0, 1
MANY_SINCE = 4


def handle(request: FindCoordinatorRequest, context: Context) -> Work[FindCoordinatorResponse]:
    if context.version < MANY_SINCE:
        found = find(request.key_type, request.key, context)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.message or "NONE",
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    coordinators = []
    for key in request.coordinator_keys:
        found = find(request.key_type, key, context)
        coordinators.append(
            FindCoordinatorResponse.Coordinator(
                key=key,
                error_code=found.error_code,
                error_message=found.message,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        )
        yield
    return FindCoordinatorResponse(coordinators=coordinators)


def find(key_type: int, key: str, context: Context) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION):
        return Coordinator(ErrorCode.INVALID_REQUEST, f"there is no coordinator of key type {key_type} here")
    return context.broker.topology.coordinators.find(key_type, key, context.listener)

"""FindCoordinator (key 10): who looks after a group (key type 0) or a transactional id (1). On a single broker: this one.

Version 4 asks for several at once. Coordinators of share groups (key type 2, version 6) are not served: 42, as for
any other type. The message is Kafka's own, `NONE` up to version 3 and empty from version 4, when all is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

KEY = 10
GROUP, TRANSACTION = 0, 1


def handle(request: FindCoordinatorRequest, context: Context) -> Work[FindCoordinatorResponse]:
    is_known = request.key_type in (GROUP, TRANSACTION)
    error = ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST
    message = f"there is no coordinator of key type {request.key_type} here"
    host, port = context.broker.advertised(context.listener) if is_known else ("", -1)
    node_id = context.broker.node_id if is_known else -1
    if context.version < 4:
        return FindCoordinatorResponse(
            error_code=error, error_message="NONE" if is_known else message, node_id=node_id, host=host, port=port
        )
    coordinators = []
    for key in request.coordinator_keys:
        coordinators.append(
            FindCoordinatorResponse.Coordinator(
                key=key, error_code=error, error_message="" if is_known else message, node_id=node_id, host=host, port=port
            )
        )
        yield
    return FindCoordinatorResponse(coordinators=coordinators)

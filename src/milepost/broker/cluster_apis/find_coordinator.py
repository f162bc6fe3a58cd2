"""FindCoordinator (key 10) in a cluster: whoever leads the key's partition of `__consumer_offsets` (0) or `__transaction_state` (1).

The first who asks has the topic made. Until its partition has a leader the answer is 15 COORDINATOR_NOT_AVAILABLE, and clients ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from milepost.broker.apis.find_coordinator import GROUP, TRANSACTION
from milepost.coordinator.hashing import partition_of
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

KEY = 10
MANY_SINCE = 4


class Found(NamedTuple):
    error: int
    message: str
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(request: FindCoordinatorRequest, context: Context) -> Work[FindCoordinatorResponse]:
    broker = cast("ClusterParts", context.broker)
    if context.version < MANY_SINCE:
        found = find(request.key_type, request.key, broker, context.listener)
        return FindCoordinatorResponse(
            error_code=found.error,
            error_message=found.message or "NONE",
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    coordinators = []
    for key in request.coordinator_keys:
        found = find(request.key_type, key, broker, context.listener)
        coordinators.append(
            FindCoordinatorResponse.Coordinator(
                key=key,
                error_code=found.error,
                error_message=found.message,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        )
        yield
    return FindCoordinatorResponse(coordinators=coordinators)


def find(key_type: int, key: str, broker: ClusterParts, listener: str) -> Found:
    if key_type not in (GROUP, TRANSACTION):
        return Found(ErrorCode.INVALID_REQUEST, f"there is no coordinator of key type {key_type} here")
    topic = broker.offsets_topic if key_type == GROUP else broker.transactions_topic
    if not topic.exists:
        try:
            broker.topics.create_internal(topic)
        except MilepostError as error:
            return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} cannot be made: {error}")
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} is being made")
    number = partition_of(key, topic.partition_count)
    known = broker.cluster.partition_info(topic.name, number)
    leader = None if known is None else broker.cluster.brokers.get(known.leader)
    endpoint = None if leader is None else leader.endpoint(listener)
    if leader is None or endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name}-{number} has no leader now")
    return Found(ErrorCode.NONE, "", leader.broker_id, endpoint.host, endpoint.port)

"""Which broker a fetch says that it comes from, and how it is refused if that is not so."""

from __future__ import annotations

from milepost.broker.fetch.partition_read import fetch_partition, refuse
from milepost.broker.fetch.session_cache import grouped
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.replica.remote_replica import NO_BROKER_EPOCH

TOP_ERROR_SINCE = 7


def is_follower(request: FetchRequest) -> bool:
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)


def replica_id_of(request: FetchRequest) -> int:
    state = request.replica_state
    return state.replica_id if state is not None and state.replica_id >= 0 else request.replica_id


def broker_epoch_of(request: FetchRequest) -> int:
    return NO_BROKER_EPOCH if request.replica_state is None else request.replica_state.replica_epoch


def refuse_follower(request: FetchRequest, version: int) -> FetchResponse:
    """No other broker is part of a cluster of one. Old versions have no place for an error but the partitions."""
    if version >= TOP_ERROR_SINCE:
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    partitions = [fetch_partition(topic, part, version) for topic in request.topics for part in topic.partitions]
    results = [refuse(each.part.partition, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) for each in partitions]
    return FetchResponse(responses=grouped(partitions, results))

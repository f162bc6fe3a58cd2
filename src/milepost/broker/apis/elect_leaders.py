"""ElectLeaders (key 43): make the preferred replica of partitions their leader (0), or from version 1 any that is left (1).

With one replica it leads already: 84 for a partition that is named. Asked for all partitions (null) Kafka leaves those out that
need no election, so all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 43
PREFERRED, UNCLEAN = 0, 1
Result = ElectLeadersResponse.ReplicaElectionResult


def handle(request: ElectLeadersRequest, context: Context) -> Work[ElectLeadersResponse]:
    is_known = request.election_type in (PREFERRED, UNCLEAN)

    def outcome(name: TopicPartition) -> Result.PartitionResult:
        if not is_known:
            code, message = (
                ErrorCode.INVALID_REQUEST,
                f"election type {request.election_type} is neither {PREFERRED} nor {UNCLEAN}",
            )
        elif context.broker.replicas.partition(name) is None:
            code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}"
        else:
            code, message = ErrorCode.ELECTION_NOT_NEEDED, f"{name} has its only replica as its leader"
        return Result.PartitionResult(partition_id=name.partition, error_code=code, error_message=message)

    results = []
    for each in request.topic_partitions or ():
        outcomes = yield from collected(outcome(TopicPartition(each.topic, number)) for number in each.partitions)
        results.append(Result(topic=each.topic, partition_result=outcomes))
        yield
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST, replica_election_results=results
    )

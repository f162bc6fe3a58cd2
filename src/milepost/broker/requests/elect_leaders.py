"""ElectLeaders (key 43): make the preferred replica of partitions their leader (0), or from version 1 any that is left (1).

By the controller alone (41 elsewhere), and answered when the elections are written. A broker that is alone leads already: 84 for a
partition that is named. Asked for all partitions (null) Kafka leaves those out that need no election. A type that is neither is 42 at
the top and for each partition, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected
from milepost.broker.topology.protocols import Outcome
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context

PREFERRED, UNCLEAN = 0, 1
TYPE_SINCE = 1
Result = ElectLeadersResponse.ReplicaElectionResult


def handle(request: ElectLeadersRequest, context: Context) -> Work[ElectLeadersResponse]:
    admin = context.broker.topology.topics
    kind = request.election_type if context.version >= TYPE_SINCE else PREFERRED
    if admin.refusal:
        return ElectLeadersResponse(error_code=admin.refusal)
    named = None
    if request.topic_partitions is not None:
        named = yield from collected(
            TopicPartition(each.topic, number) for each in request.topic_partitions for number in each.partitions
        )
    code: int = ErrorCode.NONE
    outcomes: dict[TopicPartition, Outcome]
    if kind in (PREFERRED, UNCLEAN):
        try:
            outcomes = yield from admin.electing(named, is_unclean=kind == UNCLEAN)
        except MilepostError as error:
            return ElectLeadersResponse(error_code=error.code)
    else:
        code, message = ErrorCode.INVALID_REQUEST, f"election type {kind} is neither {PREFERRED} nor {UNCLEAN}"
        outcomes = dict.fromkeys(named or (), (code, message))
    results: dict[str, Result] = {}
    for name, (partition_code, partition_message) in outcomes.items():
        result = results.setdefault(name.topic, Result(topic=name.topic, partition_result=[]))
        result.partition_result.append(
            Result.PartitionResult(partition_id=name.partition, error_code=partition_code, error_message=partition_message)
        )
        yield
    return ElectLeadersResponse(error_code=code, replica_election_results=list(results.values()))

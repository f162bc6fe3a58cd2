"""ElectLeaders (key 43) in a cluster: by the controller alone (41 elsewhere); preferred (0), or any replica that is alive (1).

Answered when the elections are written. Asked for all partitions (null), those that need no election are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from milepost.broker.apis.elect_leaders import PREFERRED, UNCLEAN
from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.cluster.controller.partition_states import Outcome

KEY = 43
Result = ElectLeadersResponse.ReplicaElectionResult


def handle(request: ElectLeadersRequest, context: Context) -> Work[ElectLeadersResponse | None]:
    controller = cast("ClusterParts", context.broker).controller
    kind = request.election_type if context.version >= 1 else PREFERRED
    if controller is None or kind not in (PREFERRED, UNCLEAN):
        code = ErrorCode.NOT_CONTROLLER if controller is None else ErrorCode.INVALID_REQUEST
        return ElectLeadersResponse(error_code=code)
    named = None
    if request.topic_partitions is not None:
        named = yield from collected(
            TopicPartition(each.topic, number) for each in request.topic_partitions for number in each.partitions
        )

    outcomes: list[Outcome] = []

    def subscribe(resume: Callable[[], object]) -> None:
        def elected(outcome: Outcome) -> None:
            outcomes.append(outcome)
            resume()

        controller.elect_leaders(named, kind, elected)

    yield subscribe
    results: dict[str, Result] = {}
    for name, outcome in outcomes[0].items():
        result = results.setdefault(name.topic, Result(topic=name.topic, partition_result=[]))
        result.partition_result.append(
            Result.PartitionResult(
                partition_id=name.partition, error_code=outcome, error_message=error_name(outcome) if outcome else None
            )
        )
        yield
    return ElectLeadersResponse(replica_election_results=list(results.values()))

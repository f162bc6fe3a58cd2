"""How a denial is answered, API by API: where the error code stands, and what stands beside it. Where there is room for a sentence it says
why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from milepost.broker.authorizer import Denial
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    AddPartitionsToTxnResponse,
    AlterClientQuotasResponse,
    AlterReplicaLogDirsResponse,
    AlterUserScramCredentialsResponse,
    CreateAclsResponse,
    DeleteAclsResponse,
    DescribeLogDirsResponse,
    FindCoordinatorResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    ProduceResponse,
    TxnOffsetCommitResponse,
    WriteTxnMarkersResponse,
)

Part = Callable[[Any, Denial], Any]
NAMES = ("name", "topic", "topic_id")


def at_the_top(response: Any, **fields: Any) -> Part:
    """An error code at the top; the sentence where there is a field for it."""
    has_message = "error_message" in response._defaults

    def answer(request: Any, denial: Denial) -> Any:
        message = {"error_message": denial.why} if has_message else {}
        return response(error_code=denial.code, **message, **fields)

    return answer


def of_element(part: Any, *names: str, **fields: Any) -> Part:
    """What says in the answer which element of the request is meant, with the error."""
    has_message = "error_message" in part._defaults

    def answer(element: Any, denial: Denial) -> Any:
        message = {"error_message": denial.why} if has_message else {}
        return part(**{name: getattr(element, name) for name in names}, error_code=denial.code, **message, **fields)

    return answer


def of_name(part: Any, field: str, *, has_message: bool = False) -> Part:
    """The same where the element is a name."""
    return lambda name, denial: part(
        **{field: name}, error_code=denial.code, **({"error_message": denial.why} if has_message else {})
    )


def of_partitions(topic: Any, number: str = "partition_index", **fields: Any) -> Part:
    """A topic of the answer, with the code at each partition that the request names in it."""

    def answer(element: Any, denial: Denial) -> Any:
        named = {name: getattr(element, name) for name in NAMES if name in topic._defaults}
        partitions = [topic.Partition(**{number: index}, error_code=denial.code, **fields) for index in numbers_of(element)]
        return topic(**named, partitions=partitions)

    return answer


def of_all_partitions(response: Any, **fields: Any) -> Part:
    """The whole answer, with the code at each partition of each topic."""
    topic = of_partitions(response.Topic, **fields)
    return lambda request, denial: response(topics=[topic(each, denial) for each in request.topics])


def numbers_of(element: Any) -> Iterable[int]:
    if hasattr(element, "partition_indexes"):
        return element.partition_indexes  # type: ignore[no-any-return]
    return [
        each if isinstance(each, int) else each.partition_index if hasattr(each, "partition_index") else each.partition
        for each in element.partitions
    ]


# Those that look like no other.


def produced(element: Any, denial: Denial) -> Any:
    Partition = ProduceResponse.Response.PartitionResponse
    return ProduceResponse.Response(
        name=element.name,
        topic_id=element.topic_id,
        partition_responses=[
            Partition(index=part.index, error_code=denial.code, base_offset=-1, error_message=denial.why)
            for part in element.partition_data
        ],
    )


def not_produced(request: Any, denial: Denial) -> Any:
    return ProduceResponse(responses=[produced(topic, denial) for topic in request.topic_data])


def quotas(element: Any, denial: Denial) -> Any:
    Entry = AlterClientQuotasResponse.Entry
    entity = [Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name) for part in element.entity]
    return Entry(error_code=denial.code, error_message=denial.why, entity=entity)


def changed_passwords(request: Any, denial: Denial) -> Any:
    Result = AlterUserScramCredentialsResponse.Result
    users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[Result(user=user, error_code=denial.code, error_message=denial.why) for user in users]
    )


def moved_directories(request: Any, denial: Denial) -> Any:
    Result = AlterReplicaLogDirsResponse.Result
    return AlterReplicaLogDirsResponse(
        results=[
            Result(
                topic_name=moved.name,
                partitions=[Result.Partition(partition_index=number, error_code=denial.code) for number in moved.partitions],
            )
            for directory in request.dirs
            for moved in directory.topics
        ]
    )


def no_directories(request: Any, denial: Denial) -> Any:
    """Before version 3 there is no room for the error, and the list is empty, as from Kafka."""
    return DescribeLogDirsResponse(error_code=denial.code)


def added_partitions(request: Any, codes: Callable[[str, int], int]) -> Any:
    Result = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            Result(
                name=added.name,
                results_by_partition=[
                    Result.ResultsByPartition(partition_index=number, partition_error_code=codes(added.name, number))
                    for number in added.partitions
                ],
            )
            for added in request.v3_and_below_topics
        ]
    )


def no_partitions_added(request: Any, denial: Denial) -> Any:
    return added_partitions(request, lambda topic, number: denial.code)


def written_markers(element: Any, denial: Denial) -> Any:
    Marker = WriteTxnMarkersResponse.Marker
    topic = of_partitions(Marker.Topic)
    return Marker(producer_id=element.producer_id, topics=[topic(each, denial) for each in element.topics])


def coordinator(element: str, denial: Denial) -> Any:
    return FindCoordinatorResponse.Coordinator(key=element, error_code=denial.code, error_message=denial.why, node_id=-1, port=-1)


no_offsets_committed = of_all_partitions(OffsetCommitResponse)
no_offsets_committed_in_transaction = of_all_partitions(TxnOffsetCommitResponse)
unknown_offsets = of_partitions(OffsetFetchResponse.Topic, committed_offset=-1, committed_leader_epoch=-1, metadata="")
unknown_offsets_of_group = of_partitions(
    OffsetFetchResponse.Group.Topic, committed_offset=-1, committed_leader_epoch=-1, metadata=""
)


def no_offsets(request: Any, version: int, denial: Denial) -> Any:
    """Up to version 7; in version 1 the error stands with every partition."""
    if version >= 2:
        return OffsetFetchResponse(error_code=denial.code)
    return OffsetFetchResponse(topics=[unknown_offsets(topic, denial) for topic in request.topics or ()])


def no_acls_created(request: Any, denial: Denial) -> Any:
    return CreateAclsResponse(
        results=[CreateAclsResponse.Result(error_code=denial.code, error_message=denial.why) for _ in request.creations]
    )


def no_acls_deleted(request: Any, denial: Denial) -> Any:
    Result = DeleteAclsResponse.FilterResult
    return DeleteAclsResponse(
        filter_results=[Result(error_code=denial.code, error_message=denial.why, matching_acls=[]) for _ in request.filters]
    )


def not_attempted(denied: dict[str, Denial], is_there: Callable[[str, int], bool]) -> Callable[[str, int], int]:
    """All partitions are added to a transaction, or none."""

    def code(topic: str, number: int) -> int:
        if topic in denied:
            return denied[topic].code
        return ErrorCode.OPERATION_NOT_ATTEMPTED if is_there(topic, number) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return code

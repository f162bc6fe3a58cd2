"""How a request asks the authorizer, and how it is refused: for each API the resources that it names, and the answer to a denial.

A request whose every resource is denied is answered here. Of one with some that are denied the handler gets the rest, and what was denied
is added to its answer (`Context.refused`), so that handlers know of none of this. Where the answer has room for a sentence, it says why.

Not asked yet: who may read (UNGUARDED), and who may do what between brokers, which is decided by the proof of a connection
(`inter_broker`). A new API for clients has to be put into one of these tables before it is served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from milepost.broker.authorizer import Access, Authorizer, Denial, Operation, ResourceType, denial_of
from milepost.protocol.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    AlterClientQuotasResponse,
    AlterConfigsResponse,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsResponse,
    AlterUserScramCredentialsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    EndTxnResponse,
    IncrementalAlterConfigsResponse,
    InitProducerIdResponse,
    ProduceResponse,
    UpdateFeaturesResponse,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from milepost.broker.context import Context

TOPIC_RESOURCE = 2
"""In a request about settings."""
Handler = Callable[..., Any]


class Guard(Protocol):
    def refuses(self, request: Any, context: Context, authorizer: Authorizer) -> bool:
        """Whether the request was denied, and answered."""


def guarded(handler: Handler, guard: Guard, authorizer: Authorizer) -> Handler:
    def handle(request: Any, context: Context, **parts: Any) -> Any:
        if guard.refuses(request, context, authorizer):
            return None
        return handler(request, context, **parts)

    return handle


class WholeRequest:
    """One resource, and one error at the top of the answer."""

    def __init__(self, access: Callable[[Any], Access], answer: Callable[[Any, Denial], Any]):
        self._access = access
        self._answer = answer

    def refuses(self, request: Any, context: Context, authorizer: Authorizer) -> bool:
        denial = denial_of(self._access(request), context, authorizer)
        if denial is not None:
            context.answer(self._answer(request, denial))
        return denial is not None


class EachElement:
    """A resource in each element of a list, each with its part of the answer."""

    def __init__(
        self,
        field: str,
        access: Callable[[Any, Context], Access],
        response: Callable[[], Any],
        response_field: str,
        part: Callable[[Any, Denial], Any],
        key: Callable[[Any], object] | None = None,
    ):
        """`key`: what is answered once, however often it is named."""
        self._field = field
        self._access = access
        self._response = response
        self._response_field = response_field
        self._part = part
        self._key = key

    def refuses(self, request: Any, context: Context, authorizer: Authorizer) -> bool:
        elements: Sequence[Any] = getattr(request, self._field)
        denied: dict[object, Any] = {}
        allowed = []
        for number, element in enumerate(elements):
            denial = denial_of(self._access(element, context), context, authorizer)
            if denial is None:
                allowed.append(element)
            else:
                denied[number if self._key is None else self._key(element)] = self._part(element, denial)
        if not denied:
            return False
        parts = list(denied.values())
        if allowed:
            setattr(request, self._field, allowed)
            context.refused = self._response_field, parts
            return False
        response = self._response()
        setattr(response, self._response_field, parts)
        self.answer(request, response, context)
        return True

    def answer(self, request: Any, response: Any, context: Context) -> None:
        context.answer(response)


class EachProducedTopic(EachElement):
    def answer(self, request: Any, response: Any, context: Context) -> None:
        """Without acknowledgement there is no answer to say it in."""
        if request.acks == 0:
            context.close("a produce request without acknowledgement was denied")
        else:
            context.answer(response)


class SinceVersion:
    """What the request looks like depends on its version."""

    def __init__(self, version: int, guard: Guard, before: Guard):
        self._version = version
        self._guard = guard
        self._before = before

    def refuses(self, request: Any, context: Context, authorizer: Authorizer) -> bool:
        guard = self._guard if context.version >= self._version else self._before
        return guard.refuses(request, context, authorizer)


# Resources.


def topic(operation: Operation) -> Callable[[Any, Context], Access]:
    return lambda element, context: Access(operation, ResourceType.TOPIC, element.name)


def topic_by_id(operation: Operation) -> Callable[[Any, Context], Access]:
    """By its name, or by its id where it has none."""

    def access(element: Any, context: Context) -> Access:
        return Access(operation, ResourceType.TOPIC, element.name or context.broker.cluster.name_of(element.topic_id) or "")

    return access


def the_cluster(operation: Operation) -> Callable[..., Access]:
    return lambda *named: Access(operation, ResourceType.CLUSTER)


def transactional_id(request: Any) -> Access:
    return Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)


def producer(request: Any) -> Access:
    if request.transactional_id is None:
        return Access(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    return transactional_id(request)


def configured(resource: Any, context: Context) -> Access:
    if resource.resource_type == TOPIC_RESOURCE:
        return Access(Operation.ALTER_CONFIGS, ResourceType.TOPIC, resource.resource_name)
    return Access(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)


# Answers.


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


def deleted_records(element: Any, denial: Denial) -> Any:
    Topic = DeleteRecordsResponse.Topic
    return Topic(
        name=element.name,
        partitions=[
            Topic.Partition(partition_index=part.partition_index, low_watermark=-1, error_code=denial.code)
            for part in element.partitions
        ],
    )


def configured_by(response: Any) -> Callable[[Any, Denial], Any]:
    return lambda element, denial: response(
        error_code=denial.code,
        error_message=denial.why,
        resource_type=element.resource_type,
        resource_name=element.resource_name,
    )


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


def added_partitions(request: Any, denial: Denial) -> Any:
    Result = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            Result(
                name=added.name,
                results_by_partition=[
                    Result.ResultsByPartition(partition_index=number, partition_error_code=denial.code)
                    for number in added.partitions
                ],
            )
            for added in request.v3_and_below_topics
        ]
    )


def committed(request: Any, denial: Denial) -> Any:
    from milepost.broker.requests.txn_offset_commit import refused  # when somebody is denied it

    return refused(request, denial.code)


def written_markers(element: Any, denial: Denial) -> Any:
    Marker = WriteTxnMarkersResponse.Marker
    topics = [
        Marker.Topic(
            name=each.name,
            partitions=[
                Marker.Topic.Partition(partition_index=number, error_code=denial.code) for number in each.partition_indexes
            ],
        )
        for each in element.topics
    ]
    return Marker(producer_id=element.producer_id, topics=topics)


def by_name(response: Any) -> Callable[[Any, Denial], Any]:
    return lambda element, denial: response(name=element.name, error_code=denial.code, error_message=denial.why)


def name_of(element: Any) -> object:
    return element.name


Delete = DeleteTopicsResponse.Response

GUARDS: dict[str, Guard] = {
    "AddOffsetsToTxn": WholeRequest(transactional_id, lambda request, denial: AddOffsetsToTxnResponse(error_code=denial.code)),
    "AddPartitionsToTxn": SinceVersion(
        4,
        WholeRequest(
            the_cluster(Operation.CLUSTER_ACTION), lambda request, denial: AddPartitionsToTxnResponse(error_code=denial.code)
        ),
        WholeRequest(
            lambda request: Access(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id),
            added_partitions,
        ),
    ),
    "AlterClientQuotas": EachElement(
        "entries", the_cluster(Operation.ALTER_CONFIGS), AlterClientQuotasResponse, "entries", quotas
    ),
    "AlterUserScramCredentials": WholeRequest(the_cluster(Operation.ALTER), changed_passwords),
    "AlterConfigs": EachElement(
        "resources", configured, AlterConfigsResponse, "responses", configured_by(AlterConfigsResponse.Response)
    ),
    "AlterPartitionReassignments": WholeRequest(
        the_cluster(Operation.ALTER),
        lambda request, denial: AlterPartitionReassignmentsResponse(error_code=denial.code, error_message=denial.why),
    ),
    "AlterReplicaLogDirs": WholeRequest(the_cluster(Operation.ALTER), moved_directories),
    "CreatePartitions": EachElement(
        "topics", topic(Operation.ALTER), CreatePartitionsResponse, "results", by_name(CreatePartitionsResponse.Result), name_of
    ),
    "CreateTopics": EachElement(
        "topics", topic(Operation.CREATE), CreateTopicsResponse, "topics", by_name(CreateTopicsResponse.Topic), name_of
    ),
    "DeleteRecords": EachElement("topics", topic(Operation.DELETE), DeleteRecordsResponse, "topics", deleted_records),
    "DeleteTopics": SinceVersion(
        6,
        EachElement(
            "topics",
            topic_by_id(Operation.DELETE),
            DeleteTopicsResponse,
            "responses",
            lambda element, denial: Delete(
                name=element.name, topic_id=element.topic_id, error_code=denial.code, error_message=denial.why
            ),
        ),
        EachElement(
            "topic_names",
            lambda name, context: Access(Operation.DELETE, ResourceType.TOPIC, name),
            DeleteTopicsResponse,
            "responses",
            lambda name, denial: Delete(name=name, error_code=denial.code, error_message=denial.why),
        ),
    ),
    "EndTxn": WholeRequest(transactional_id, lambda request, denial: EndTxnResponse(error_code=denial.code)),
    "IncrementalAlterConfigs": EachElement(
        "resources",
        configured,
        IncrementalAlterConfigsResponse,
        "responses",
        configured_by(IncrementalAlterConfigsResponse.Response),
    ),
    "InitProducerId": WholeRequest(
        producer,
        lambda request, denial: InitProducerIdResponse(error_code=denial.code, producer_id=-1, producer_epoch=-1),
    ),
    "Produce": EachProducedTopic("topic_data", topic_by_id(Operation.WRITE), ProduceResponse, "responses", produced),
    "TxnOffsetCommit": WholeRequest(transactional_id, committed),
    "UpdateFeatures": WholeRequest(
        the_cluster(Operation.ALTER),
        lambda request, denial: UpdateFeaturesResponse(error_code=denial.code, error_message=denial.why),
    ),
    "WriteTxnMarkers": EachElement(
        "markers", the_cluster(Operation.CLUSTER_ACTION), WriteTxnMarkersResponse, "markers", written_markers
    ),
}

# Not asked: reading, and what an attached broker keeps in memory only.
UNGUARDED = frozenset(
    [
        "ApiVersions",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "DeleteGroups",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "ElectLeaders",
        "Fetch",
        "FindCoordinator",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "ListPartitionReassignments",
        "ListTransactions",
        "Metadata",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "SyncGroup",
    ]
)

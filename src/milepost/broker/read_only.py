"""What a broker that only reads answers to requests that would write: what Kafka answers a client that may only read.

    Produce, CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, settings of a topic     29 TOPIC_AUTHORIZATION_FAILED
    InitProducerId without a transactional id, settings of a broker, quotas, features, data
    directories                                                                                   31 CLUSTER_AUTHORIZATION_FAILED
    InitProducerId with one, and everything in transactions                                       53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED

Clients know these codes and do not try again, with idempotence or without. Where the answer has room for a sentence, it says why.

Groups are served: their members, and the offsets they commit, are kept in memory. An API that is in neither table below is not
served and not listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.broker.apis import txn_offset_commit
from milepost.broker.dispatch import ApiHandler, Dispatcher
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    EndTxnRequest,
    EndTxnResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.net.request import Request
    from milepost.protocol.apis import Api

WHY = "the directories are attached for reading: nothing can be written to this broker"
TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_RESOURCE = 2

# Those that change nothing, or only what is in memory.
READING = frozenset(
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


class ReadOnlyDispatcher(Dispatcher):
    def __init__(self, broker: Parts):
        super().__init__(broker)
        self.served = {key: api for key, api in self.served.items() if api.name in READING or api.name in REFUSALS}

    def remember(self, request: Request, body: ProduceRequest, version: int) -> None:
        """Nothing: each goes to its refusal."""

    def handler_of(self, api: Api) -> ApiHandler:
        return REFUSALS.get(api.name) or super().handler_of(api)


# Records.


def produce(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    if request.acks == 0:
        context.close(WHY)
        return None
    Partition = ProduceResponse.Response.PartitionResponse
    return ProduceResponse(
        responses=[
            ProduceResponse.Response(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    Partition(index=part.index, error_code=TOPIC, base_offset=-1, error_message=WHY)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    Topic = DeleteRecordsResponse.Topic
    return DeleteRecordsResponse(
        topics=[
            Topic(
                name=topic.name,
                partitions=[
                    Topic.Partition(partition_index=part.partition_index, low_watermark=-1, error_code=TOPIC)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


# Topics and settings.


def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    Topic = CreateTopicsResponse.Topic
    return CreateTopicsResponse(
        topics=[Topic(name=name, error_code=TOPIC, error_message=WHY) for name in {topic.name: None for topic in request.topics}]
    )


def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    Answer = DeleteTopicsResponse.Response
    if context.version < 6:
        return DeleteTopicsResponse(
            responses=[Answer(name=name, error_code=TOPIC, error_message=WHY) for name in request.topic_names]
        )
    return DeleteTopicsResponse(
        responses=[
            Answer(name=topic.name, topic_id=topic.topic_id, error_code=TOPIC, error_message=WHY) for topic in request.topics
        ]
    )


def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    Result = CreatePartitionsResponse.Result
    return CreatePartitionsResponse(
        results=[
            Result(name=name, error_code=TOPIC, error_message=WHY) for name in {topic.name: None for topic in request.topics}
        ]
    )


def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[refused_resource(AlterConfigsResponse.Response, each) for each in request.resources])


def incremental_alter_configs(request: IncrementalAlterConfigsRequest, context: Context) -> IncrementalAlterConfigsResponse:
    Response = IncrementalAlterConfigsResponse.Response
    return IncrementalAlterConfigsResponse(responses=[refused_resource(Response, each) for each in request.resources])


def refused_resource(response: Any, resource: Any) -> Any:
    return response(
        error_code=TOPIC if resource.resource_type == TOPIC_RESOURCE else CLUSTER,
        error_message=WHY,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def alter_client_quotas(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
    Entry = AlterClientQuotasResponse.Entry
    return AlterClientQuotasResponse(
        entries=[
            Entry(
                error_code=CLUSTER,
                error_message=WHY,
                entity=[Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
            )
            for entry in request.entries
        ]
    )


def update_features(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=CLUSTER, error_message=WHY)


def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, context: Context) -> AlterReplicaLogDirsResponse:
    Result = AlterReplicaLogDirsResponse.Result
    return AlterReplicaLogDirsResponse(
        results=[
            Result(
                topic_name=topic.name,
                partitions=[Result.Partition(partition_index=number, error_code=CLUSTER) for number in topic.partitions],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


# Producers and transactions.


def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    code = CLUSTER if request.transactional_id is None else TRANSACTION
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def add_partitions_to_txn(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    if context.version >= 4:
        return AddPartitionsToTxnResponse(error_code=CLUSTER)
    Result = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            Result(
                name=topic.name,
                results_by_partition=[
                    Result.ResultsByPartition(partition_index=number, partition_error_code=TRANSACTION)
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=TRANSACTION)


def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    return EndTxnResponse(error_code=TRANSACTION)


def commit_in_txn(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    return txn_offset_commit.refused(request, TRANSACTION)


REFUSALS: dict[str, ApiHandler] = {
    "AddOffsetsToTxn": add_offsets_to_txn,
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AlterClientQuotas": alter_client_quotas,
    "AlterConfigs": alter_configs,
    "AlterReplicaLogDirs": alter_replica_log_dirs,
    "CreatePartitions": create_partitions,
    "CreateTopics": create_topics,
    "DeleteRecords": delete_records,
    "DeleteTopics": delete_topics,
    "EndTxn": end_txn,
    "IncrementalAlterConfigs": incremental_alter_configs,
    "InitProducerId": init_producer_id,
    "Produce": produce,
    "TxnOffsetCommit": commit_in_txn,
    "UpdateFeatures": update_features,
}

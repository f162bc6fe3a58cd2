"""One request of every API that is served, for a topic `visits`, a group `readers` and a transactional id `t`; what Kafka answers to
somebody who may do nothing, and the rights that are enough for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from milepost.protocol.message import Message
from milepost.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListConfigResourcesRequest,
    ListOffsetsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    UpdateFeaturesRequest,
    WriteTxnMarkersRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.security.acls import Operation, ResourceType

VISITS, READERS, TRANSACTION = "visits", "readers", "t"
TOPIC, GROUP, CLUSTER, TXN = 29, 30, 31, 53
CODES = {TOPIC, GROUP, CLUSTER, TXN}
NAMES = {
    ResourceType.TOPIC: VISITS,
    ResourceType.GROUP: READERS,
    ResourceType.CLUSTER: "kafka-cluster",
    ResourceType.TRANSACTIONAL_ID: TRANSACTION,
}
Right = tuple[ResourceType, Operation]
T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
R, W, D = Operation.READ, Operation.WRITE, Operation.DESCRIBE
CREATE, DELETE, ALTER = Operation.CREATE, Operation.DELETE, Operation.ALTER
SHOW, SET, ACTION = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION


class Case(NamedTuple):
    request: Callable[[int, bytes], Message]
    """Of a version, and of the id of the topic."""
    denied: int
    """The code for who has no rights at all."""
    rights: tuple[tuple[Right, ...], ...]
    """Each is enough; of each every right is needed."""
    first: int = 0
    """The first version it is asked in."""
    last: int = 99


def records() -> memoryview:
    return memoryview(build_batch([Record(0, 1, None, b"x")]))


def produce(version: int, topic_id: bytes, transactional_id: str | None = None) -> Message:
    Topic = ProduceRequest.TopicData
    named = {"topic_id": topic_id} if version >= 13 else {"name": VISITS}
    topic = Topic(**named, partition_data=[Topic.PartitionData(index=0, records=records())])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic], transactional_id=transactional_id)


def fetch(version: int, topic_id: bytes) -> Message:
    Topic = FetchRequest.Topic
    named = {"topic_id": topic_id} if version >= 13 else {"topic": VISITS}
    return FetchRequest(
        max_wait_ms=0,
        session_epoch=-1,
        topics=[Topic(**named, partitions=[Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)])],
    )


def list_offsets(version: int, topic_id: bytes) -> Message:
    Topic = ListOffsetsRequest.Topic
    return ListOffsetsRequest(
        replica_id=-1, topics=[Topic(name=VISITS, partitions=[Topic.Partition(partition_index=0, timestamp=-1)])]
    )


def epochs(version: int, topic_id: bytes) -> Message:
    Topic = OffsetForLeaderEpochRequest.Topic
    return OffsetForLeaderEpochRequest(topics=[Topic(topic=VISITS, partitions=[Topic.Partition(partition=0, leader_epoch=0)])])


def metadata(version: int, topic_id: bytes) -> Message:
    topic = MetadataRequest.Topic(name=None, topic_id=topic_id) if version >= 12 else MetadataRequest.Topic(name=VISITS)
    return MetadataRequest(topics=[topic])


def metadata_of_new_topic(version: int, topic_id: bytes) -> Message:
    return MetadataRequest(topics=[MetadataRequest.Topic(name=VISITS + "2")])


def create_topics(version: int, topic_id: bytes) -> Message:
    return CreateTopicsRequest(
        topics=[CreateTopicsRequest.Topic(name=VISITS, num_partitions=1, replication_factor=1)], validate_only=True
    )


def create_partitions(version: int, topic_id: bytes) -> Message:
    return CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name=VISITS, count=9)], validate_only=True)


def delete_topics(version: int, topic_id: bytes) -> Message:
    """Nothing is deleted: a topic that is named twice stays."""
    if version < 6:
        return DeleteTopicsRequest(topic_names=[VISITS] * 2)
    Topic = DeleteTopicsRequest.Topic
    return DeleteTopicsRequest(topics=[Topic(name=VISITS), Topic(name=None, topic_id=topic_id)])


def delete_records(version: int, topic_id: bytes) -> Message:
    Topic = DeleteRecordsRequest.Topic
    return DeleteRecordsRequest(topics=[Topic(name=VISITS, partitions=[Topic.Partition(partition_index=0, offset=0)])])


def offset_commit(version: int, topic_id: bytes) -> Message:
    Topic = OffsetCommitRequest.Topic
    named = {"topic_id": topic_id} if version >= 10 else {"name": VISITS}
    part = Topic.Partition(partition_index=0, committed_offset=0, committed_metadata="")
    return OffsetCommitRequest(group_id=READERS, generation_id_or_member_epoch=-1, topics=[Topic(**named, partitions=[part])])


def offset_fetch(version: int, topic_id: bytes) -> Message:
    if version < 8:
        return OffsetFetchRequest(group_id=READERS, topics=[OffsetFetchRequest.Topic(name=VISITS, partition_indexes=[0])])
    Group = OffsetFetchRequest.Group
    named = {"topic_id": topic_id} if version >= 10 else {"name": VISITS}
    return OffsetFetchRequest(groups=[Group(group_id=READERS, topics=[Group.Topic(**named, partition_indexes=[0])])])


def offset_delete(version: int, topic_id: bytes) -> Message:
    Topic = OffsetDeleteRequest.Topic
    return OffsetDeleteRequest(group_id=READERS, topics=[Topic(name=VISITS, partitions=[Topic.Partition(partition_index=0)])])


def find_coordinator(key_type: int, key: str) -> Callable[[int, bytes], Message]:
    def request(version: int, topic_id: bytes) -> Message:
        kind = {"key_type": key_type} if version >= 1 else {}
        if version >= 4:
            return FindCoordinatorRequest(**kind, coordinator_keys=[key])
        return FindCoordinatorRequest(**kind, key=key)

    return request


def leave_group(version: int, topic_id: bytes) -> Message:
    if version < 3:
        return LeaveGroupRequest(group_id=READERS, member_id="m")
    return LeaveGroupRequest(group_id=READERS, members=[LeaveGroupRequest.Member(member_id="m")])


def add_partitions(version: int, topic_id: bytes) -> Message:
    if version >= 4:
        Transaction = AddPartitionsToTxnRequest.Transaction
        topics = [Transaction.Topic(name=VISITS, partitions=[0])]
        return AddPartitionsToTxnRequest(transactions=[Transaction(transactional_id=TRANSACTION, topics=topics)])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_topics=[AddPartitionsToTxnRequest.V3AndBelowTopic(name=VISITS, partitions=[0])],
    )


def txn_offset_commit(version: int, topic_id: bytes) -> Message:
    Topic = TxnOffsetCommitRequest.Topic
    part = Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    return TxnOffsetCommitRequest(transactional_id=TRANSACTION, group_id=READERS, topics=[Topic(name=VISITS, partitions=[part])])


def write_markers(version: int, topic_id: bytes) -> Message:
    """Refused for its producer id, if it comes so far."""
    Marker = WriteTxnMarkersRequest.Marker
    topics = [Marker.Topic(name=VISITS, partition_indexes=[0])]
    return WriteTxnMarkersRequest(markers=[Marker(producer_id=-1, producer_epoch=0, topics=topics)])


def configs_of(kind: int, name: str, request: Any, **fields: Any) -> Callable[[int, bytes], Message]:
    return lambda version, topic_id: request(resources=[request.Resource(resource_type=kind, resource_name=name)], **fields)


def same(request: Callable[[], Message]) -> Callable[[int, bytes], Message]:
    return lambda version, topic_id: request()


def join_group(version: int, topic_id: bytes) -> Message:
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id=READERS, session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[protocol]
    )


def quotas() -> Message:
    Entry = AlterClientQuotasRequest.Entry
    return AlterClientQuotasRequest(
        entries=[Entry(entity=[Entry.Entity(entity_type="user", entity_name="u")], ops=[])], validate_only=True
    )


def password() -> Message:
    """Refused for its name, if it comes so far."""
    Deletion = AlterUserScramCredentialsRequest.Deletion
    return AlterUserScramCredentialsRequest(deletions=[Deletion(name="", mechanism=1)])


def creation() -> Message:
    """Refused for its principal, if it comes so far."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.Creation(
                resource_type=2, resource_name="x", principal="nobody", host="*", operation=3, permission_type=3
            )
        ]
    )


def deletion() -> Message:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.Filter(
                resource_type_filter=2,
                resource_name_filter="nothing",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    )


def reassignment() -> Message:
    Topic = AlterPartitionReassignmentsRequest.Topic
    return AlterPartitionReassignmentsRequest(
        topics=[Topic(name=VISITS, partitions=[Topic.Partition(partition_index=0, replicas=None)])]
    )


def directories() -> Message:
    Dir = AlterReplicaLogDirsRequest.Dir
    return AlterReplicaLogDirsRequest(dirs=[Dir(path="/d", topics=[Dir.Topic(name=VISITS, partitions=[0])])])


def acl_filter() -> Message:
    return DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def one(*rights: Right) -> tuple[tuple[Right, ...], ...]:
    return (rights,)


CASES: dict[str, Case] = {
    "Produce": Case(produce, TOPIC, one((T, W))),
    "Produce in a transaction": Case(lambda v, i: produce(v, i, TRANSACTION), TXN, one((X, W), (T, W))),
    "Fetch": Case(fetch, TOPIC, one((T, R))),
    "ListOffsets": Case(list_offsets, TOPIC, one((T, D))),
    "OffsetForLeaderEpoch": Case(epochs, TOPIC, (((T, D),), ((C, ACTION),))),
    "DeleteRecords": Case(delete_records, TOPIC, one((T, DELETE))),
    "DescribeProducers": Case(
        same(lambda: DescribeProducersRequest(topics=[DescribeProducersRequest.Topic(name=VISITS, partition_indexes=[0])])),
        TOPIC,
        one((T, R)),
    ),
    "Metadata": Case(metadata, TOPIC, one((T, D))),
    "Metadata of a new topic": Case(metadata_of_new_topic, TOPIC, ()),
    "DescribeTopicPartitions": Case(
        same(lambda: DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.Topic(name=VISITS)])),
        TOPIC,
        one((T, D)),
    ),
    "CreateTopics": Case(create_topics, TOPIC, (((T, CREATE), (T, SHOW)), ((C, CREATE), (T, SHOW)))),
    "CreatePartitions": Case(create_partitions, TOPIC, one((T, ALTER))),
    "DeleteTopics": Case(delete_topics, TOPIC, one((T, DELETE))),
    "AlterReplicaLogDirs": Case(same(directories), CLUSTER, one((C, ALTER))),
    "DescribeLogDirs": Case(same(lambda: DescribeLogDirsRequest(topics=None)), CLUSTER, one((C, D)), first=3),
    "ElectLeaders": Case(same(lambda: ElectLeadersRequest(topic_partitions=[])), CLUSTER, one((C, ALTER)), first=1),
    "AlterPartitionReassignments": Case(same(reassignment), CLUSTER, one((C, ALTER))),
    "ListPartitionReassignments": Case(same(ListPartitionReassignmentsRequest), CLUSTER, one((C, D))),
    "FindCoordinator": Case(find_coordinator(0, READERS), GROUP, one((G, D))),
    "FindCoordinator of a transaction": Case(find_coordinator(1, TRANSACTION), TXN, one((X, D)), first=1),
    "JoinGroup": Case(join_group, GROUP, one((G, R))),
    "SyncGroup": Case(same(lambda: SyncGroupRequest(group_id=READERS, member_id="m")), GROUP, one((G, R))),
    "Heartbeat": Case(same(lambda: HeartbeatRequest(group_id=READERS, member_id="m")), GROUP, one((G, R))),
    "LeaveGroup": Case(leave_group, GROUP, one((G, R))),
    "ConsumerGroupHeartbeat": Case(
        same(
            lambda: ConsumerGroupHeartbeatRequest(
                group_id=READERS, member_id="m", member_epoch=-1, subscribed_topic_names=[VISITS]
            )
        ),
        GROUP,
        one((G, R), (T, D)),
    ),
    "OffsetCommit": Case(offset_commit, GROUP, one((G, R), (T, R))),
    "OffsetFetch": Case(offset_fetch, GROUP, one((G, D), (T, D))),
    "OffsetDelete": Case(offset_delete, GROUP, one((G, DELETE), (T, R))),
    "DescribeGroups": Case(same(lambda: DescribeGroupsRequest(groups=[READERS])), GROUP, one((G, D))),
    "ConsumerGroupDescribe": Case(same(lambda: ConsumerGroupDescribeRequest(group_ids=[READERS])), GROUP, one((G, D))),
    "DeleteGroups": Case(same(lambda: DeleteGroupsRequest(groups_names=[READERS])), GROUP, one((G, DELETE))),
    "InitProducerId": Case(
        same(lambda: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)),
        CLUSTER,
        (((T, W),), ((C, Operation.IDEMPOTENT_WRITE),)),
    ),
    "InitProducerId of a transaction": Case(
        same(lambda: InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=1000)), TXN, one((X, W))
    ),
    "AddPartitionsToTxn": Case(add_partitions, TXN, one((X, W), (T, W)), last=3),
    "AddOffsetsToTxn": Case(
        same(lambda: AddOffsetsToTxnRequest(transactional_id=TRANSACTION, group_id=READERS)), TXN, one((X, W), (G, R))
    ),
    "EndTxn": Case(same(lambda: EndTxnRequest(transactional_id=TRANSACTION)), TXN, one((X, W))),
    "TxnOffsetCommit": Case(txn_offset_commit, TXN, one((X, W), (G, R), (T, R))),
    "WriteTxnMarkers": Case(write_markers, CLUSTER, (((C, ALTER),), ((C, ACTION),))),
    "DescribeTransactions": Case(same(lambda: DescribeTransactionsRequest(transactional_ids=[TRANSACTION])), TXN, one((X, D))),
    "DescribeConfigs": Case(configs_of(2, VISITS, DescribeConfigsRequest), TOPIC, one((T, SHOW))),
    "DescribeConfigs of a broker": Case(configs_of(4, "0", DescribeConfigsRequest), CLUSTER, one((C, SHOW))),
    "DescribeConfigs of a logger": Case(configs_of(8, "0", DescribeConfigsRequest), CLUSTER, one((C, SHOW))),
    "DescribeConfigs of a group": Case(configs_of(32, READERS, DescribeConfigsRequest), GROUP, one((G, SHOW))),
    "AlterConfigs": Case(configs_of(2, VISITS, AlterConfigsRequest, validate_only=True), TOPIC, one((T, SET))),
    "AlterConfigs of a broker": Case(configs_of(4, "0", AlterConfigsRequest, validate_only=True), CLUSTER, one((C, SET))),
    "IncrementalAlterConfigs": Case(
        configs_of(2, VISITS, IncrementalAlterConfigsRequest, validate_only=True), TOPIC, one((T, SET))
    ),
    "IncrementalAlterConfigs of a group": Case(
        configs_of(32, READERS, IncrementalAlterConfigsRequest, validate_only=True), GROUP, one((G, SET))
    ),
    "IncrementalAlterConfigs of a broker": Case(
        configs_of(4, "0", IncrementalAlterConfigsRequest, validate_only=True), CLUSTER, one((C, SET))
    ),
    "ListConfigResources": Case(same(ListConfigResourcesRequest), CLUSTER, one((C, SHOW))),
    "DescribeClientQuotas": Case(same(DescribeClientQuotasRequest), CLUSTER, one((C, SHOW))),
    "AlterClientQuotas": Case(same(quotas), CLUSTER, one((C, SET))),
    "DescribeUserScramCredentials": Case(same(DescribeUserScramCredentialsRequest), CLUSTER, one((C, D))),
    "AlterUserScramCredentials": Case(same(password), CLUSTER, one((C, ALTER))),
    "UpdateFeatures": Case(same(UpdateFeaturesRequest), CLUSTER, one((C, ALTER))),
    "DescribeQuorum": Case(same(DescribeQuorumRequest), CLUSTER, one((C, D))),
    "DescribeAcls": Case(same(acl_filter), CLUSTER, one((C, D))),
    "CreateAcls": Case(same(creation), CLUSTER, one((C, ALTER))),
    "DeleteAcls": Case(same(deletion), CLUSTER, one((C, ALTER))),
}
"""By the name of the API, and what is special about the request."""

LISTED = {"ListGroups", "ListTransactions", "DescribeCluster"}
"""They leave out what may not be seen, or say what may be done; no error."""

"""The table: for each API the resources that it names, the operations that it asks for, and the answer to a denial, as in Kafka.

    29 of a topic · 30 of a group · 31 of the cluster · 53 of a transactional id

A new API has to be put into this table before it is served. UNGUARDED are those that ask nothing: a client finds out by them how to talk,
and who it is.
"""

from __future__ import annotations

from milepost.broker.rights import answers
from milepost.broker.rights.answers import at_the_top, of_element, of_name, of_partitions
from milepost.broker.rights.guards import Both, EachElement, Guard, Listed, SinceVersion, WholeRequest
from milepost.broker.rights.resources import (
    cluster,
    configured,
    group,
    named_group,
    named_topic,
    named_transaction,
    on_cluster,
    on_group,
    on_topic,
    on_transaction,
    produced_in,
    producer,
    topic,
    topic_by_id,
    transaction,
)
from milepost.broker.rights.special import (
    AddedPartitions,
    ClusterOperations,
    CommittedOffsets,
    CreatedTopics,
    DeletedTopics,
    DescribedGroups,
    DescribedTransactions,
    Fetched,
    FoundCoordinators,
    Metadata,
    Produced,
    SubscribedTopics,
    TopicPages,
)
from milepost.protocol.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    AllocateProducerIdsResponse,
    AlterClientQuotasResponse,
    AlterConfigsResponse,
    AlterPartitionReassignmentsResponse,
    AlterPartitionResponse,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    ControlledShutdownResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteGroupsResponse,
    DeleteRecordsResponse,
    DeleteTopicsResponse,
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeProducersResponse,
    DescribeQuorumResponse,
    DescribeTransactionsResponse,
    DescribeUserScramCredentialsResponse,
    ElectLeadersResponse,
    EndTxnResponse,
    HeartbeatResponse,
    IncrementalAlterConfigsResponse,
    InitProducerIdResponse,
    JoinGroupResponse,
    LeaderAndIsrResponse,
    LeaveGroupResponse,
    ListConfigResourcesResponse,
    ListOffsetsResponse,
    ListPartitionReassignmentsResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
    StopReplicaResponse,
    SyncGroupResponse,
    TxnOffsetCommitResponse,
    UpdateFeaturesResponse,
    UpdateMetadataResponse,
    WriteTxnMarkersResponse,
)
from milepost.security.acls import Operation

READ, WRITE, CREATE, DELETE, ALTER = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER
DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS = Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS = Operation.ALTER_CONFIGS


def name_of(element: object) -> object:
    return element.name  # type: ignore[attr-defined]


RECORDS: dict[str, Guard] = {
    "Produce": Both(
        WholeRequest(produced_in, answers.not_produced),
        Produced("topic_data", topic_by_id(WRITE), ProduceResponse, "responses", answers.produced),
    ),
    "Fetch": Fetched(),
    "ListOffsets": EachElement(
        "topics", topic(DESCRIBE), ListOffsetsResponse, "topics", of_partitions(ListOffsetsResponse.Topic)
    ),
    "OffsetForLeaderEpoch": EachElement(
        "topics",
        lambda each, context: (on_cluster(CLUSTER_ACTION), on_topic(DESCRIBE, each.topic)),
        OffsetForLeaderEpochResponse,
        "topics",
        of_partitions(OffsetForLeaderEpochResponse.Topic, "partition", leader_epoch=-1, end_offset=-1),
    ),
    "DeleteRecords": EachElement(
        "topics",
        topic(DELETE),
        DeleteRecordsResponse,
        "topics",
        of_partitions(DeleteRecordsResponse.Topic, low_watermark=-1),
    ),
    "DescribeProducers": EachElement(
        "topics", topic(READ), DescribeProducersResponse, "topics", of_partitions(DescribeProducersResponse.Topic)
    ),
}

TOPICS: dict[str, Guard] = {
    "Metadata": Metadata(),
    "DescribeTopicPartitions": TopicPages(),
    "CreateTopics": Both(
        EachElement(
            "topics",
            lambda each, context: (on_cluster(CREATE), on_topic(CREATE, each.name)),
            CreateTopicsResponse,
            "topics",
            of_element(CreateTopicsResponse.Topic, "name"),
            name_of,
        ),
        CreatedTopics(),
    ),
    "CreatePartitions": EachElement(
        "topics",
        topic(ALTER),
        CreatePartitionsResponse,
        "results",
        of_element(CreatePartitionsResponse.Result, "name"),
        name_of,
    ),
    "DeleteTopics": SinceVersion(
        6,
        DeletedTopics(),
        EachElement(
            "topic_names",
            named_topic(DELETE),
            DeleteTopicsResponse,
            "responses",
            of_name(DeleteTopicsResponse.Response, "name", has_message=True),
        ),
    ),
    "AlterReplicaLogDirs": WholeRequest(cluster(ALTER), answers.moved_directories),
    "DescribeLogDirs": WholeRequest(cluster(DESCRIBE), answers.no_directories),
    "ElectLeaders": WholeRequest(cluster(ALTER), at_the_top(ElectLeadersResponse)),
    "AlterPartitionReassignments": WholeRequest(cluster(ALTER), at_the_top(AlterPartitionReassignmentsResponse)),
    "ListPartitionReassignments": WholeRequest(cluster(DESCRIBE), at_the_top(ListPartitionReassignmentsResponse)),
}

GROUPS: dict[str, Guard] = {
    "FindCoordinator": FoundCoordinators(),
    "JoinGroup": WholeRequest(group(READ), at_the_top(JoinGroupResponse)),
    "SyncGroup": WholeRequest(group(READ), at_the_top(SyncGroupResponse)),
    "Heartbeat": WholeRequest(group(READ), at_the_top(HeartbeatResponse)),
    "LeaveGroup": WholeRequest(group(READ), at_the_top(LeaveGroupResponse)),
    "ConsumerGroupHeartbeat": Both(WholeRequest(group(READ), at_the_top(ConsumerGroupHeartbeatResponse)), SubscribedTopics()),
    "OffsetCommit": Both(
        WholeRequest(group(READ), answers.no_offsets_committed),
        EachElement("topics", topic_by_id(READ), OffsetCommitResponse, "topics", of_partitions(OffsetCommitResponse.Topic)),
    ),
    "OffsetFetch": CommittedOffsets(),
    "OffsetDelete": Both(
        WholeRequest(group(DELETE), at_the_top(OffsetDeleteResponse)),
        EachElement("topics", topic(READ), OffsetDeleteResponse, "topics", of_partitions(OffsetDeleteResponse.Topic)),
    ),
    "DescribeGroups": Both(
        EachElement(
            "groups",
            named_group(DESCRIBE),
            DescribeGroupsResponse,
            "groups",
            of_name(DescribeGroupsResponse.Group, "group_id"),
            str,
        ),
        DescribedGroups(),
    ),
    "ConsumerGroupDescribe": Both(
        EachElement(
            "group_ids",
            named_group(DESCRIBE),
            ConsumerGroupDescribeResponse,
            "groups",
            of_name(ConsumerGroupDescribeResponse.Group, "group_id"),
            str,
        ),
        DescribedGroups(),
    ),
    "ListGroups": Listed("groups", lambda each: (on_cluster(DESCRIBE), on_group(DESCRIBE, each.group_id))),
    "DeleteGroups": EachElement(
        "groups_names",
        named_group(DELETE),
        DeleteGroupsResponse,
        "results",
        of_name(DeleteGroupsResponse.Result, "group_id"),
        str,
    ),
}

TRANSACTIONS: dict[str, Guard] = {
    "InitProducerId": WholeRequest(producer, at_the_top(InitProducerIdResponse, producer_id=-1, producer_epoch=-1)),
    "AddPartitionsToTxn": SinceVersion(
        4,
        WholeRequest(cluster(CLUSTER_ACTION), at_the_top(AddPartitionsToTxnResponse)),
        Both(
            WholeRequest(
                lambda request: (on_transaction(WRITE, request.v3_and_below_transactional_id),), answers.no_partitions_added
            ),
            AddedPartitions(),
        ),
    ),
    "AddOffsetsToTxn": Both(
        WholeRequest(transaction(WRITE), at_the_top(AddOffsetsToTxnResponse)),
        WholeRequest(group(READ), at_the_top(AddOffsetsToTxnResponse)),
    ),
    "EndTxn": WholeRequest(transaction(WRITE), at_the_top(EndTxnResponse)),
    "TxnOffsetCommit": Both(
        WholeRequest(transaction(WRITE), answers.no_offsets_committed_in_transaction),
        Both(
            WholeRequest(group(READ), answers.no_offsets_committed_in_transaction),
            EachElement("topics", topic(READ), TxnOffsetCommitResponse, "topics", of_partitions(TxnOffsetCommitResponse.Topic)),
        ),
    ),
    "WriteTxnMarkers": EachElement(
        "markers", cluster(ALTER, CLUSTER_ACTION), WriteTxnMarkersResponse, "markers", answers.written_markers
    ),
    "DescribeTransactions": Both(
        EachElement(
            "transactional_ids",
            named_transaction(DESCRIBE),
            DescribeTransactionsResponse,
            "transaction_states",
            of_name(DescribeTransactionsResponse.TransactionState, "transactional_id"),
            str,
        ),
        DescribedTransactions(),
    ),
    "ListTransactions": Listed("transaction_states", lambda each: (on_transaction(DESCRIBE, each.transactional_id),)),
}

SETTINGS: dict[str, Guard] = {
    "DescribeConfigs": EachElement(
        "resources",
        configured(DESCRIBE_CONFIGS),
        DescribeConfigsResponse,
        "results",
        of_element(DescribeConfigsResponse.Result, "resource_type", "resource_name"),
    ),
    "AlterConfigs": EachElement(
        "resources",
        configured(ALTER_CONFIGS),
        AlterConfigsResponse,
        "responses",
        of_element(AlterConfigsResponse.Response, "resource_type", "resource_name"),
    ),
    "IncrementalAlterConfigs": EachElement(
        "resources",
        configured(ALTER_CONFIGS),
        IncrementalAlterConfigsResponse,
        "responses",
        of_element(IncrementalAlterConfigsResponse.Response, "resource_type", "resource_name"),
    ),
    "ListConfigResources": WholeRequest(cluster(DESCRIBE_CONFIGS), at_the_top(ListConfigResourcesResponse)),
    "DescribeClientQuotas": WholeRequest(cluster(DESCRIBE_CONFIGS), at_the_top(DescribeClientQuotasResponse, entries=None)),
    "AlterClientQuotas": EachElement("entries", cluster(ALTER_CONFIGS), AlterClientQuotasResponse, "entries", answers.quotas),
    "DescribeUserScramCredentials": WholeRequest(cluster(DESCRIBE), at_the_top(DescribeUserScramCredentialsResponse)),
    "AlterUserScramCredentials": WholeRequest(cluster(ALTER), answers.changed_passwords),
    "UpdateFeatures": WholeRequest(cluster(ALTER), at_the_top(UpdateFeaturesResponse)),
}

CLUSTER: dict[str, Guard] = {
    "DescribeCluster": ClusterOperations(),
    "DescribeQuorum": WholeRequest(cluster(DESCRIBE), at_the_top(DescribeQuorumResponse)),
    "DescribeAcls": WholeRequest(cluster(DESCRIBE), at_the_top(DescribeAclsResponse)),
    "CreateAcls": WholeRequest(cluster(ALTER), answers.no_acls_created),
    "DeleteAcls": WholeRequest(cluster(ALTER), answers.no_acls_deleted),
}

# Besides the proof that a connection is a broker's (`inter_broker`), which is asked before.
BETWEEN_BROKERS: dict[str, Guard] = {
    "LeaderAndIsr": WholeRequest(cluster(CLUSTER_ACTION), at_the_top(LeaderAndIsrResponse)),
    "StopReplica": WholeRequest(cluster(CLUSTER_ACTION), at_the_top(StopReplicaResponse)),
    "UpdateMetadata": WholeRequest(cluster(CLUSTER_ACTION), at_the_top(UpdateMetadataResponse)),
    "ControlledShutdown": WholeRequest(cluster(CLUSTER_ACTION), at_the_top(ControlledShutdownResponse)),
    "AlterPartition": WholeRequest(cluster(CLUSTER_ACTION), at_the_top(AlterPartitionResponse)),
    "AllocateProducerIds": WholeRequest(cluster(CLUSTER_ACTION), at_the_top(AllocateProducerIdsResponse)),
}

GUARDS: dict[str, Guard] = {**RECORDS, **TOPICS, **GROUPS, **TRANSACTIONS, **SETTINGS, **CLUSTER, **BETWEEN_BROKERS}

UNGUARDED = frozenset(("ApiVersions", "SaslAuthenticate", "SaslHandshake"))

"""The coverage table: every API this project can read and write, and which versions of it a broker serves.

    known     versions with a schema in `protocol/tables`: Kafka 4.3's, and down to 0 those that Kafka 3.9 still has
    served    versions a handler takes: Kafka 4.3's, and Kafka 3.9's for the requests of a ZooKeeper controller (4 to 7)
    flexible  first version with compact lengths and tagged fields; NEVER where there is none

Which of them have a handler is for the broker to say; it lists in its ApiVersions answer what it has, as `advertised`. That is
`served`, except for Produce: Kafka 4.3 lists it from 0 and closes the connection on 0 to 2, because librdkafka before 2.11.1
sends everything uncompressed to a broker that does not list Produce 0 (KAFKA-18659).

Header versions follow from the version of the API:

    request   2 when flexible, else 1 (no tagged fields); 0 for ControlledShutdown 0 (no client id either)
    response  1 when flexible, else 0 (no tagged fields); always 0 for ApiVersions, whose reader cannot know the version yet
"""

from __future__ import annotations

from typing import NamedTuple

Versions = tuple[int, int]
"""First and last, both included."""

NEVER = 32768
PRODUCE = 0
CONTROLLED_SHUTDOWN = 7
API_VERSIONS = 18


class Api(NamedTuple):
    key: int
    name: str
    known: Versions
    served: Versions
    flexible: int
    family: str
    """The module of `protocol/tables` that holds its schema."""

    @property
    def advertised(self) -> Versions:
        return (0, self.served[1]) if self.key == PRODUCE else self.served

    def knows(self, version: int) -> bool:
        return self.known[0] <= version <= self.known[1]

    def serves(self, version: int) -> bool:
        return self.served[0] <= version <= self.served[1]

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible

    def request_header_version(self, version: int) -> int:
        if self.key == CONTROLLED_SHUTDOWN and version == 0:
            return 0
        return 2 if version >= self.flexible else 1

    def response_header_version(self, version: int) -> int:
        return 1 if version >= self.flexible and self.key != API_VERSIONS else 0


APIS = (
    # key, name, known, served, flexible from, family
    Api(0, "Produce", (0, 13), (3, 13), 9, "records"),
    Api(1, "Fetch", (0, 18), (4, 18), 12, "records"),
    Api(2, "ListOffsets", (0, 11), (1, 11), 6, "records"),
    Api(3, "Metadata", (0, 13), (0, 13), 9, "records"),
    Api(4, "LeaderAndIsr", (0, 7), (0, 7), 4, "brokers"),
    Api(5, "StopReplica", (0, 4), (0, 4), 2, "brokers"),
    Api(6, "UpdateMetadata", (0, 8), (0, 8), 6, "brokers"),
    Api(7, "ControlledShutdown", (0, 3), (0, 3), 3, "brokers"),
    Api(8, "OffsetCommit", (0, 10), (2, 10), 8, "groups"),
    Api(9, "OffsetFetch", (0, 10), (1, 10), 6, "groups"),
    Api(10, "FindCoordinator", (0, 6), (0, 6), 3, "groups"),
    Api(11, "JoinGroup", (0, 9), (0, 9), 6, "groups"),
    Api(12, "Heartbeat", (0, 4), (0, 4), 4, "groups"),
    Api(13, "LeaveGroup", (0, 5), (0, 5), 4, "groups"),
    Api(14, "SyncGroup", (0, 5), (0, 5), 4, "groups"),
    Api(15, "DescribeGroups", (0, 6), (0, 6), 5, "groups"),
    Api(16, "ListGroups", (0, 5), (0, 5), 3, "groups"),
    Api(17, "SaslHandshake", (0, 1), (0, 1), NEVER, "security"),
    Api(18, "ApiVersions", (0, 4), (0, 4), 3, "cluster"),
    Api(19, "CreateTopics", (0, 7), (2, 7), 5, "topics"),
    Api(20, "DeleteTopics", (0, 6), (1, 6), 4, "topics"),
    Api(21, "DeleteRecords", (0, 2), (0, 2), 2, "topics"),
    Api(22, "InitProducerId", (0, 6), (0, 5), 2, "transactions"),  # 6 is unstable in Kafka 4.3
    Api(23, "OffsetForLeaderEpoch", (0, 4), (2, 4), 4, "records"),
    Api(24, "AddPartitionsToTxn", (0, 5), (0, 5), 3, "transactions"),
    Api(25, "AddOffsetsToTxn", (0, 4), (0, 4), 3, "transactions"),
    Api(26, "EndTxn", (0, 5), (0, 5), 3, "transactions"),
    Api(27, "WriteTxnMarkers", (0, 2), (1, 2), 1, "transactions"),
    Api(28, "TxnOffsetCommit", (0, 5), (0, 5), 3, "transactions"),
    Api(29, "DescribeAcls", (0, 3), (1, 3), 2, "security"),
    Api(30, "CreateAcls", (0, 3), (1, 3), 2, "security"),
    Api(31, "DeleteAcls", (0, 3), (1, 3), 2, "security"),
    Api(32, "DescribeConfigs", (0, 4), (1, 4), 4, "cluster"),
    Api(33, "AlterConfigs", (0, 2), (0, 2), 2, "cluster"),
    Api(34, "AlterReplicaLogDirs", (0, 2), (1, 2), 2, "topics"),
    Api(35, "DescribeLogDirs", (0, 5), (1, 5), 2, "topics"),
    Api(36, "SaslAuthenticate", (0, 2), (0, 2), 2, "security"),
    Api(37, "CreatePartitions", (0, 3), (0, 3), 2, "topics"),
    Api(38, "CreateDelegationToken", (0, 3), (1, 3), 2, "security"),
    Api(39, "RenewDelegationToken", (0, 2), (1, 2), 2, "security"),
    Api(40, "ExpireDelegationToken", (0, 2), (1, 2), 2, "security"),
    Api(41, "DescribeDelegationToken", (0, 3), (1, 3), 2, "security"),
    Api(42, "DeleteGroups", (0, 2), (0, 2), 2, "groups"),
    Api(43, "ElectLeaders", (0, 2), (0, 2), 2, "topics"),
    Api(44, "IncrementalAlterConfigs", (0, 1), (0, 1), 1, "cluster"),
    Api(45, "AlterPartitionReassignments", (0, 1), (0, 1), 0, "topics"),
    Api(46, "ListPartitionReassignments", (0, 0), (0, 0), 0, "topics"),
    Api(47, "OffsetDelete", (0, 0), (0, 0), NEVER, "groups"),
    Api(48, "DescribeClientQuotas", (0, 1), (0, 1), 1, "cluster"),
    Api(49, "AlterClientQuotas", (0, 1), (0, 1), 1, "cluster"),
    Api(50, "DescribeUserScramCredentials", (0, 0), (0, 0), 0, "security"),
    Api(51, "AlterUserScramCredentials", (0, 0), (0, 0), 0, "security"),
    Api(55, "DescribeQuorum", (0, 2), (0, 2), 0, "cluster"),
    Api(56, "AlterPartition", (0, 3), (2, 3), 0, "brokers"),
    Api(57, "UpdateFeatures", (0, 2), (0, 2), 0, "cluster"),
    Api(58, "Envelope", (0, 0), (0, 0), 0, "brokers"),
    Api(60, "DescribeCluster", (0, 2), (0, 2), 0, "cluster"),
    Api(61, "DescribeProducers", (0, 0), (0, 0), 0, "transactions"),
    Api(64, "UnregisterBroker", (0, 0), (0, 0), 0, "cluster"),
    Api(65, "DescribeTransactions", (0, 0), (0, 0), 0, "transactions"),
    Api(66, "ListTransactions", (0, 2), (0, 2), 0, "transactions"),
    Api(67, "AllocateProducerIds", (0, 0), (0, 0), 0, "transactions"),
    Api(68, "ConsumerGroupHeartbeat", (0, 1), (0, 1), 0, "groups"),
    Api(69, "ConsumerGroupDescribe", (0, 1), (0, 1), 0, "groups"),
    Api(71, "GetTelemetrySubscriptions", (0, 0), (0, 0), 0, "cluster"),
    Api(72, "PushTelemetry", (0, 0), (0, 0), 0, "cluster"),
    Api(74, "ListConfigResources", (0, 1), (0, 1), 0, "cluster"),  # ListClientMetricsResources in Kafka 3.9
    Api(75, "DescribeTopicPartitions", (0, 0), (0, 0), 0, "topics"),
    Api(76, "ShareGroupHeartbeat", (1, 1), (1, 1), 0, "share_groups"),
    Api(77, "ShareGroupDescribe", (1, 1), (1, 1), 0, "share_groups"),
    Api(78, "ShareFetch", (1, 2), (1, 2), 0, "share_groups"),
    Api(79, "ShareAcknowledge", (1, 2), (1, 2), 0, "share_groups"),
    Api(81, "RemoveRaftVoter", (0, 0), (0, 0), 0, "cluster"),
    Api(83, "InitializeShareGroupState", (0, 0), (0, 0), 0, "share_groups"),
    Api(84, "ReadShareGroupState", (0, 0), (0, 0), 0, "share_groups"),
    Api(85, "WriteShareGroupState", (0, 1), (0, 1), 0, "share_groups"),
    Api(86, "DeleteShareGroupState", (0, 0), (0, 0), 0, "share_groups"),
    Api(87, "ReadShareGroupStateSummary", (0, 1), (0, 1), 0, "share_groups"),
    Api(88, "StreamsGroupHeartbeat", (0, 0), (0, 0), 0, "streams_groups"),
    Api(89, "StreamsGroupDescribe", (0, 0), (0, 0), 0, "streams_groups"),
    Api(90, "DescribeShareGroupOffsets", (0, 1), (0, 1), 0, "share_groups"),
    Api(91, "AlterShareGroupOffsets", (0, 0), (0, 0), 0, "share_groups"),
    Api(92, "DeleteShareGroupOffsets", (0, 0), (0, 0), 0, "share_groups"),
)

BY_KEY = {api.key: api for api in APIS}
BY_NAME = {api.name: api for api in APIS}

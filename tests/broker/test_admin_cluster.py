"""Requests about the cluster: DescribeCluster, DescribeTopicPartitions, ElectLeaders, ListPartitionReassignments.

Expected codes and pages are those of Kafka 4.3.0 with one node.
"""

from __future__ import annotations

import pytest

from milepost.broker.requests import describe_topic_partitions
from milepost.protocol.messages import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
)
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

NOT_ASKED = -2147483648


# DescribeCluster.


@pytest.mark.parametrize("version", range(3))
def test_cluster_is_this_broker(broker, wire, version):
    response = wire.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id) == (broker.cluster.cluster_id, 0)
    (node,) = response.brokers
    assert (node.broker_id, f"{node.host}:{node.port}", node.rack, node.is_fenced) == (0, broker.bootstrap_servers, None, False)
    assert response.cluster_authorized_operations == NOT_ASKED


def test_rack_of_a_broker_is_told(brokers):
    """Clients that read from the nearest replica, and tools, go by it: also where there is only one."""
    broker = brokers.start({"broker.rack": "eu-1"})
    with Wire(broker.bootstrap_servers) as wire:
        for version in (0, 1, 2):
            assert [node.rack for node in wire.ask(DescribeClusterRequest(), version).brokers] == ["eu-1"]
        for version in (1, 9, 13):
            assert [node.rack for node in wire.ask(MetadataRequest(topics=[]), version).brokers] == ["eu-1"]



def test_everything_is_allowed_where_nobody_forbids_it(wire):
    """8096 and 3576: what Kafka 4.3.0 answers without an authorizer."""
    create(wire, wanted("visits"))
    assert wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1).cluster_authorized_operations == 8096
    names = [MetadataRequest.Topic(name="visits")]
    asked = MetadataRequest(topics=names, include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    answer = wire.ask(asked, 8)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (8096, 3576)
    answer = wire.ask(MetadataRequest(topics=names), 8)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (NOT_ASKED, NOT_ASKED)


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (9, 115)])
def test_there_are_no_controllers_to_describe(wire, endpoint_type, code):
    response = wire.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (response.error_code, response.brokers) == (code, [])
    assert response.error_message


# DescribeTopicPartitions.


def describe(wire: Wire, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None):
    """([(error code, name, partitions)], next cursor)."""
    request = DescribeTopicPartitionsRequest
    asked = request(
        topics=[request.Topic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=request.Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
    )
    response = wire.ask(asked, 0)
    topics = [
        (topic.error_code, topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics
    ]
    following = response.next_cursor
    return topics, (following.topic_name, following.partition_index) if following else None


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "topics", "following"),
    [
        ([], 2000, None, [(0, "q1", [0, 1, 2]), (0, "q2", [0, 1]), (0, "qc", [0])], None),
        (["q2", "q1"], 2000, None, [(0, "q1", [0, 1, 2]), (0, "q2", [0, 1])], None),
        (["q2", "q1"], 2, None, [(0, "q1", [0, 1])], ("q1", 2)),
        (["q2", "q1"], 3, None, [(0, "q1", [0, 1, 2])], ("q2", 0)),
        (["q2", "q1"], 4, None, [(0, "q1", [0, 1, 2]), (0, "q2", [0])], ("q2", 1)),
        (["q2", "q1"], 2000, ("q1", 2), [(0, "q1", [2]), (0, "q2", [0, 1])], None),
        (["q2", "q1"], 2000, ("q2", 1), [(0, "q2", [1])], None),
        (["q1", "q2"], 2000, ("q1", 3), [(0, "q1", []), (0, "q2", [0, 1])], None),
        (["q1"], 0, None, [(0, "q1", [0])], ("q1", 1)),
        (["q1"], -1, None, [(0, "q1", [0])], ("q1", 1)),
        ([], 3, ("q1", 0), [(0, "q1", [0, 1, 2])], ("q2", 0)),
        ([], 2000, ("q11", 5), [(0, "q2", [0, 1]), (0, "qc", [0])], None),
        (["q2", "q1"], 2000, ("q11", 0), [(42, "q2", []), (42, "q1", [])], None),
        (["q2", "q1"], 2000, ("q1", -1), [(42, "q2", []), (42, "q1", [])], None),
        (["nope", "q1", "a b"], 2000, None, [(17, "a b", []), (3, "nope", []), (0, "q1", [0, 1, 2])], None),
        (["nope", "q1"], 100, ("q1", 1), [(0, "q1", [1, 2])], None),
        (["q1", "q1"], 2000, None, [(0, "q1", [0, 1, 2])], None),
    ],
)
def test_topics_come_by_name_a_page_at_a_time(wire, names, limit, cursor, topics, following):
    create(wire, wanted("qc"), wanted("q2", 2), wanted("q1", 3))
    assert describe(wire, names, limit, cursor) == (topics, following)


def test_pages_together_are_all_partitions_once(wire):
    create(wire, *(wanted(f"topic-{number}", number) for number in range(1, 8)))
    found, cursor = [], None
    while True:
        topics, cursor = describe(wire, [], 4, cursor)
        found += [(name, partition) for _, name, partitions in topics for partition in partitions]
        if cursor is None:
            break
    assert found == [(f"topic-{number}", partition) for number in range(1, 8) for partition in range(number)]


def test_page_never_has_more_partitions_than_the_broker_allows(wire, monkeypatch):
    assert describe_topic_partitions.MAX_PARTITIONS == 2000
    monkeypatch.setattr(describe_topic_partitions, "MAX_PARTITIONS", 3)
    create(wire, wanted("visits", 4))
    assert describe(wire, ["visits"], 1_000_000) == ([(0, "visits", [0, 1, 2])], ("visits", 3))


def test_topic_tells_its_id_its_leaders_and_what_is_allowed(wire):
    (topic_id,) = create(wire, wanted("visits"))
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.Topic(name="visits")], response_partition_limit=10, cursor=None
    )
    (topic,) = wire.ask(request, 0).topics
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (topic_id, False, 3576)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes, partition.isr_nodes) == (0, 0, [0], [0])
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ([], [], [])


# ElectLeaders and ListPartitionReassignments.


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [0, 1])
def test_no_election_is_needed_where_there_is_one_replica(wire, version, election_type):
    create(wire, wanted("visits"))
    asked = [
        ElectLeadersRequest.TopicPartition(topic="visits", partitions=[0, 9]),
        ElectLeadersRequest.TopicPartition(topic="nope", partitions=[0]),
    ]
    request = ElectLeadersRequest(election_type=election_type if version else 0, topic_partitions=asked, timeout_ms=60_000)
    response = wire.ask(request, version)
    assert response.error_code == 0
    assert [
        (result.topic, [(part.partition_id, part.error_code) for part in result.partition_result])
        for result in response.replica_election_results
    ] == [("visits", [(0, 84), (9, 3)]), ("nope", [(0, 3)])]


def test_no_partition_of_all_needs_an_election(wire):
    create(wire, wanted("visits"))
    response = wire.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=60_000), 2)
    assert (response.error_code, response.replica_election_results) == (0, [])


def test_election_of_an_unknown_kind_is_refused(wire):
    create(wire, wanted("visits"))
    asked = [ElectLeadersRequest.TopicPartition(topic="visits", partitions=[0])]
    response = wire.ask(ElectLeadersRequest(election_type=7, topic_partitions=asked, timeout_ms=60_000), 2)
    assert response.error_code == 42
    assert response.replica_election_results[0].partition_result[0].error_code == 42


def test_nothing_is_being_reassigned(wire):
    create(wire, wanted("visits"))
    topic = ListPartitionReassignmentsRequest.Topic(name="visits", partition_indexes=[0])
    for topics in (None, [topic]):
        response = wire.ask(ListPartitionReassignmentsRequest(timeout_ms=60_000, topics=topics), 0)
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])

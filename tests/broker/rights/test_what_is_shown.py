"""What a client may not describe is left out of lists, and what it may do is said as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from milepost.security.acls import Operation, PatternType, ResourceType
from milepost.security.principal import KafkaPrincipal
from tests.broker.on_loop import on_loop
from tests.broker.rights.conftest import Closed, rule
from tests.broker.topics import create, wanted

T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
DESCRIBE, READ, CREATE = Operation.DESCRIBE, Operation.READ, Operation.CREATE
PREFIXED = PatternType.PREFIXED


@pytest.fixture(scope="module")
def filled(closed) -> Closed:
    """Topics a1, a2, b1 and visits; groups g1 and g2 with offsets in a1 and b1; transactional ids t1 and t2."""
    closed.allow_all()
    create(closed.wire, wanted("a1", 2), wanted("a2", 2), wanted("b1", 2))
    for group in ("g1", "g2"):
        Topic = OffsetCommitRequest.Topic
        parts = [Topic(name=name, partitions=[Topic.Partition(partition_index=0, committed_offset=0)]) for name in ("a1", "b1")]
        answer = closed.wire.ask(OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=parts), 8)
        assert [topic.partitions[0].error_code for topic in answer.topics] == [0, 0]
    for name in ("t1", "t2"):
        assert closed.wire.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4).error_code == 0
    return closed


@pytest.fixture
def client(filled) -> Iterator[Closed]:
    yield filled
    filled.allow_all()


def all_topics(client: Closed, version: int = 9) -> dict[str, int]:
    request = MetadataRequest(topics=[] if version == 0 else None)
    return {topic.name: topic.error_code for topic in client.wire.ask(request, version).topics if not topic.name.startswith("__")}


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_list_of_all_topics_has_those_that_may_be_described(client, version):
    client.rules(rule(T, DESCRIBE, "a", PREFIXED), rule(T, READ, "visits"))
    assert all_topics(client, version) == {"a1": 0, "a2": 0, "visits": 0}
    client.rules()
    assert all_topics(client, version) == {}


@pytest.mark.parametrize("version", [0, 4, 9, 13])
def test_topic_that_is_named_is_denied_whether_it_is_there_or_not(client, version):
    client.rules(rule(T, DESCRIBE, "a1"))
    topics = [MetadataRequest.Topic(name=name) for name in ("a1", "b1", "nowhere", "b1")]
    answer = client.wire.ask(MetadataRequest(topics=topics), version).topics
    assert sorted((topic.name, topic.error_code, len(topic.partitions)) for topic in answer) == [
        ("a1", 0, 2),
        ("b1", 29, 0),
        ("nowhere", 29, 0),
    ]
    only_denied = client.wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="b1")]), version).topics
    assert [(topic.name, topic.error_code) for topic in only_denied] == [("b1", 29)]


def test_topic_that_is_named_by_its_id_keeps_its_name(client):
    topic_id = client.broker.cluster.id_of("b1")
    client.rules()
    (topic,) = client.wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=topic_id)]), 12).topics
    assert (topic.name, topic.topic_id, topic.error_code) == (None, topic_id, 29)
    unknown = MetadataRequest.Topic(name=None, topic_id=b"\1" * 16)
    assert client.wire.ask(MetadataRequest(topics=[unknown]), 12).topics[0].error_code == 100


def test_topic_is_made_on_first_use_by_who_may_create_it(client):
    def codes() -> list[int]:
        request = MetadataRequest(topics=[MetadataRequest.Topic(name="new"), MetadataRequest.Topic(name="a1")])
        return [topic.error_code for topic in sorted(client.wire.ask(request, 9).topics, key=lambda topic: topic.name)]

    client.rules(rule(T, DESCRIBE, "new"), rule(T, DESCRIBE, "a1"))
    assert codes() == [0, 29]
    assert "new" not in client.broker.cluster.topics
    client.rules(rule(T, DESCRIBE, "new"), rule(T, DESCRIBE, "a1"), rule(T, CREATE, "new"))
    assert codes() == [0, 0]
    assert "new" in client.broker.cluster.topics


def pages(client: Closed, limit: int) -> list[list[tuple[str, int]]]:
    found, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=limit, cursor=cursor)
        answer = client.wire.ask(request, 0)
        found.append([(topic.name, len(topic.partitions)) for topic in answer.topics])
        if answer.next_cursor is None:
            return found
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


def test_pages_have_topics_that_may_be_described(client):
    client.rules(rule(T, DESCRIBE, "a", PREFIXED))
    assert pages(client, 3) == [[("a1", 2), ("a2", 1)], [("a2", 1)]]
    client.rules()
    assert pages(client, 3) == [[]]


def test_page_goes_on_behind_a_topic_that_may_not_be_described_any_more(client):
    client.rules(rule(T, DESCRIBE, "b", PREFIXED))
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="a2", partition_index=1)
    answer = client.wire.ask(DescribeTopicPartitionsRequest(topics=[], cursor=cursor), 0)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("b1", 2)]


def test_groups_and_transactions_that_may_be_described(client):
    def listed() -> tuple[list[str], list[str]]:
        groups = client.wire.ask(ListGroupsRequest(), 4).groups
        transactions = client.wire.ask(ListTransactionsRequest(), 1).transaction_states
        return sorted(each.group_id for each in groups), sorted(each.transactional_id for each in transactions)

    client.rules()
    assert listed() == ([], [])
    client.rules(rule(G, DESCRIBE, "g1"), rule(X, DESCRIBE, "t2"))
    assert listed() == (["g1"], ["t2"])
    client.rules(rule(C, DESCRIBE, "kafka-cluster"))
    assert listed() == (["g1", "g2"], [])


@pytest.mark.parametrize("version", [7, 9])
def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(client, version):
    def topics() -> list[str]:
        if version < 8:
            return [topic.name for topic in client.wire.ask(OffsetFetchRequest(group_id="g1", topics=None), version).topics]
        request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g1", topics=None)])
        return [topic.name for topic in client.wire.ask(request, version).groups[0].topics]

    client.rules(rule(G, DESCRIBE, "g1"), rule(T, DESCRIBE, "b1"))
    assert topics() == ["b1"]
    client.rules(rule(G, DESCRIBE, "g1"))
    assert topics() == []


def test_offsets_of_several_groups_are_answered_each_by_its_rights(client):
    Group = OffsetFetchRequest.Group
    wanted = [Group.Topic(name=name, partition_indexes=[0]) for name in ("a1", "b1")]
    client.rules(rule(G, DESCRIBE, "g1"), rule(T, DESCRIBE, "a1"))
    answer = client.wire.ask(OffsetFetchRequest(groups=[Group(group_id=name, topics=wanted) for name in ("g1", "g2")]), 8)
    found = {
        group.group_id: (group.error_code, {topic.name: topic.partitions[0].error_code for topic in group.topics})
        for group in answer.groups
    }
    assert found == {"g1": (0, {"a1": 0, "b1": 29}), "g2": (30, {})}


def test_transaction_is_shown_with_topics_that_may_be_described(client):
    producer = client.wire.ask(InitProducerIdRequest(transactional_id="t1", transaction_timeout_ms=1000), 4)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t1",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.V3AndBelowTopic(name=name, partitions=[0]) for name in ("a1", "b1")],
    )
    assert {
        each.results_by_partition[0].partition_error_code for each in client.wire.ask(added, 3).results_by_topic_v3_and_below
    } == {0}
    client.rules(rule(X, DESCRIBE, "t1"), rule(T, DESCRIBE, "b1"))
    (found,) = client.wire.ask(DescribeTransactionsRequest(transactional_ids=["t1"]), 0).transaction_states
    assert (found.error_code, [topic.topic for topic in found.topics]) == (0, ["b1"])


def test_pattern_of_a_member_stands_for_topics_that_it_may_describe(client):
    joined = ConsumerGroupHeartbeatRequest(
        group_id="p1",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_regex="[ab]1",
        topic_partitions=[],
    )
    client.rules(rule(G, READ, "p1"), rule(T, DESCRIBE, "b1"))
    answer = client.wire.ask(joined, 1)
    assert answer.error_code == 0
    found = {client.broker.cluster.name_of(each.topic_id) for each in answer.assignment.topic_partitions}
    assert found == {"b1"}


def test_consumer_group_is_shown_to_who_may_describe_all_its_topics(client):
    joined = ConsumerGroupHeartbeatRequest(
        group_id="c1",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["a1", "b1"],
        topic_partitions=[],
    )
    assert client.wire.ask(joined, 1).error_code == 0

    def described() -> tuple[int, int]:
        (group,) = client.wire.ask(ConsumerGroupDescribeRequest(group_ids=["c1"]), 0).groups
        return group.error_code, len(group.members)

    client.rules(rule(G, DESCRIBE, "c1"), rule(T, DESCRIBE, "a1"), rule(T, DESCRIBE, "b1"))
    assert described() == (0, 1)
    client.rules(rule(G, DESCRIBE, "c1"), rule(T, DESCRIBE, "a1"))
    assert described() == (29, 0)


# What may be done.


def test_operations_are_those_that_are_allowed(client):
    client.rules(
        rule(T, READ, "a1"),
        rule(T, Operation.ALTER_CONFIGS, "a1"),
        rule(T, Operation.ALL, "a2"),
        rule(C, DESCRIBE, "kafka-cluster"),
        rule(C, Operation.ALTER, "kafka-cluster"),
        rule(G, READ, "g1"),
    )
    request = MetadataRequest(
        topics=[MetadataRequest.Topic(name=name) for name in ("a1", "a2")], include_topic_authorized_operations=True
    )
    operations = {topic.name: topic.topic_authorized_operations for topic in client.wire.ask(request, 9).topics}
    assert operations == {"a1": 1 << 3 | 1 << 8 | 1 << 10 | 1 << 11, "a2": 3576}
    described = client.wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert described.cluster_authorized_operations == 1 << 7 | 1 << 8
    (group,) = client.wire.ask(DescribeGroupsRequest(groups=["g1"], include_authorized_operations=True), 5).groups
    assert group.authorized_operations == 1 << 3 | 1 << 8


def test_who_may_not_describe_the_cluster_learns_of_no_operations(client):
    client.rules(rule(C, CREATE, "kafka-cluster"))
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
    assert client.wire.ask(request, 9).cluster_authorized_operations == 0
    assert (
        client.wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1).cluster_authorized_operations == 0
    )


def test_settings_of_a_new_topic_are_for_who_may_describe_them(client):
    client.rules(rule(T, CREATE, "shown"))
    request = CreateTopicsRequest(
        topics=[CreateTopicsRequest.Topic(name="shown", num_partitions=1, replication_factor=1)], validate_only=True
    )
    (topic,) = client.wire.ask(request, 7).topics
    assert (topic.error_code, topic.topic_config_error_code, topic.num_partitions, topic.configs) == (0, 29, -1, [])


# Fetch sessions.


def fetch(client: Closed, session_id: int = 0, epoch: int = 0, names: tuple[str, ...] = ("a1", "b1")):
    Topic = FetchRequest.Topic
    topics = [
        Topic(topic=name, partitions=[Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)])
        for name in (names if epoch == 0 else ())
    ]
    return client.wire.ask(FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics), 12)


def test_right_that_is_taken_away_ends_reading_in_a_session(client):
    client.rules(rule(T, READ, "a1"), rule(T, READ, "b1"))
    first = fetch(client)
    assert {topic.topic: topic.partitions[0].error_code for topic in first.responses} == {"a1": 0, "b1": 0}
    client.rules(rule(T, READ, "a1"))
    second = fetch(client, first.session_id, 1)
    assert {topic.topic: topic.partitions[0].error_code for topic in second.responses} == {"b1": 29}
    client.rules(rule(T, READ, "a1"), rule(T, READ, "b1"))
    third = fetch(client, first.session_id, 2)
    assert (third.error_code, [code for topic in third.responses for code in [topic.partitions[0].error_code] if code]) == (0, [])


def test_session_of_somebody_else_is_not_found_nor_closed(client):
    client.rules(rule(T, READ, "a1"))
    session_id = fetch(client, names=("a1",)).session_id
    sessions = client.broker.fetch_sessions

    def owned_by(name: str) -> None:
        sessions.get(session_id).owner = KafkaPrincipal("User", name)  # type: ignore[union-attr]

    on_loop(client.broker, lambda: owned_by("alice"))
    assert fetch(client, session_id, 1).error_code == 70
    assert fetch(client, session_id, 0, ("a1",)).session_id not in (0, session_id)
    on_loop(client.broker, lambda: owned_by("ANONYMOUS"))
    assert fetch(client, session_id, 1).error_code == 0

"""Groups over the wire: with a real member, with commits only, and in the words of brokers that are not ours."""

from __future__ import annotations

import time
import zlib

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from milepost.client.admin import delete_topics
from milepost.client.groups import GroupListing, delete_group, describe_group, group_lag, list_groups
from milepost.client.offsets import commit, committed
from milepost.client.producer import Producer
from milepost.errors import RequestFailed
from milepost.protocol.messages import (
    ConsumerGroupDescribeResponse,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    ListGroupsResponse,
)
from milepost.topic_partition import TopicPartition
from tests.client.fake_broker import FakeBroker, fake_brokers, metadata
from tests.client.topics import make_topic
from tests.waiting import PATIENCE


@pytest.fixture
def topic(broker, cluster, request) -> str:
    """Two partitions with three records each."""
    name = f"groups-{zlib.crc32(request.node.name.encode())}"
    make_topic(cluster, name, 2)
    with Producer(cluster) as producer:
        for number in range(6):
            producer.send(name, b"v", partition=number % 2)
    return name


def test_group_of_commits_only_is_empty_and_has_a_lag(cluster, topic, any_version):
    group = f"commits-{any_version}"
    commit(cluster, group, {TopicPartition(topic, 0): 1})
    described = describe_group(cluster, group)
    assert (described.state, described.group_type, described.members, described.is_inactive) == ("Empty", "classic", (), True)
    assert [
        (row.partition.partition, row.committed, row.end_offset, row.lag, row.member) for row in group_lag(cluster, described)
    ] == [(0, 1, 3, 2, None)]


def test_group_with_a_member_shows_who_has_what(broker, cluster, topic):
    member = ConfluentConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "live",
            "auto.offset.reset": "earliest",
            "client.id": "visitor",
        }
    )
    try:
        member.subscribe([topic])
        deadline = time.monotonic() + PATIENCE
        while len(member.assignment()) < 2 and time.monotonic() < deadline:
            member.poll(0.1)
        described = describe_group(cluster, "live")
        assert (described.state, described.is_inactive, described.assignor) == ("Stable", False, "range")
        assert [(each.client_id, each.partitions) for each in described.members] == [
            ("visitor", (TopicPartition(topic, 0), TopicPartition(topic, 1)))
        ]
        rows = group_lag(cluster, described)
        assert [(row.partition.partition, row.end_offset, row.member) for row in rows] == [
            (0, 3, described.members[0]),
            (1, 3, described.members[0]),
        ]
        with pytest.raises(RequestFailed, match="NON_EMPTY_GROUP"):
            delete_group(cluster, "live")
        with pytest.raises(RequestFailed, match="UNKNOWN_MEMBER_ID"):
            commit(cluster, "live", {TopicPartition(topic, 0): 0})
    finally:
        member.close()


def test_deleted_group_is_gone_with_its_offsets(cluster, topic):
    commit(cluster, "doomed", {TopicPartition(topic, 0): 1})
    delete_group(cluster, "doomed")
    assert "doomed" not in [group.group_id for group in list_groups(cluster)]
    assert committed(cluster, "doomed") == {}


def test_group_that_is_not_there(cluster, any_version):
    with pytest.raises(RequestFailed, match="nobody") as caught:
        describe_group(cluster, "nobody")
    assert caught.value.code == 69
    with pytest.raises(RequestFailed, match="GROUP_ID_NOT_FOUND"):
        delete_group(cluster, "nobody")


def test_deleted_topic_does_not_stand_in_the_way(broker, cluster, topic):
    make_topic(cluster, "going", 1)
    commit(cluster, "survivor", {TopicPartition(topic, 0): 1, TopicPartition("going", 0): 0})
    fresh = describe_group(cluster, "survivor")
    delete_topics(cluster, ["going"])
    assert {row.partition.topic for row in group_lag(cluster, fresh)} == {topic}


def test_groups_of_every_broker_are_listed_once(cluster_of):
    Group = ListGroupsResponse.Group
    with fake_brokers(2) as brokers:
        for at, each in enumerate(brokers):
            each.handlers["Metadata"] = lambda version, request: metadata(brokers, {})
            groups = [
                Group(group_id=name, protocol_type="consumer", group_state="Stable", group_type="classic")
                for name in ("both", f"at-{at}")
            ]
            each.handlers["ListGroups"] = lambda version, request, groups=groups: ListGroupsResponse(groups=groups)
        found = list_groups(cluster_of(brokers[0]))
    assert found == [GroupListing(name, "Stable", "classic", "consumer") for name in ("at-0", "at-1", "both")]


# Other brokers' words.


@pytest.fixture
def fake():
    def coordinator(version: int, request) -> FindCoordinatorResponse:
        rows = [
            FindCoordinatorResponse.Coordinator(key=key, node_id=0, host=broker.address.host, port=broker.address.port)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=rows)

    broker = FakeBroker(FindCoordinator=coordinator, Metadata=lambda version, request: metadata([broker], {}))
    yield broker
    broker.close()


def classic(**fields):
    return lambda version, request: DescribeGroupsResponse(groups=[DescribeGroupsResponse.Group(group_id="g", **fields)])


def not_a_consumer_group(version: int, request: object) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[ConsumerGroupDescribeResponse.Group(group_id="g", error_code=69)])


# Version 0, one topic "t" with partitions 0 and 2, no user data.
ASSIGNMENT = bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000002 ffffffff".replace(" ", ""))


@pytest.mark.parametrize(
    ("assignment", "partitions"),
    [
        (ASSIGNMENT, (TopicPartition("t", 0), TopicPartition("t", 2))),
        (b"\x00\x07" + ASSIGNMENT[2:] + b"from the future", (TopicPartition("t", 0), TopicPartition("t", 2))),
        (b"", ()),
        (b"\x00\x00\x00", ()),
    ],
)
def test_assignment_of_a_classic_member(fake, cluster_of, assignment, partitions):
    Member = DescribeGroupsResponse.Group.Member
    members = [Member(member_id="m-1", client_id="c", client_host="/10.0.0.1", member_assignment=assignment)]
    fake.handlers["ConsumerGroupDescribe"] = not_a_consumer_group
    fake.handlers["DescribeGroups"] = classic(
        group_state="Stable", protocol_type="consumer", protocol_data="range", members=members
    )
    described = describe_group(cluster_of(fake), "g")
    assert (described.group_type, described.members[0].host, described.members[0].partitions) == (
        "classic",
        "/10.0.0.1",
        partitions,
    )


def test_assignment_of_another_protocol_is_not_looked_into(fake, cluster_of):
    Member = DescribeGroupsResponse.Group.Member
    del fake.versions["ConsumerGroupDescribe"]
    fake.handlers["DescribeGroups"] = classic(
        group_state="Stable", protocol_type="connect", protocol_data="sessioned", members=[Member(member_assignment=ASSIGNMENT)]
    )
    assert describe_group(cluster_of(fake), "g").members[0].partitions == ()
    assert "ConsumerGroupDescribe" not in fake.names()


def test_old_brokers_word_for_a_group_that_is_not_there(fake, cluster_of):
    fake.versions["DescribeGroups"] = (0, 5)
    fake.handlers["ConsumerGroupDescribe"] = not_a_consumer_group
    fake.handlers["DescribeGroups"] = classic(group_state="Dead")
    with pytest.raises(RequestFailed, match=r"^there is no group g$") as caught:
        describe_group(cluster_of(fake), "g")
    assert caught.value.code == 69


def test_consumer_group_of_the_new_protocol(fake, cluster_of):
    Group = ConsumerGroupDescribeResponse.Group
    assigned = Group.Member.Assignment(
        topic_partitions=[Group.Member.Assignment.TopicPartition(topic_name="t", partitions=[1, 0])]
    )
    member = Group.Member(member_id="m", client_id="c", client_host="/h", assignment=assigned, instance_id="i")
    row = Group(group_id="g", group_state="Reconciling", assignor_name="uniform", members=[member])
    fake.handlers["ConsumerGroupDescribe"] = lambda version, request: ConsumerGroupDescribeResponse(groups=[row])
    described = describe_group(cluster_of(fake), "g")
    assert (described.state, described.group_type, described.assignor, described.is_inactive) == (
        "Reconciling",
        "consumer",
        "uniform",
        False,
    )
    assert described.members[0].partitions == (TopicPartition("t", 0), TopicPartition("t", 1))


def test_refusal_to_describe_is_told_with_the_brokers_words(fake, cluster_of):
    row = ConsumerGroupDescribeResponse.Group(group_id="g", error_code=30, error_message="not yours")
    fake.handlers["ConsumerGroupDescribe"] = lambda version, request: ConsumerGroupDescribeResponse(groups=[row])
    with pytest.raises(RequestFailed, match=r"^group g: the broker answers GROUP_AUTHORIZATION_FAILED \(30\): not yours$"):
        describe_group(cluster_of(fake), "g")

"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import pytest

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import OffsetDeleteRequest, OffsetFetchRequest
from tests.coordinator.group_fixture import DAY_MS, GroupBench, consumer, partition_errors
from tests.coordinator.group_surroundings import topic_id


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


def some_topics(version: int, *names: str) -> list[OffsetFetchRequest.Group.Topic]:
    return [
        OffsetFetchRequest.Group.Topic(
            name=name if version < 10 else "", topic_id=topic_id(name) if version >= 10 else bytes(16), partition_indexes=[0, 1]
        )
        for name in names
    ]


# Who may commit.


def test_a_consumer_without_group_management_commits_and_the_group_begins(bench):
    assert partition_errors(bench.commit({("visits", 0): 7})) == [0]
    group = bench.groups.groups["g"]
    assert (group.state_name, group.protocol_type) == ("Empty", "")
    assert bench.fetch() == {("visits", 0): 7}


def test_while_a_group_has_members_only_they_commit(bench):
    (member,) = bench.stable_group()
    assert partition_errors(bench.commit({("visits", 0): 7})) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert partition_errors(bench.commit({("visits", 0): 7}, member_id="nobody", generation=1)) == [25]
    assert partition_errors(bench.commit({("visits", 0): 7}, member_id=member, generation=2)) == [22]
    assert partition_errors(bench.commit({("visits", 0): 7}, member_id=member, generation=1)) == [0]


def test_commits_by_state(bench):
    join = bench.enter()
    bench.advance(0)
    member = join.response.member_id
    assert partition_errors(bench.commit({("visits", 0): 1}, member_id=member, generation=1)) == [27]  # CompletingRebalance
    bench.sync(member, 1, {member: b""})
    bench.enter()
    assert partition_errors(bench.commit({("visits", 0): 2}, member_id=member, generation=1)) == [0]  # PreparingRebalance


@pytest.mark.parametrize(("version", "error"), [(2, 22), (8, 22), (9, 69), (10, 69)])
def test_a_generation_of_a_group_that_nobody_knows(bench, version, error):
    call = bench.commit({("visits", 0): 7}, member_id="m", generation=3, version=version)
    assert partition_errors(call) == [error]
    assert bench.groups.groups == {}


# What is committed.


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits_and_fetches(bench, version):
    call = bench.commit({("visits", 0): 7, ("visits", 3): 9, ("orders", 1): 0}, version=version, metadata="mark")
    assert partition_errors(call) == [0, 0, 0]
    assert bench.fetch() == {("orders", 1): 0, ("visits", 0): 7, ("visits", 3): 9}
    if version == 10:
        assert [topic.topic_id for topic in call.response.topics] == [topic_id("visits"), topic_id("orders")]
    else:
        assert [topic.name for topic in call.response.topics] == ["visits", "orders"]


def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(bench):
    call = bench.commit({("visits", 0): 1, ("visits", 4): 1, ("nowhere", 0): 1})
    assert partition_errors(call) == [0, 3, 3]
    assert bench.fetch() == {("visits", 0): 1}


def test_an_unknown_topic_id_is_refused(bench):
    call = bench.commit({("nowhere", 0): 1, ("visits", 0): 1}, version=10)
    assert partition_errors(call) == [100, 0]


def test_metadata_is_given_back_and_limited(bench):
    assert partition_errors(bench.commit({("visits", 0): 1}, metadata="x" * 4_096)) == [0]
    assert partition_errors(bench.commit({("visits", 1): 1}, metadata="x" * 4_097)) == [12]
    assert partition_errors(bench.commit({("visits", 2): 1}, metadata=None)) == [0]
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)])
    (topic,) = bench.call(request, 9).response.groups[0].topics
    assert [(p.partition_index, p.metadata) for p in topic.partitions] == [(0, "x" * 4_096), (2, "")]


def test_an_offset_is_in_the_log_in_kafka_s_format(bench):
    bench.commit({("visits", 0): 7}, metadata="mark")
    assert bench.log.written() == [
        (
            '{"type":"1","data":{"group":"g","topic":"visits","partition":0}}',
            '{"version":"3","data":{"offset":7,"leaderEpoch":-1,"metadata":"mark","commitTimestamp":1700000000000}}',
        )
    ]


def test_a_commit_counts_when_the_log_has_it(bench):
    bench.log.is_holding = True
    call = bench.commit({("visits", 0): 7})
    assert call.is_waiting
    assert bench.fetch() == {}
    bench.log.release()
    assert partition_errors(call) == [0]
    assert bench.fetch() == {("visits", 0): 7}


@pytest.mark.parametrize(("log_error", "error"), [(19, 15), (20, 15), (7, 15), (3, 15), (6, 16), (56, 16), (10, 28), (-1, -1)])
def test_a_commit_that_cannot_be_written_is_refused_in_the_terms_of_a_coordinator(bench, log_error, error):
    bench.log.error = log_error
    assert partition_errors(bench.commit({("visits", 0): 7, ("visits", 1): 7})) == [error, error]
    assert bench.fetch() == {}


def test_a_commit_that_completes_after_the_partition_went_does_not_count_here(bench):
    bench.log.is_holding = True
    call = bench.commit({("visits", 0): 7})
    partition = bench.groups.partition_for("g")
    bench.groups.unload(partition)
    bench.log.release()
    assert partition_errors(call) == [16]
    assert not bench.groups.offsets.has_any("g")
    bench.groups.load(partition)
    assert bench.fetch() == {("visits", 0): 7}


# Fetching.


def test_without_a_commit_the_offset_is_minus_1_without_an_error(bench):
    bench.commit({("visits", 0): 7})
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=some_topics(8, "visits"))])
    (topic,) = bench.call(request, 8).response.groups[0].topics
    found = [
        (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code) for p in topic.partitions
    ]
    assert found == [(0, 7, -1, "", 0), (1, -1, -1, "", 0)]


@pytest.mark.parametrize("version", range(1, 8))
def test_before_version_8_one_group_is_asked_for(bench, version):
    bench.commit({("visits", 1): 7})
    topics = [OffsetFetchRequest.Topic(name="visits", partition_indexes=[0, 1])]
    response = bench.call(OffsetFetchRequest(group_id="g", topics=topics), version).response
    assert [(p.partition_index, p.committed_offset) for p in response.topics[0].partitions] == [(0, -1), (1, 7)]
    assert response.error_code == 0


def test_null_topics_are_all_topics_and_an_empty_list_is_none(bench):
    bench.commit({("visits", 1): 7, ("orders", 0): 3})
    response = bench.call(OffsetFetchRequest(group_id="g", topics=None), 2).response
    assert [topic.name for topic in response.topics] == ["orders", "visits"]
    assert bench.call(OffsetFetchRequest(group_id="g", topics=[]), 2).response.topics == []


def test_several_groups_are_answered_one_by_one(bench):
    bench.commit({("visits", 1): 7}, group="one")
    groups = [OffsetFetchRequest.Group(group_id=name, topics=None) for name in ("one", "two")]
    found = bench.call(OffsetFetchRequest(groups=groups), 9).response.groups
    assert [(group.group_id, group.error_code, len(group.topics)) for group in found] == [("one", 0, 1), ("two", 0, 0)]


def test_topic_ids_come_with_version_10(bench):
    bench.commit({("visits", 1): 7})
    groups = [OffsetFetchRequest.Group(group_id="g", topics=some_topics(10, "visits", "nowhere"))]
    visits, nowhere = bench.call(OffsetFetchRequest(groups=groups), 10).response.groups[0].topics
    assert (visits.topic_id, [p.committed_offset for p in visits.partitions]) == (topic_id("visits"), [-1, 7])
    assert (nowhere.topic_id, [p.error_code for p in nowhere.partitions]) == (topic_id("nowhere"), [100, 100])


def test_all_topics_by_id_leaves_out_those_that_are_gone(bench):
    bench.commit({("visits", 1): 7, ("orders", 0): 3})
    del bench.topics.partitions["orders"]
    groups = [OffsetFetchRequest.Group(group_id="g", topics=None)]
    (visits,) = bench.call(OffsetFetchRequest(groups=groups), 10).response.groups[0].topics
    assert visits.topic_id == topic_id("visits")


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_what_cannot_be_answered_is_an_error_and_never_a_plain_minus_1(version):
    bench = GroupBench()
    topics = [OffsetFetchRequest.Topic(name="visits", partition_indexes=[0])]
    if version < 8:
        response = bench.call(OffsetFetchRequest(group_id="g", topics=topics), version).response
    else:
        groups = [OffsetFetchRequest.Group(group_id="g", topics=some_topics(version, "visits"))]
        (response,) = bench.call(OffsetFetchRequest(groups=groups), version).response.groups
    if version < 2:
        assert [p.error_code for p in response.topics[0].partitions] == [16]
    else:
        assert (response.error_code, response.topics) == (16, [])


# Deleting.


def delete(bench: GroupBench, topic: str, *partitions: int, group: str = "g"):
    entries = [OffsetDeleteRequest.Topic.Partition(partition_index=index) for index in partitions]
    return bench.call(OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequest.Topic(name=topic, partitions=entries)]))


def test_offsets_of_a_group_without_members_are_deleted(bench):
    bench.commit({("visits", 0): 7, ("visits", 1): 8})
    call = delete(bench, "visits", 0, 2)
    assert (call.error, partition_errors(call)) == (0, [0, 0])
    assert bench.fetch() == bench.restarted().fetch() == {("visits", 1): 8}
    assert bench.log.written()[-1] == ('{"type":"1","data":{"group":"g","topic":"visits","partition":0}}', "<DELETE>")


def test_offsets_of_a_subscribed_topic_are_kept(bench):
    (member,) = bench.stable_group()
    bench.commit({("visits", 0): 7, ("orders", 0): 3}, member_id=member, generation=1)
    assert partition_errors(delete(bench, "visits", 0)) == [86]
    assert partition_errors(delete(bench, "orders", 0)) == [0]
    assert bench.fetch() == {("visits", 0): 7}


def test_members_of_another_protocol_may_be_subscribed_to_anything(bench):
    bench.stable_group(protocol_type="connect", protocols=[("default", b"")])
    assert delete(bench, "visits", 0).error == ErrorCode.NON_EMPTY_GROUP


def test_what_is_not_there_cannot_be_deleted(bench):
    call = delete(bench, "visits", 0)
    assert (call.error, call.response.topics) == (69, [])
    assert delete(bench, "visits", 0, group="").error == ErrorCode.INVALID_GROUP_ID
    bench.commit({("visits", 0): 7})
    assert partition_errors(delete(bench, "nowhere", 0)) == [3]


# Expiry.


def test_offsets_of_a_group_expire_7_days_after_its_last_member_left(bench):
    (member,) = bench.stable_group(session_ms=1_800_000)
    bench.commit({("visits", 0): 7}, member_id=member, generation=1)
    for _ in range(8 * 96):
        bench.advance(DAY_MS // 96)
        assert bench.heartbeat(member, 1) == 0
    assert bench.fetch() == {("visits", 0): 7}
    bench.leave(member)
    bench.advance(7 * DAY_MS - 1_000)
    assert bench.fetch() == {("visits", 0): 7}
    bench.advance(1_200_000)
    assert bench.groups.groups == {}
    assert bench.restarted().groups.groups == {}


def test_offsets_of_a_group_that_nobody_joined_expire_7_days_after_each_commit(bench):
    bench.commit({("visits", 0): 7, ("visits", 1): 7})
    bench.advance(4 * DAY_MS)
    bench.commit({("visits", 1): 8})
    bench.advance(3 * DAY_MS + 600_000)
    assert bench.fetch() == {("visits", 1): 8}


def test_offsets_of_topics_that_no_member_subscribes_to_expire_under_a_living_group(bench):
    (member,) = bench.stable_group(session_ms=1_800_000, protocols=[("range", consumer("visits"))])
    bench.commit({("visits", 0): 7, ("orders", 0): 3}, member_id=member, generation=1)
    for _ in range(8 * 96):
        bench.advance(DAY_MS // 96)
        bench.heartbeat(member, 1)
    assert bench.fetch() == {("visits", 0): 7}


def test_up_to_version_4_a_client_may_say_how_long_an_offset_lives(bench):
    bench.commit({("visits", 0): 7}, version=4, retention_time_ms=3_600_000)
    assert '"expireTimestamp":1700003600000' in bench.log.written()[0][1]
    bench.advance(3_600_000 + 600_000)
    assert bench.fetch() == {}


def test_an_empty_group_without_offsets_goes_with_the_next_sweep(bench):
    (member,) = bench.stable_group()
    bench.leave(member)
    bench.advance(600_000)
    assert bench.groups.groups == {}
    assert bench.log.written()[-1] == ('{"type":"2","data":{"group":"g"}}', "<DELETE>")


def test_a_group_that_somebody_is_about_to_join_stays(bench):
    bench.advance(595_000)
    pending = bench.join(session_ms=30_000).response.member_id
    bench.advance(10_000)
    bench.join(pending)
    bench.advance(0)
    assert bench.heartbeat(pending, 1) == 0


def test_offsets_of_deleted_topics_go_with_them(bench):
    bench.commit({("visits", 0): 7, ("orders", 0): 3})
    bench.groups.topics_deleted(["visits"])
    assert bench.fetch() == bench.restarted().fetch() == {("orders", 0): 3}

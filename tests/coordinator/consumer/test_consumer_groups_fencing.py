"""Groups of the consumer protocol: which requests are refused, and who is fenced. Static members."""

from __future__ import annotations

import pytest

from milepost.protocol.messages import DescribeGroupsRequest, ListGroupsRequest, OffsetFetchRequest
from tests.coordinator.consumer.consumer_fixture import ConsumerBench
from tests.coordinator.group_fixture import partition_errors


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


# Requests that make no sense.


@pytest.mark.parametrize(
    "fields",
    [
        {"rebalance_timeout_ms": -1},
        {"subscribed_topic_names": None},
        {"topic_partitions": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"group": ""},
    ],
)
def test_a_join_that_lacks_something_is_refused(bench, fields):
    whole = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["visits"], "topic_partitions": []}
    assert bench.beat("a", 0, **{**whole, **fields}).error == 42
    assert bench.groups.groups == {}


def test_a_join_that_owns_partitions_is_refused(bench):
    assert bench.beat("a", 0, {"visits": [0]}, rebalance_timeout_ms=1, subscribed_topic_names=["visits"]).error == 42


def test_from_version_1_the_member_id_is_the_clients(bench):
    refused = bench.enter("")
    assert (refused.error, refused.response.error_message) == (42, "the member id is empty, and the client has to make one")


@pytest.mark.parametrize("epoch", [-3, -2])
def test_epochs_that_mean_nothing_are_refused(bench, epoch):
    bench.joined("a")
    assert bench.beat("a", epoch).error == 42


def test_an_assignor_that_is_not_there_is_refused(bench):
    refused = bench.enter("a", server_assignor="sticky")
    assert refused.error == 112
    assert refused.response.error_message == "there is no assignor 'sticky' here, only uniform, range"


def test_a_full_group_takes_nobody_else_and_keeps_who_it_has():
    bench = ConsumerBench(max_size=1)
    bench.joined("a")
    assert bench.enter("b").error == 81
    assert bench.heard("a", 2) == (2, None)


@pytest.mark.parametrize("pattern", ["(", "visits(?=x)", "(a)\\1", "a**", "x{1001}"])
def test_a_pattern_that_is_none_is_refused(bench, pattern):
    assert bench.enter("a", subscribed_topic_names=None, subscribed_topic_regex=pattern).error == 128
    assert bench.groups.groups == {}


# Epochs.


def test_who_is_no_member_is_told_so(bench):
    assert bench.beat("a", 5).error == 25  # not even a group: 69 would end some clients
    assert bench.beat("a", -1).error == 25
    bench.joined("a")
    assert bench.beat("b", 2).error == 25
    assert bench.beat("b", -1).error == 25


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_than_the_members_is_fenced(bench, epoch):
    bench.joined("a")
    assert bench.beat("a", epoch, {}).error == 110


def test_a_join_whose_answer_was_lost_is_answered_again(bench):
    bench.joined("a")
    assert bench.joined("a") == (2, {"visits": [0, 1, 2, 3]})


def test_a_member_that_missed_its_new_epoch_may_come_with_the_one_before(bench):
    bench.joined("a")
    bench.joined("b")
    bench.heard("a", 2)
    assert bench.heard("a", 2, {"visits": [0, 1]}) == (3, None)
    assert bench.heard("a", 2, {"visits": [0, 1]}) == (3, {"visits": [0, 1]})
    # Not when it owns what is not its own any more, or does not say.
    assert bench.beat("a", 2, {"visits": [0, 1, 2]}).error == 110
    assert bench.beat("a", 2).error == 110


def test_a_refused_heartbeat_does_not_keep_a_session_alive(bench):
    bench.joined("a")
    bench.advance(44_999)
    assert bench.beat("a", 9).error == 110
    bench.advance(1)
    assert bench.joined("a") == (4, {"visits": [0, 1, 2, 3]})


# Static members.


def test_a_static_member_comes_back_to_what_it_had_without_a_new_epoch(bench):
    assert bench.joined("a1", instance_id="i") == (2, {"visits": [0, 1, 2, 3]})
    assert bench.heard("a1", -2, instance_id="i") == (-2, None)
    assert bench.joined("a2", instance_id="i") == (2, {"visits": [0, 1, 2, 3]})
    assert [*bench.group().members] == ["a2"]
    assert bench.beat("a1", 2, instance_id="i").error == 82
    assert bench.beat("a1", -1, instance_id="i").error == 82


def test_while_a_static_member_is_away_its_partitions_wait_for_it(bench):
    bench.joined("a1", instance_id="i")
    bench.joined("b")
    bench.heard("a1", 2, instance_id="i")
    bench.heard("a1", 2, {"visits": [0, 1]}, instance_id="i")
    assert bench.heard("b", 3) == (3, {"visits": [2, 3]})
    bench.heard("a1", -2, instance_id="i")
    assert bench.heard("b", 3) == (3, None)
    assert bench.joined("a2", instance_id="i") == (3, {"visits": [0, 1]})


def test_a_static_member_that_stays_away_is_removed_when_its_session_ends(bench):
    bench.joined("a1", instance_id="i")
    bench.advance(10_000)
    bench.heard("a1", -2, instance_id="i")
    bench.advance(35_000)
    assert bench.group().state_name == "Empty"


def test_an_instance_that_has_not_left_is_not_given_away(bench):
    bench.joined("a1", instance_id="i")
    assert bench.enter("a2", instance_id="i").error == 111
    assert bench.heard("a1", 2, instance_id="i") == (2, None)


def test_a_static_member_that_leaves_for_good_is_gone(bench):
    bench.joined("a1", instance_id="i")
    bench.heard("a1", -1, instance_id="i")
    assert bench.group().state_name == "Empty"


def test_an_instance_that_is_not_known_is_told_so(bench):
    bench.joined("a")
    assert bench.beat("a1", 2, instance_id="i").error == 25
    assert bench.beat("a1", -2, instance_id="i").error == 25


# Offsets.


def test_members_commit_in_their_epoch(bench):
    bench.joined("a")
    assert partition_errors(bench.commit({("visits", 0): 7}, member_id="a", generation=2)) == [0]
    assert partition_errors(bench.commit({("visits", 0): 8}, member_id="a", generation=1)) == [113]
    assert partition_errors(bench.commit({("visits", 0): 8}, member_id="b", generation=2)) == [25]
    assert partition_errors(bench.commit({("visits", 0): 8})) == [25]
    assert partition_errors(bench.commit({("visits", 0): 8}, member_id="a", generation=2, version=8)) == [35]
    assert bench.fetch() == {("visits", 0): 7}


def test_in_a_transaction_a_stale_epoch_is_an_illegal_generation(bench):
    bench.joined("a")
    stale = bench.commit_in_transaction({("visits", 0): 7}, member_id="a", generation_id=1)
    assert partition_errors(stale) == [22]
    assert partition_errors(bench.commit_in_transaction({("visits", 0): 7}, member_id="a", generation_id=2)) == [0]
    assert partition_errors(bench.commit_in_transaction({("visits", 1): 7})) == [0]


def test_anybody_commits_to_a_group_that_has_no_members(bench):
    bench.joined("a")
    bench.heard("a", -1)
    assert partition_errors(bench.commit({("visits", 0): 7})) == [0]


@pytest.mark.parametrize(("member_id", "epoch", "error"), [(None, -1, 0), ("a", 2, 0), ("a", 1, 113), ("b", 2, 25)])
def test_offsets_are_fetched_by_members_in_their_epoch_and_by_admins(bench, member_id, epoch, error):
    bench.joined("a")
    asked = OffsetFetchRequest.Group(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
    (fetched,) = bench.call(OffsetFetchRequest(groups=[asked]), 9).response.groups
    assert fetched.error_code == error


# Administration.


def test_consumer_groups_are_listed_as_such(bench):
    bench.joined("a")
    (listed,) = bench.call(ListGroupsRequest(types_filter=["Consumer"])).response.groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "consumer",
        "Stable",
        "consumer",
    )
    assert bench.call(ListGroupsRequest(types_filter=["Classic"])).response.groups == []
    assert bench.call(ListGroupsRequest(states_filter=["Reconciling"])).response.groups == []


def test_a_consumer_group_is_described_with_its_epochs(bench):
    bench.joined("a", instance_id="i", rack_id="r")
    bench.joined("b")
    bench.heard("a", 2, instance_id="i")
    found = bench.described()
    assert (found.error_code, found.group_state, found.group_epoch, found.assignment_epoch) == (0, "Reconciling", 3, 3)
    first, second = found.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch, first.member_type) == ("a", "i", "r", 2, 1)
    assert (first.client_id, first.client_host, first.subscribed_topic_names) == ("client-a", "/127.0.0.1", ["visits"])
    assert [(topic.topic_name, topic.partitions) for topic in first.assignment.topic_partitions] == [("visits", [0, 1])]
    assert second.assignment.topic_partitions == []
    assert [(topic.topic_name, topic.partitions) for topic in second.target_assignment.topic_partitions] == [("visits", [2, 3])]


def test_groups_that_are_not_consumer_groups_are_not_found(bench):
    bench.commit({("visits", 0): 7}, group="classic")
    assert (bench.described("classic").error_code, bench.described("nowhere").error_code) == (69, 69)
    assert bench.described("", version=0).error_code == 24


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, 69)])
def test_a_consumer_group_is_dead_to_those_who_look_for_a_classic_one(bench, version, error):
    bench.joined("a")
    (found,) = bench.call(DescribeGroupsRequest(groups=["g"]), version).response.groups
    assert (found.error_code, found.group_state) == (error, "Dead")

"""Groups of the consumer protocol: joining, the steps of a reconciliation, leaving and being removed.

`visits` has four partitions, `orders` two. The first epoch of a group is 2, as in Kafka 4.3.
"""

from __future__ import annotations

import pytest

from milepost.config.group import GroupConfig
from milepost.coordinator.interfaces import Client
from milepost.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.coordinator.consumer.consumer_fixture import ClusterTopics, ConsumerBench
from tests.coordinator.in_pieces import Pieces, finish


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


# One member.


def test_the_first_member_gets_everything_at_once(bench):
    assert bench.joined("a") == (2, {"visits": [0, 1, 2, 3]})
    assert bench.group().state_name == "Stable"


def test_the_answer_names_the_member_and_the_interval(bench):
    response = bench.enter("a").response
    assert (response.member_id, response.heartbeat_interval_ms) == ("a", 5_000)


def test_what_has_not_changed_is_not_said_again(bench):
    bench.joined("a")
    assert bench.heard("a", 2, {"visits": [0, 1, 2, 3]}) == (2, None)
    assert bench.heard("a", 2) == (2, None)


def test_a_full_heartbeat_is_answered_in_full(bench):
    bench.joined("a")
    again = bench.heard("a", 2, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["visits"])
    assert again == (2, {"visits": [0, 1, 2, 3]})


def test_in_version_0_the_coordinator_makes_the_member_id(bench):
    response = bench.enter(version=0).response
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "id1", 2)


def test_a_plain_heartbeat_writes_nothing(bench):
    bench.joined("a")
    written = len(bench.log.written())
    bench.heard("a", 2)
    assert len(bench.log.written()) == written


def test_a_topic_that_does_not_exist_is_waited_for(bench):
    assert bench.joined("a", subscribed_topic_names=["later"]) == (2, {})
    bench.topics.partitions["later"] = 1
    assert bench.heard("a", 2) == (2, None)
    bench.consumer_groups.on_topics_changed()
    assert bench.heard("a", 2) == (3, {"later": [0]})


def test_a_member_without_any_topics_is_a_member(bench):
    assert bench.joined("a", subscribed_topic_names=[]) == (2, {})
    assert bench.group().state_name == "Stable"


def test_a_changed_subscription_changes_the_assignment_step_by_step(bench):
    bench.joined("a")
    assert bench.heard("a", 2, subscribed_topic_names=["orders"]) == (2, {})
    assert bench.group().state_name == "Reconciling"
    assert bench.heard("a", 2) == (2, None)
    assert bench.heard("a", 2, {}) == (3, {"orders": [0, 1]})
    assert bench.group().state_name == "Stable"


# Two members.


def test_a_second_member_gets_partitions_when_the_first_has_given_them_up(bench):
    bench.joined("a")
    # The second is there, and all it should have is still held.
    assert bench.joined("b") == (3, {})
    assert bench.group().state_name == "Reconciling"
    # The first hears what it may keep, in its old epoch.
    assert bench.heard("a", 2) == (2, {"visits": [0, 1]})
    assert bench.heard("b", 3) == (3, None)
    # While it owns what it should give up, nothing moves.
    assert bench.heard("a", 2, {"visits": [0, 1, 2]}) == (2, None)
    assert bench.heard("b", 3) == (3, None)
    # It says that it has given them up: its epoch rises, and the second gets them.
    assert bench.heard("a", 2, {"visits": [0, 1]}) == (3, None)
    assert bench.heard("b", 3) == (3, {"visits": [2, 3]})
    assert bench.group().state_name == "Stable"


def test_a_member_that_leaves_leaves_its_partitions_to_the_others(bench):
    two_members(bench)
    assert bench.heard("b", -1) == (-1, None)
    assert bench.group().state_name == "Assigning"
    assert bench.heard("a", 3) == (4, {"visits": [0, 1, 2, 3]})
    assert bench.group().state_name == "Stable"


def test_the_last_member_leaves_an_empty_group(bench):
    bench.joined("a")
    bench.heard("a", -1)
    assert (bench.group().state_name, bench.group().epoch) == ("Empty", 3)
    assert bench.joined("b") == (4, {"visits": [0, 1, 2, 3]})


def test_a_target_that_changes_during_a_revocation_is_followed_from_where_the_member_is(bench):
    bench.joined("a")
    bench.joined("b")
    assert bench.heard("a", 2) == (2, {"visits": [0, 1]})
    bench.heard("b", -1)
    # Everything is its own again, but it was told to stop with two of them and does so first.
    assert bench.heard("a", 2) == (2, None)
    assert bench.heard("a", 2, {"visits": [0, 1]}) == (4, {"visits": [0, 1, 2, 3]})


def test_a_third_member_takes_from_both(bench):
    two_members(bench)
    bench.topics.partitions["visits"] = 6
    bench.consumer_groups.on_topics_changed()
    bench.heard("a", 3)
    bench.heard("b", 3)
    assert bench.joined("c") == (5, {})
    assert bench.heard("a", 4) == (4, {"visits": [0, 1]})
    assert bench.heard("a", 4, {"visits": [0, 1]}) == (5, None)
    assert bench.heard("c", 5) == (5, {"visits": [4]})
    assert bench.heard("b", 4) == (4, {"visits": [2, 3]})
    assert bench.heard("b", 4, {"visits": [2, 3]}) == (5, None)
    assert bench.heard("c", 5) == (5, {"visits": [4, 5]})


def test_what_a_member_gives_up_without_being_asked_is_free(bench):
    bench.joined("a")
    bench.joined("b")
    assert bench.heard("a", 2, {"visits": [0, 1]}) == (3, {"visits": [0, 1]})
    assert bench.heard("b", 3) == (3, {"visits": [2, 3]})


# Time.


def test_a_member_that_is_silent_for_a_session_is_removed(bench):
    two_members(bench)
    bench.advance(30_000)
    bench.heard("a", 3)
    bench.advance(15_000)
    assert [*bench.group().members] == ["a"]
    assert bench.heard("a", 3) == (4, {"visits": [0, 1, 2, 3]})
    assert bench.beat("b", 3).error == 25


def test_the_session_is_as_long_as_configured():
    bench = ConsumerBench(session_timeout_ms=1_000, heartbeat_interval_ms=100)
    assert bench.enter("a").response.heartbeat_interval_ms == 100
    bench.advance(999)
    assert [*bench.group().members] == ["a"]
    bench.advance(1)
    assert bench.group().state_name == "Empty"


def test_a_member_that_does_not_give_up_partitions_within_its_rebalance_timeout_is_removed(bench):
    bench.joined("a", rebalance_timeout_ms=20_000)
    bench.joined("b")
    assert bench.heard("a", 2) == (2, {"visits": [0, 1]})
    bench.advance(19_000)
    assert bench.heard("a", 2, {"visits": [0, 1, 2, 3]}) == (2, None)
    bench.advance(1_000)
    assert [*bench.group().members] == ["b"]
    assert bench.beat("a", 2).error == 25
    assert bench.heard("b", 3) == (4, {"visits": [0, 1, 2, 3]})


def test_a_member_that_gave_up_its_partitions_in_time_stays(bench):
    bench.joined("a", rebalance_timeout_ms=20_000)
    bench.joined("b")
    bench.heard("a", 2)
    bench.heard("a", 2, {"visits": [0, 1]})
    bench.advance(20_000)
    assert [*bench.group().members] == ["a", "b"]


def test_an_empty_group_leaves_no_timers_behind(bench):
    before = bench.timers.waiting
    two_members(bench)
    bench.heard("a", -1)
    bench.heard("b", -1)
    assert bench.timers.waiting == before


# Topics.


def test_new_partitions_are_shared_out(bench):
    two_members(bench)
    bench.topics.partitions["visits"] = 6
    bench.consumer_groups.on_topics_changed()
    assert bench.heard("a", 3) == (4, {"visits": [0, 1, 4]})
    assert bench.heard("b", 3) == (4, {"visits": [2, 3, 5]})


def test_a_deleted_topic_is_taken_away(bench):
    bench.joined("a", subscribed_topic_names=["visits", "orders"])
    del bench.topics.partitions["orders"]
    bench.consumer_groups.on_topics_changed()
    assert bench.heard("a", 2) == (2, {"visits": [0, 1, 2, 3]})
    assert bench.heard("a", 2, {"visits": [0, 1, 2, 3]}) == (3, None)


def test_changes_of_other_topics_are_no_reason_for_a_new_epoch(bench):
    bench.joined("a")
    bench.topics.partitions["others"] = 7
    bench.consumer_groups.on_topics_changed()
    assert bench.heard("a", 2) == (2, None)


# Assignors.


def test_the_range_assignor_gives_the_same_partitions_of_each_topic():
    bench = ConsumerBench(topics=ClusterTopics({"visits": 4, "orders": 4}))
    both = {"subscribed_topic_names": ["visits", "orders"], "server_assignor": "range"}
    bench.joined("a", **both)
    bench.joined("b", **both)
    assert bench.heard("a", 2) == (2, {"orders": [0, 1], "visits": [0, 1]})
    assert bench.described().assignor_name == "range"


def test_the_assignor_that_most_members_ask_for_is_used(bench):
    bench.joined("a", server_assignor="range")
    bench.joined("b", server_assignor="uniform")
    bench.joined("c", server_assignor="uniform")
    assert bench.described().assignor_name == "uniform"


def two_members(bench: ConsumerBench) -> None:
    """Both in epoch 3: `a` has partitions 0 and 1, `b` has 2 and 3."""
    bench.joined("a")
    bench.joined("b")
    bench.heard("a", 2)
    bench.heard("a", 2, {"visits": [0, 1]})
    assert bench.heard("b", 3) == (3, {"visits": [2, 3]})


# Settings of one group.


def test_a_member_of_a_group_with_its_own_session_timeout_may_be_silent_for_that_long():
    bench = ConsumerBench()
    bench.consumer_groups.use_config("g", GroupConfig(consumer_session_timeout_ms=60_000, consumer_heartbeat_interval_ms=9_000))
    assert bench.enter("a").response.heartbeat_interval_ms == 9_000
    bench.enter("b", group="other")
    bench.advance(45_001)
    assert (list(bench.group().members), list(bench.group("other").members)) == (["a"], [])
    bench.advance(15_000)
    assert list(bench.group().members) == []


def test_a_group_that_has_no_settings_any_more_has_the_brokers_from_the_next_heartbeat_on():
    bench = ConsumerBench()
    bench.consumer_groups.use_config("g", GroupConfig(consumer_session_timeout_ms=60_000))
    epoch = bench.enter("a").response.member_epoch
    bench.consumer_groups.use_config("g", None)
    bench.beat("a", epoch)
    bench.advance(45_001)
    assert list(bench.group().members) == []


def test_assignor_of_a_member_that_joined_under_another_configuration_is_passed_over():
    bench = ConsumerBench()
    bench.joined("a", server_assignor="range")
    again = bench.restarted(assignors=("uniform",))
    again.advance(0)
    assert again.joined("b")[0] == 3
    assert again.described().assignor_name == "uniform"


def test_more_names_than_a_member_may_subscribe_to_are_refused():
    bench = ConsumerBench()
    names = [f"topic-{number}" for number in range(10_001)]
    refused = bench.enter("a", subscribed_topic_names=names)
    assert (refused.error, "at most 10000" in refused.response.error_message) == (42, True)
    pieces = Pieces()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        topic_partitions=[],
        subscribed_topic_names=names[:10_000],
    )
    answers: list[ConsumerGroupHeartbeatResponse] = []
    finish(bench.consumer_groups.heartbeat(request, 1, Client("a", "/h"), answers.append), pieces)
    assert answers[0].error_code == 0
    assert pieces.longest < 0.5

"""JoinGroup: member ids, the initial delay, generations, protocols and leaders."""

from __future__ import annotations

import pytest

from milepost.coordinator.interfaces import Client
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import JoinGroupRequest, OffsetCommitRequest
from tests.coordinator.group_fixture import VISITS, GroupBench, consumer
from tests.coordinator.in_pieces import finish


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


# Member ids.


def test_a_newcomer_is_given_an_id_and_joins_with_it(bench):
    refused = bench.join(client_id="app")
    assert (refused.error, refused.response.member_id, refused.response.generation_id) == (79, "app-id1", -1)
    assert refused.response.protocol_name is None

    join = bench.join("app-id1")
    bench.advance(0)
    assert (join.error, join.response.generation_id, join.response.member_id) == (0, 1, "app-id1")
    assert join.response.leader == "app-id1"
    assert join.response.protocol_type == "consumer"
    assert [(m.member_id, m.metadata) for m in join.response.members] == [("app-id1", VISITS)]


def test_before_version_4_a_newcomer_joins_at_once(bench):
    join = bench.join(version=3)
    bench.advance(0)
    assert (join.error, join.response.member_id) == (0, "app-id1")


def test_before_version_7_a_missing_protocol_name_is_the_empty_string(bench):
    assert bench.join(version=5).response.protocol_name == ""


def test_version_0_has_one_timeout_for_sessions_and_rebalances(bench):
    bench.join(version=0, session_ms=20_000)
    (member,) = bench.groups.groups["g"].members.values()
    assert member.rebalance_timeout_ms == 20_000


def test_an_id_that_nobody_comes_back_with_is_forgotten_after_the_session_timeout(bench):
    refused = bench.join(session_ms=10_000)
    bench.advance(10_000)
    assert bench.join(refused.response.member_id).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_member_id_is_refused(bench):
    assert bench.join("nobody").error == ErrorCode.UNKNOWN_MEMBER_ID
    bench.stable_group()
    assert bench.join("nobody").error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("session_ms", "error"), [(5_999, 26), (6_000, 79), (1_800_000, 79), (1_800_001, 26), (-1, 26)])
def test_session_timeouts_are_limited(bench, session_ms, error):
    assert bench.join(session_ms=session_ms).error == error


def test_a_group_needs_an_id(bench):
    assert bench.join(group="").error == ErrorCode.INVALID_GROUP_ID


def test_a_refused_join_leaves_no_group_behind(bench):
    assert bench.join(protocols=[]).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join(protocol_type="").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.groups.groups == {}


# The initial delay.


def test_an_empty_group_waits_for_more_members_and_is_extended_by_newcomers():
    bench = GroupBench(initial_rebalance_delay_ms=3_000).load()
    first = bench.enter()
    bench.advance(2_000)
    second = bench.enter()
    bench.advance(2_000)
    assert first.is_waiting and second.is_waiting  # 4 s: extended to 6 s
    bench.advance(2_000)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2
    assert second.response.members == []


def test_the_initial_delay_is_not_extended_beyond_the_rebalance_timeout():
    bench = GroupBench(initial_rebalance_delay_ms=3_000).load()
    first = bench.enter(rebalance_ms=7_000)
    for _ in range(6):
        bench.advance(1_000)
        bench.enter(rebalance_ms=7_000)
    assert first.is_waiting
    bench.advance(1_000)
    assert first.response.generation_id == 1
    assert len(first.response.members) == 7


# Later rebalances.


def test_a_newcomer_makes_the_others_join_again(bench):
    (leader,) = bench.stable_group()
    newcomer = bench.enter()
    assert newcomer.is_waiting
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(leader)
    assert again.response.generation_id == newcomer.response.generation_id == 2
    assert again.response.leader == newcomer.response.leader == leader
    assert {m.member_id for m in again.response.members} == {leader, newcomer.response.member_id}


def test_who_does_not_join_again_in_time_is_dropped(bench):
    leader, _other = bench.stable_group(2, rebalance_ms=30_000, session_ms=60_000)
    newcomer = bench.enter(rebalance_ms=30_000)
    rejoined = bench.join(leader, rebalance_ms=30_000)
    bench.advance(29_999)
    assert rejoined.is_waiting
    bench.advance(1)
    assert {m.member_id for m in rejoined.response.members} == {leader, newcomer.response.member_id}
    assert rejoined.response.generation_id == 2


def test_a_leader_that_does_not_join_again_is_replaced_by_the_first_that_did(bench):
    _leader, other = bench.stable_group(2, session_ms=120_000)
    rejoined = bench.join(other, protocols=[("range", consumer("visits", "orders"))])
    bench.advance(60_000)
    assert rejoined.response.leader == other
    assert [m.member_id for m in rejoined.response.members] == [other]


def test_a_pending_member_holds_up_the_rebalance_until_its_id_expires(bench):
    (leader,) = bench.stable_group(session_ms=30_000)
    bench.join(session_ms=10_000)  # asks for an id and goes away
    again = bench.join(leader)
    assert again.is_waiting
    bench.advance(10_000)
    assert again.response.generation_id == 2


def test_a_leader_that_joins_again_always_starts_a_rebalance(bench):
    leader, other = bench.stable_group(2)
    again = bench.join(leader)
    assert again.is_waiting
    assert bench.heartbeat(other, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_joins_again_unchanged_gets_the_current_generation(bench):
    leader, other = bench.stable_group(2)
    again = bench.join(other)
    assert (again.error, again.response.generation_id, again.response.leader) == (0, 1, leader)
    assert again.response.members == []
    assert bench.heartbeat(leader, 1) == 0


def test_a_follower_with_other_metadata_starts_a_rebalance(bench):
    leader, other = bench.stable_group(2)
    assert bench.join(other, protocols=[("range", consumer("orders"))]).is_waiting
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_whose_join_answer_was_lost_gets_it_again_before_the_sync(bench):
    join = bench.enter()
    bench.advance(0)
    again = bench.join(join.response.member_id)
    assert again.response.generation_id == 1
    assert [m.member_id for m in again.response.members] == [join.response.member_id]


def test_a_second_join_of_the_same_member_takes_the_place_of_the_first(bench):
    leader, other = bench.stable_group(2)
    first = bench.join(leader)
    second = bench.join(leader)
    assert first.error == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(other)
    assert second.response.generation_id == 2


def test_a_newcomer_may_wait_5_minutes_whatever_its_session_timeout(bench):
    (leader,) = bench.stable_group(rebalance_ms=600_000, session_ms=60_000)
    newcomer = bench.enter(session_ms=6_000)
    for _ in range(29):
        bench.advance(10_000)
        assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert newcomer.is_waiting
    bench.advance(10_000)
    assert newcomer.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_while_it_waits_for_the_others_a_member_need_not_heartbeat(bench):
    leader, other = bench.stable_group(2, session_ms=10_000, rebalance_ms=60_000)
    again = bench.join(leader)
    for _ in range(5):
        bench.advance(9_000)
        bench.heartbeat(other, 1)
    assert again.is_waiting
    bench.join(other)
    assert len(again.response.members) == 2


# Protocols.


def test_each_member_votes_for_its_first_choice_among_what_all_support(bench):
    both = [("sticky", b"s"), ("range", b"r")]
    joins = [
        bench.enter(protocols=[("only-mine", b"m"), *both]),
        bench.enter(protocols=both),
        bench.enter(protocols=[("range", b"r"), ("sticky", b"s")]),
    ]
    bench.advance(1)
    assert {join.response.protocol_name for join in joins} == {"sticky"}
    assert {m.metadata for m in joins[0].response.members} == {b"s"}


def test_a_member_without_a_common_protocol_is_refused(bench):
    bench.stable_group()
    assert bench.join(protocols=[("sticky", b"")]).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join(protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_change_its_protocol_type(bench):
    (member,) = bench.stable_group()
    bench.leave(member)
    join = bench.enter(protocol_type="connect", protocols=[("default", b"")])
    bench.advance(0)
    assert join.response.protocol_type == "connect"


# Size.


def test_a_full_group_refuses_newcomers_and_keeps_its_members():
    bench = GroupBench(max_size=2).load()
    leader, other = bench.stable_group(2)
    refused = bench.join()
    assert (refused.error, refused.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert bench.heartbeat(leader, 1) == 0
    assert bench.join(other).error == 0


def test_ids_that_are_given_out_count_against_the_size_of_a_group():
    bench = GroupBench(max_size=2).load()
    assert [bench.join().error for _ in range(3)] == [79, 79, 81]


def test_a_pending_member_that_finds_the_group_full_does_not_hold_it_up():
    bench = GroupBench(max_size=2).load()
    (leader,) = bench.stable_group()
    pending = bench.join().response.member_id
    newcomer = bench.enter()
    again = bench.join(leader)
    assert again.is_waiting  # for the pending one
    assert bench.join(pending).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert again.response.generation_id == newcomer.response.generation_id == 2


def test_a_group_is_full_when_its_members_bring_too_much_metadata():
    bench = GroupBench(max_metadata_bytes=1_000).load()
    (leader,) = bench.stable_group(protocols=[("range", b"x" * 600)])
    assert bench.join(protocols=[("range", b"x" * 600)]).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join(protocols=[("range", b"x" * 300)]).error == ErrorCode.MEMBER_ID_REQUIRED
    assert bench.heartbeat(leader, 1) == 0
    assert bench.join(leader, protocols=[("range", b"x" * 900)]).is_waiting


# Loading and leadership of the partition.


def test_without_its_partition_a_group_is_coordinated_elsewhere():
    assert GroupBench().join().error == ErrorCode.NOT_COORDINATOR


def test_whoever_waits_when_the_partition_goes_is_told_to_look_for_the_coordinator(bench):
    leader, _ = bench.stable_group(2)
    waiting = bench.join(leader)
    bench.groups.unload(bench.groups.partition_for("g"))
    assert waiting.error == ErrorCode.NOT_COORDINATOR
    assert bench.groups.groups == {}
    assert bench.timers.waiting == 1  # the sweep of expired offsets


def test_a_static_member_that_waits_for_the_log_when_the_partition_goes_is_told_too(bench):
    bench.join(instance="till-1")
    bench.advance(0)
    bench.sync("till-1-id1", 1, {"till-1-id1": b""})
    bench.log.is_holding = True
    waiting = bench.join(instance="till-1")
    bench.groups.unload(bench.groups.partition_for("g"))
    bench.log.release()
    assert waiting.error == ErrorCode.NOT_COORDINATOR


# Answers.


def test_a_request_that_follows_an_answer_at_once_finds_the_group_complete(bench):
    """The connection is read on while the answer is being sent: here the next request is handled inside of `answer`."""
    seen = []

    def answer_and_go_on(response):
        seen.append((response.member_id, response.generation_id, bench.groups.groups["g"].state_name))
        bench.join(response.member_id, protocols=[("range", consumer("orders"))])

    pending = [bench.join().response.member_id for _ in range(3)]
    for member_id in pending:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=VISITS)],
        )
        bench.groups.join(request, 9, Client("app", "/127.0.0.1"), answer_and_go_on)
    bench.advance(0)
    assert [(member_id, generation) for member_id, generation, _ in seen] == [(member_id, 1) for member_id in pending]
    assert seen[0][2] == "CompletingRebalance"
    assert bench.groups.groups["g"].generation == 2  # all three joined again


def test_a_thousand_answers_that_each_bring_a_request_do_not_pile_up(bench):
    def answer_and_go_on(response):
        finish(bench.groups.commit_offsets(OffsetCommitRequest(group_id="other", topics=[]), 9, answered.append))

    answered = []
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=VISITS)],
    )
    for _ in range(1_000):
        bench.groups.join(request, 3, Client("app", "/127.0.0.1"), answer_and_go_on)
    bench.advance(0)
    assert len(answered) == 1_000

"""Static members (KIP-345): known by an instance id, they come back without a rebalance."""

from __future__ import annotations

import pytest

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import LeaveGroupRequest
from tests.coordinator.group_fixture import GroupBench, consumer


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


def static_group(bench: GroupBench, *instances: str, **options) -> list[str]:
    """A stable group of static members, the leader first; each is assigned `b"<instance>"`."""
    joins = [bench.join(instance=instance, **options) for instance in instances]
    bench.advance(0)
    members = [join.response.member_id for join in joins]
    assignments = {name: instance.encode() for name, instance in zip(members, instances, strict=True)}
    for member in members:
        assert bench.sync(member, 1, assignments if member == members[0] else {}).error == 0
    return members


def test_a_static_member_needs_no_round_trip_and_its_id_begins_with_the_instance(bench):
    join = bench.join(instance="till-1")
    bench.advance(0)
    assert (join.error, join.response.member_id) == (0, "till-1-id1")
    assert [member.group_instance_id for member in join.response.members] == ["till-1"]


def test_a_follower_that_comes_back_gets_a_new_id_and_nobody_rebalances(bench):
    leader, _ = static_group(bench, "till-1", "till-2")
    back = bench.join(instance="till-2")
    assert (back.error, back.response.generation_id, back.response.member_id) == (0, 1, "till-2-id3")
    assert (back.response.leader, back.response.skip_assignment, back.response.members) == (leader, False, [])
    assert bench.heartbeat(leader, 1) == 0
    assert bench.sync("till-2-id3", 1).response.assignment == b"till-2"


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment(bench):
    static_group(bench, "till-1", "till-2")
    back = bench.join(instance="till-1", version=9)
    assert (back.response.leader, back.response.skip_assignment) == ("till-1-id3", True)
    assert {member.group_instance_id for member in back.response.members} == {"till-1", "till-2"}
    assert bench.sync("till-1-id3", 1).response.assignment == b"till-1"


def test_before_version_9_a_leader_that_comes_back_is_told_the_old_leader_s_id(bench):
    leader, _ = static_group(bench, "till-1", "till-2")
    back = bench.join(instance="till-1", version=8)
    assert (back.response.member_id, back.response.leader, back.response.members) == ("till-1-id3", leader, [])


def test_the_new_id_of_a_static_member_is_in_the_log_before_it_is_answered(bench):
    static_group(bench, "till-1")
    bench.log.is_holding = True
    back = bench.join(instance="till-1")
    assert back.is_waiting
    bench.log.release()
    assert back.error == 0
    assert bench.restarted().heartbeat("till-1-id2", 1) == 0


def test_when_the_new_id_cannot_be_written_the_old_one_stays(bench):
    (member,) = static_group(bench, "till-1")
    bench.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.join(instance="till-1").error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.heartbeat(member, 1, instance="till-1") == 0


def test_the_replaced_member_is_fenced_wherever_it_shows_itself(bench):
    (old,) = static_group(bench, "till-1")
    bench.join(instance="till-1")
    assert bench.heartbeat(old, 1, instance="till-1") == ErrorCode.FENCED_INSTANCE_ID
    assert bench.join(old, instance="till-1").error == ErrorCode.FENCED_INSTANCE_ID
    assert bench.sync(old, 1, group_instance_id="till-1").error == ErrorCode.FENCED_INSTANCE_ID
    commit = bench.commit({("visits", 0): 1}, member_id=old, generation=1, group_instance_id="till-1")
    assert commit.response.topics[0].partitions[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_join_that_waits_under_the_old_id_is_fenced(bench):
    leader, _ = static_group(bench, "till-1", "till-2")
    waiting = bench.join(leader, instance="till-1")
    again = bench.join(instance="till-1")
    assert waiting.error == ErrorCode.FENCED_INSTANCE_ID
    assert again.is_waiting


def test_a_static_member_that_comes_back_between_join_and_sync_starts_a_rebalance(bench):
    joins = [bench.join(instance=name) for name in ("till-1", "till-2")]
    bench.advance(0)
    waiting = bench.sync(joins[1].response.member_id, 1)
    assert bench.join(instance="till-1").is_waiting
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_other_topics_make_the_group_rebalance(bench):
    leader, _ = static_group(bench, "till-1", "till-2")
    assert bench.join(instance="till-2", protocols=[("range", consumer("orders"))]).is_waiting
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_keeps_its_place_in_a_rebalance_while_its_session_lives(bench):
    leader, absent = static_group(bench, "till-1", "till-2", session_ms=120_000, rebalance_ms=60_000)
    again = bench.join(leader, instance="till-1", session_ms=120_000, rebalance_ms=60_000)
    bench.advance(60_000)
    assert {member.member_id for member in again.response.members} == {leader, absent}


def test_when_only_static_members_are_left_and_none_has_rejoined_the_rebalance_waits_on(bench):
    static_group(bench, "till-1", session_ms=120_000, rebalance_ms=10_000)
    newcomer = bench.enter(rebalance_ms=10_000)
    bench.leave("app-id2")
    assert newcomer.error == ErrorCode.UNKNOWN_MEMBER_ID
    bench.advance(25_000)
    assert bench.groups.groups["g"].state_name == "PreparingRebalance"
    assert bench.join(instance="till-1").response.generation_id == 2


def test_a_static_member_whose_session_ends_is_dropped(bench):
    static_group(bench, "till-1", session_ms=10_000)
    bench.advance(10_000)
    assert bench.groups.groups["g"].state_name == "Empty"


def test_coming_back_is_a_sign_of_life(bench):
    static_group(bench, "till-1", session_ms=10_000)
    bench.advance(8_000)
    bench.join(instance="till-1", session_ms=10_000)
    bench.advance(8_000)
    assert bench.heartbeat("till-1-id2", 1, instance="till-1") == 0


def test_an_admin_removes_a_static_member_by_its_instance_id(bench):
    leader, _ = static_group(bench, "till-1", "till-2")
    leavers = [LeaveGroupRequest.Member(member_id="", group_instance_id=name) for name in ("till-2", "till-9")]
    call = bench.call(LeaveGroupRequest(group_id="g", members=leavers))
    assert [(member.group_instance_id, member.error_code) for member in call.response.members] == [("till-2", 0), ("till-9", 25)]
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_instance_id_that_nobody_has_is_unknown(bench):
    (member,) = static_group(bench, "till-1")
    assert bench.heartbeat(member, 1, instance="till-9") == ErrorCode.UNKNOWN_MEMBER_ID

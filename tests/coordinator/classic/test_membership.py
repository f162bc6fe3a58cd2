"""SyncGroup, Heartbeat, LeaveGroup and sessions."""

from __future__ import annotations

import pytest

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import LeaveGroupRequest
from tests.coordinator.group_fixture import GroupBench, consumer


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


def joined(bench: GroupBench, count: int = 2, **options) -> list[str]:
    """Members of generation 1 that have not synced; the leader first."""
    joins = [bench.enter(**options) for _ in range(count)]
    bench.advance(0)
    return [join.response.member_id for join in joins]


# Sync.


def test_followers_wait_for_the_leader_and_each_gets_its_own_assignment(bench):
    leader, follower = joined(bench)
    waiting = bench.sync(follower, 1)
    assert waiting.is_waiting
    own = bench.sync(leader, 1, {leader: b"left", follower: b"right"})
    assert (own.error, own.response.assignment) == (0, b"left")
    assert (waiting.error, waiting.response.assignment) == (0, b"right")
    assert (own.response.protocol_type, own.response.protocol_name) == ("consumer", "range")


def test_a_follower_that_syncs_late_gets_its_assignment_at_once(bench):
    leader, follower = joined(bench)
    bench.sync(leader, 1, {leader: b"left", follower: b"right"})
    assert bench.sync(follower, 1).response.assignment == b"right"
    assert bench.sync(follower, 1).response.assignment == b"right"


def test_members_the_leader_forgot_get_empty_bytes_and_strangers_are_dropped(bench):
    leader, follower = joined(bench)
    waiting = bench.sync(follower, 1)
    bench.sync(leader, 1, {leader: b"all", "stranger": b"x"})
    assert (waiting.error, waiting.response.assignment) == (0, b"")
    assert "stranger" not in bench.groups.groups["g"].members


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "nobody", "generation": 1}, 25),
        ({"generation": 0}, 22),
        ({"generation": 2}, 22),
        ({"generation": 1, "protocol_type": "connect"}, 23),
        ({"generation": 1, "protocol_name": "sticky"}, 23),
        ({"generation": 1, "protocol_type": "consumer", "protocol_name": "range"}, 0),
        ({"generation": 1, "group": "no-group"}, 25),
        ({"generation": 1, "group": ""}, 24),
    ],
)
def test_what_a_sync_must_say(bench, fields, error):
    (leader,) = joined(bench, 1)
    call = bench.sync(**{"member_id": leader, **fields})
    assert (call.error, call.response.assignment) == (error, b"")


def test_a_sync_during_the_next_rebalance_is_told_to_join(bench):
    leader, _ = bench.stable_group(2)
    bench.enter()
    assert bench.sync(leader, 1).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_syncs_that_wait_when_somebody_joins_are_told_to_join_again(bench):
    _, follower = joined(bench)
    waiting = bench.sync(follower, 1)
    bench.enter()
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_are_in_the_log_before_anybody_gets_them(bench):
    leader, follower = joined(bench)
    waiting = bench.sync(follower, 1)
    bench.log.is_holding = True
    own = bench.sync(leader, 1, {leader: b"l", follower: b"f"})
    assert own.is_waiting and waiting.is_waiting
    bench.log.release()
    assert (own.response.assignment, waiting.response.assignment) == (b"l", b"f")


def test_assignments_that_cannot_be_written_fail_the_syncs_and_start_again(bench):
    leader, follower = joined(bench)
    waiting = bench.sync(follower, 1)
    bench.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    own = bench.sync(leader, 1, {leader: b"l", follower: b"f"})
    assert own.error == waiting.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_write_that_completes_in_a_later_generation_changes_nothing(bench):
    leader, follower = joined(bench)
    bench.log.is_holding = True
    own = bench.sync(leader, 1, {leader: b"old", follower: b"old"})
    newcomer = bench.enter()
    assert own.error == ErrorCode.REBALANCE_IN_PROGRESS
    bench.log.release()
    assert bench.groups.groups["g"].state_name == "PreparingRebalance"
    assert newcomer.is_waiting


def test_who_does_not_sync_within_the_rebalance_timeout_is_dropped(bench):
    leader, follower = joined(bench, rebalance_ms=20_000, session_ms=60_000)
    waiting = bench.sync(leader, 1, {leader: b"", follower: b""})
    assert waiting.error == 0
    bench.advance(20_000)
    assert bench.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_is_dropped_and_the_followers_join_again(bench):
    leader, follower = joined(bench, rebalance_ms=20_000, session_ms=60_000)
    waiting = bench.sync(follower, 1)
    bench.advance(20_000)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(follower)
    assert (again.response.leader, again.response.generation_id) == (follower, 2)
    assert bench.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_time_to_sync_begins_anew_with_each_generation(bench):
    leader, follower = joined(bench, rebalance_ms=20_000, session_ms=60_000)
    bench.advance(15_000)
    options = {"rebalance_ms": 20_000, "session_ms": 60_000, "protocols": [("range", consumer("orders"))]}
    again = [bench.join(member, **options) for member in (follower, leader)]
    assert [call.response.generation_id for call in again] == [2, 2]
    bench.advance(10_000)
    assert bench.heartbeat(follower, 2) == 0


# Heartbeats and sessions.


def test_heartbeats_by_state(bench):
    refused = bench.join()
    member_id = refused.response.member_id
    assert bench.heartbeat(member_id, 0) == ErrorCode.UNKNOWN_MEMBER_ID  # Empty
    bench.join(member_id)
    bench.advance(0)
    assert bench.heartbeat(member_id, 1) == 0  # CompletingRebalance
    bench.sync(member_id, 1, {member_id: b""})
    assert bench.heartbeat(member_id, 1) == 0  # Stable
    assert bench.heartbeat(member_id, 2) == ErrorCode.ILLEGAL_GENERATION
    assert bench.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.enter()
    assert bench.heartbeat(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS  # PreparingRebalance
    assert bench.heartbeat("x", 1, group="no-group") == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat("x", 1, group="") == ErrorCode.INVALID_GROUP_ID


def test_a_silent_member_is_dropped_after_its_session_timeout(bench):
    leader, follower = bench.stable_group(2, session_ms=10_000)
    bench.advance(6_000)
    assert bench.heartbeat(leader, 1) == 0
    bench.advance(4_000)
    assert bench.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.join(leader).response.generation_id == 2


def test_a_newcomer_has_its_own_session_timeout_once_it_has_joined(bench):
    (leader,) = joined(bench, 1, session_ms=10_000, rebalance_ms=60_000)
    bench.advance(10_000)
    assert bench.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_members_have_all_gone_is_empty_and_says_so_in_the_log(bench):
    bench.stable_group(2, session_ms=10_000)
    bench.advance(10_001)
    assert bench.groups.groups["g"].state_name == "Empty"
    key, value = bench.log.written()[-1]
    assert key == '{"type":"2","data":{"group":"g"}}'
    assert value == (
        '{"version":"3","data":{"protocolType":"consumer","generation":2,"protocol":null,"leader":null,'
        '"currentStateTimestamp":1700000010001,"members":[]}}'
    )


def test_a_commit_counts_as_a_heartbeat(bench):
    (member,) = bench.stable_group(session_ms=10_000)
    for _ in range(3):
        bench.advance(6_000)
        assert bench.commit({("visits", 0): 1}, member_id=member, generation=1).response
    assert bench.heartbeat(member, 1) == 0


def test_many_commits_in_a_row_do_not_make_a_timer_each(bench):
    (member,) = bench.stable_group(session_ms=10_000)
    made = bench.timers.made
    for _ in range(1_000):
        bench.advance(1)
        bench.heartbeat(member, 1)
    assert bench.timers.made - made <= 4
    bench.advance(9_700)
    assert bench.heartbeat(member, 1) == 0


# Leaving.


def test_a_member_that_leaves_makes_the_others_rebalance_at_once(bench):
    leader, follower = bench.stable_group(2)
    (left,) = bench.leave(follower).response.members
    assert (left.member_id, left.error_code) == (follower, 0)
    assert bench.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.join(leader).response.generation_id == 2


def test_up_to_version_2_one_member_leaves_and_the_error_is_at_the_top(bench):
    (member,) = bench.stable_group()
    assert bench.call(LeaveGroupRequest(group_id="g", member_id="nobody"), 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.call(LeaveGroupRequest(group_id="g", member_id=member), 0).error == 0
    assert bench.groups.groups["g"].state_name == "Empty"


def test_each_leaving_member_has_its_own_error(bench):
    leader, _ = bench.stable_group(2)
    call = bench.leave("nobody", leader)
    assert call.error == 0
    assert [member.error_code for member in call.response.members] == [25, 0]
    call = bench.leave("x", group="no-group")
    assert call.error == 0
    assert [member.error_code for member in call.response.members] == [25]
    assert bench.leave("x", group="").error == ErrorCode.INVALID_GROUP_ID


def test_the_last_to_leave_ends_the_wait_of_the_others(bench):
    leader, follower = bench.stable_group(2)
    waiting = bench.join(leader)
    bench.leave(follower)
    assert waiting.response.generation_id == 2


def test_a_pending_member_may_leave(bench):
    (leader,) = bench.stable_group()
    pending = bench.join().response.member_id
    waiting = bench.join(leader)
    assert waiting.is_waiting
    assert [member.error_code for member in bench.leave(pending).response.members] == [0]
    assert waiting.response.generation_id == 2


def test_a_member_that_leaves_while_its_join_waits_is_answered(bench):
    leader, _ = bench.stable_group(2)
    waiting = bench.join(leader)
    bench.leave(leader)
    assert waiting.error == ErrorCode.UNKNOWN_MEMBER_ID

"""Groups that change their protocol while their members work: upgraded by the first new member, downgraded by the last one."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.coordinator.interfaces import Client
from milepost.protocol.messages import ConsumerGroupHeartbeatRequest
from milepost.record.internal_topics.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from tests.coordinator.consumer.consumer_fixture import ConsumerBench, Owned
from tests.coordinator.group_fixture import Call, consumer, partition_errors
from tests.coordinator.in_pieces import finish


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


def subscription(owned: Owned | None = None, generation: int = -1, topics: tuple[str, ...] = ("visits",)) -> bytes:
    partitions = tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in (owned or {}).items())
    return SUBSCRIPTION.encode(
        ConsumerProtocolSubscription(topics=topics, owned_partitions=partitions, generation_id=generation, schema_version=2)
    )


def assignment(owned: Owned) -> bytes:
    partitions = tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in owned.items())
    return ASSIGNMENT.encode(ConsumerProtocolAssignment(assigned_partitions=partitions, schema_version=2))


def assigned(sync: Call) -> Owned:
    assert sync.error == 0
    found = ASSIGNMENT.decode_lenient(sync.response.assignment)
    return {topic.topic: list(topic.partitions) for topic in found.assigned_partitions}


def rejoin(bench: ConsumerBench, member_id: str, owned: Owned, generation: int, **options: Any) -> Call:
    return bench.join(member_id, protocols=(("cooperative-sticky", subscription(owned, generation)),), **options)


def classic_group(bench: ConsumerBench, **options: Any) -> str:
    """One classic member with all partitions, in generation 1."""
    options = {"protocols": (("cooperative-sticky", subscription()),), **options}
    join = bench.join(**options)
    if not join.is_waiting and join.error == 79:
        join = bench.join(join.response.member_id, **options)
    bench.advance(0)
    assert (join.error, join.response.generation_id) == (0, 1)
    sync = bench.sync(join.response.member_id, 1, {join.response.member_id: assignment({"visits": [0, 1, 2, 3]})})
    assert sync.error == 0
    return join.response.member_id


# Upgrades.


def test_a_group_is_upgraded_member_by_member(bench):
    old = classic_group(bench)
    bench.commit({("visits", 0): 7}, member_id=old, generation=1)
    # The first of the new kind joins; the old member holds everything.
    assert bench.joined("new") == (2, {})
    assert bench.groups.groups["g"].kind == "consumer"
    # The old one is told to join again, hears what it may keep, gives up the rest and joins once more.
    assert bench.heartbeat(old, 1) == 27
    join = rejoin(bench, old, {"visits": [0, 1, 2, 3]}, 1)
    assert (join.error, join.response.generation_id, join.response.protocol_name) == (0, 1, "cooperative-sticky")
    assert (join.response.leader, join.response.members) == ("", [])
    assert assigned(bench.sync(old, 1)) == {"visits": [0, 1]}
    assert bench.heard("new", 2) == (2, None)
    join = rejoin(bench, old, {"visits": [0, 1]}, 1)
    assert join.response.generation_id == 2
    assert assigned(bench.sync(old, 2)) == {"visits": [0, 1]}
    assert bench.heartbeat(old, 2) == 0
    assert bench.heard("new", 2) == (2, {"visits": [2, 3]})
    assert bench.group().state_name == "Stable"
    # It is stopped and comes back with the new protocol.
    assert bench.leave(old).response.members[0].error_code == 0
    assert bench.joined("newer") == (4, {"visits": [0, 1]})
    assert bench.heard("new", 2) == (4, None)
    assert (bench.group().state_name, bench.fetch()) == ("Stable", {("visits", 0): 7})


def test_an_eager_member_gives_up_everything_when_it_joins_again(bench):
    old = classic_group(bench, protocols=(("range", consumer("visits")),))
    bench.joined("new")
    assert bench.heartbeat(old, 1) == 27
    join = bench.join(old, protocols=(("range", consumer("visits")),))
    assert join.response.generation_id == 2
    assert assigned(bench.sync(old, 2)) == {"visits": [0, 1]}
    assert bench.heard("new", 2) == (2, {"visits": [2, 3]})


def test_an_upgraded_group_is_described_with_both_kinds_of_members(bench):
    old = classic_group(bench)
    bench.joined("new")
    kinds = {member.member_id: member.member_type for member in bench.described().members}
    assert kinds == {old: 0, "new": 1}


def test_an_upgraded_group_survives_a_restart(bench):
    old = classic_group(bench, session_ms=8_000)
    bench.joined("new")
    again = bench.restarted()
    assert again.groups.groups["g"].kind == "consumer"
    assert again.heartbeat(old, 1) == 27
    again.advance(8_000)  # the classic member's own session
    assert again.heard("new", 2) == (3, {"visits": [0, 1, 2, 3]})


def test_members_that_wait_in_a_rebalance_are_told_to_join_again(bench):
    old = classic_group(bench)
    second = bench.join(protocols=(("cooperative-sticky", subscription()),)).response.member_id
    waiting = bench.join(second, protocols=(("cooperative-sticky", subscription()),))
    assert waiting.is_waiting
    bench.joined("new")
    assert waiting.error == 27
    assert set(bench.group().members) == {old, second, "new"}


def test_what_a_classic_member_commits_is_checked_against_its_epoch(bench):
    old = classic_group(bench)
    bench.joined("new")
    assert partition_errors(bench.commit({("visits", 0): 7}, member_id=old, generation=1, version=7)) == [0]
    assert partition_errors(bench.commit({("visits", 0): 7}, member_id=old, generation=2, version=7)) == [22]


def test_a_static_member_is_replaced_by_its_successor_of_the_new_kind(bench):
    old = classic_group(bench, instance="i")
    assert bench.joined("new", instance_id="i") == (2, {"visits": [0, 1, 2, 3]})
    assert [*bench.group().members] == ["new"]
    assert bench.heartbeat(old, 1, instance="i") == 82


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_that_may_not_be_upgraded_stays_what_it_is(policy):
    bench = ConsumerBench(migration_policy=policy)
    old = classic_group(bench)
    assert bench.enter("new").error == 69
    assert bench.heartbeat(old, 1) == 0


def test_a_group_of_another_protocol_type_is_not_upgraded(bench):
    connect = {"protocols": (("default", b"x"),), "protocol_type": "connect"}
    member = bench.join(**connect).response.member_id
    bench.join(member, **connect)
    bench.advance(0)
    bench.sync(member, 1, {member: b"tasks"})
    assert bench.enter("new").error == 69
    assert bench.heartbeat(member, 1) == 0


def test_an_upgrade_that_cannot_be_written_has_not_happened(bench):
    old = classic_group(bench)
    bench.log.error = 19
    assert bench.enter("new").error == 15
    bench.log.error = 0
    assert bench.groups.groups["g"].kind == "classic"
    assert bench.heartbeat(old, 1) == 27  # it rebalances, since waiting requests were answered
    join = bench.join(old, protocols=(("cooperative-sticky", subscription()),))
    assert (join.error, join.response.generation_id) == (0, 2)


# Classic members of a consumer group.


def test_a_new_classic_member_is_taken_in_with_the_round_trip_for_its_id(bench):
    bench.joined("a")
    refused = bench.join(protocols=(("range", consumer("visits")),))
    assert refused.error == 79
    join = bench.join(refused.response.member_id, protocols=(("range", consumer("visits")),))
    assert (join.error, join.response.generation_id) == (0, 3)
    assert assigned(bench.sync(refused.response.member_id, 3)) == {}
    assert bench.heartbeat(refused.response.member_id, 3) == 0
    bench.heard("a", 2)
    bench.heard("a", 2, {"visits": [0, 1]})
    assert bench.heartbeat(refused.response.member_id, 3) == 27


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_group_that_may_not_be_downgraded_takes_no_classic_members(policy):
    bench = ConsumerBench(migration_policy=policy)
    bench.joined("a")
    assert bench.join().error == 23


def test_classic_members_have_to_share_a_protocol(bench):
    classic_group(bench)
    bench.joined("new")
    assert bench.join(protocols=(("range", consumer("visits")),)).error == 23
    assert bench.join(protocols=(("cooperative-sticky", b"\x00"),)).error == 23


def test_classic_requests_of_strangers_are_refused(bench):
    old = classic_group(bench)
    bench.joined("new")
    assert (bench.heartbeat("nobody", 1), bench.heartbeat("new", 2), bench.heartbeat(old, 5)) == (25, 25, 22)
    assert (bench.sync("nobody", 1).error, bench.sync(old, 5).error) == (25, 22)
    assert bench.sync(old, 1).error == 27
    assert bench.sync(old, 1, protocol_name="range").error == 23


def test_a_classic_member_that_does_not_join_again_is_removed(bench):
    old = classic_group(bench, rebalance_ms=12_000)
    bench.joined("new")
    assert bench.heartbeat(old, 1) == 27
    bench.advance(6_000)
    assert bench.heartbeat(old, 1) == 27
    bench.advance(6_000)
    assert [*bench.group().members] == ["new"]


def test_a_classic_member_that_does_not_sync_is_removed(bench):
    old = classic_group(bench, rebalance_ms=8_000)
    bench.joined("new")
    assert rejoin(bench, old, {}, 1, rebalance_ms=8_000).response.generation_id == 2
    bench.advance(8_000)
    assert [*bench.group().members] == ["new"]


def test_upgrade_takes_over_what_the_classic_group_has_at_its_end(bench):
    """It is prepared in pieces, and a member may leave between two of them."""
    old = classic_group(bench)
    answers: list[Any] = []
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="new",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["visits"],
        topic_partitions=[],
    )
    work = bench.consumer_groups.heartbeat(request, 1, Client("client", "/host"), answers.append)
    for _ in range(5):
        next(work)
    bench.leave(old)
    finish(work)
    assert [topic.partitions for topic in answers[0].assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert list(bench.group().members) == ["new"]


# Downgrades.


def test_when_the_last_new_member_leaves_the_group_is_classic_again(bench):
    old = classic_group(bench)
    bench.commit({("visits", 0): 7}, member_id=old, generation=1)
    bench.joined("new")
    rejoin(bench, old, {}, 1)
    assert assigned(bench.sync(old, 2)) == {"visits": [0, 1]}
    bench.heard("new", -1)
    group = bench.groups.groups["g"]
    assert (group.kind, group.state_name) == ("classic", "PreparingRebalance")
    assert bench.heartbeat(old, 2) == 27
    join = bench.join(old, protocols=(("cooperative-sticky", subscription({"visits": [0, 1]}, 2)),))
    assert (join.error, join.response.generation_id, join.response.leader) == (0, 3, old)
    assert bench.sync(old, 3, {old: assignment({"visits": [0, 1, 2, 3]})}).error == 0
    again = bench.restarted()
    assert (again.groups.groups["g"].kind, again.fetch()) == ("classic", {("visits", 0): 7})
    assert again.heartbeat(old, 3) == 0


def test_when_the_session_of_the_last_new_member_ends_the_group_is_classic_again():
    bench = ConsumerBench(session_timeout_ms=9_000)
    old = classic_group(bench)
    bench.joined("new")
    rejoin(bench, old, {}, 1)
    bench.sync(old, 2)
    bench.advance(8_000)
    bench.heartbeat(old, 2)
    bench.advance(1_000)
    assert bench.groups.groups["g"].kind == "classic"


def test_a_group_that_may_not_be_downgraded_keeps_its_classic_members():
    bench = ConsumerBench(migration_policy="upgrade")
    old = classic_group(bench)
    bench.joined("new")
    bench.heard("new", -1)
    assert bench.groups.groups["g"].kind == "consumer"
    assert rejoin(bench, old, {"visits": [0, 1, 2, 3]}, 1).response.generation_id == 3
    assert assigned(bench.sync(old, 3)) == {"visits": [0, 1, 2, 3]}


def test_a_static_member_that_comes_back_with_the_classic_protocol_makes_the_group_classic(bench):
    bench.joined("new", instance_id="i")
    bench.heard("new", -2, instance_id="i")
    join = bench.join(instance="i", protocols=(("range", consumer("visits")),))
    assert (join.error, join.response.generation_id) == (0, 2)
    assert bench.groups.groups["g"].kind == "classic"
    assert bench.heartbeat(join.response.member_id, 2, instance="i") == 27


def test_a_downgrade_that_cannot_be_written_has_not_happened(bench):
    old = classic_group(bench)
    bench.joined("new")
    bench.log.error = 19
    assert bench.beat("new", -1).error == 15
    bench.log.error = 0
    assert set(bench.group().members) == {old, "new"}
    assert bench.heard("new", 2) == (2, None)


def test_timers_of_both_kinds_end_with_the_group(bench):
    before = bench.timers.waiting
    old = classic_group(bench)
    bench.joined("new")
    bench.heartbeat(old, 1)
    bench.leave(old)
    bench.heard("new", -1)
    assert bench.timers.waiting == before

"""A heartbeat of a group with many topics is prepared in short pieces, one of a group at a time, and takes effect in one."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.coordinator.interfaces import Client, Work
from milepost.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, LeaveGroupRequest
from tests.coordinator.consumer.consumer_fixture import ClusterTopics, ConsumerBench, Topic
from tests.coordinator.group_fixture import consumer, topic_id
from tests.coordinator.in_pieces import Pieces, finish

MANY = 1_000
NAMES = [f"topic-{number:04}" for number in range(MANY)]


class ManyTopics(ClusterTopics):
    """Looked up as in a broker: not all of them made for each look."""

    def __init__(self, partitions: dict[str, int]) -> None:
        super().__init__(partitions)
        self._made = super().topics

    @property
    def topics(self) -> dict[str, Topic]:
        return self._made

    def make(self, name: str, count: int) -> None:
        self.partitions[name] = count
        self._made = super().topics


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench(topics=ManyTopics(dict.fromkeys(NAMES, 2)))


def beating(bench: ConsumerBench, member: str, answers: list[Any], epoch: int = 0, **fields: Any) -> Work[None]:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": NAMES, "topic_partitions": [], **fields}
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)
    return bench.consumer_groups.heartbeat(request, 1, Client("client", "/host"), answers.append)


def begun(work: Work[None], pieces: int = 50) -> Work[None]:
    for _ in range(pieces):
        next(work)
    return work


def assigned(answer: Any) -> int:
    assert answer.error_code == 0, answer.error_message
    return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)


def beat(bench: ConsumerBench, member: str, epoch: int = 0, **fields: Any) -> Any:
    answers: list[Any] = []
    finish(beating(bench, member, answers, epoch, **fields))
    return answers[0]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_member_of_many_topics_joins_in_pieces(bench, assignor):
    for number in range(3):
        answers: list[Any] = []
        pieces = Pieces()
        finish(beating(bench, f"m{number}", answers, server_assignor=assignor), pieces)
        assert pieces.count > MANY
    assert answers[0].member_epoch == 4
    shares = {"uniform": [666, 667, 667], "range": [0, 1000, 1000]}
    assert sorted(len(target) for target in bench.group().targets.values()) == shares[assignor]


def test_members_that_subscribe_to_different_topics_are_assigned_in_pieces(bench):
    beat(bench, "m0")
    answers: list[Any] = []
    pieces = Pieces()
    finish(beating(bench, "m1", answers, subscribed_topic_names=NAMES[: MANY // 2]), pieces)
    assert pieces.count > 2 * MANY
    assert {name: len(target) for name, target in bench.group().targets.items()} == {"m0": 1000, "m1": 1000}


def test_partitions_that_a_member_says_it_owns_are_read_in_pieces(bench):
    owned = [ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=topic_id("nothing"), partitions=list(range(50_000)))]
    beat(bench, "m0")
    pieces = Pieces()
    answers: list[Any] = []
    finish(beating(bench, "m0", answers, 2, topic_partitions=owned), pieces)
    assert pieces.count > 200
    assert answers[0].error_code == 0


def test_group_of_many_topics_is_described_in_pieces(bench):
    beat(bench, "m0")
    pieces = Pieces()
    (group,) = finish(bench.consumer_groups.describe(ConsumerGroupDescribeRequest(group_ids=["g"])), pieces).groups
    assert pieces.count > 2 * MANY
    assert [len(topic.partitions) for topic in group.members[0].assignment.topic_partitions] == [2] * MANY


def test_group_is_as_it_was_while_a_heartbeat_is_prepared(bench):
    beat(bench, "m0")
    before = bench.group().snapshot()
    states = [bench.group().snapshot() for _ in beating(bench, "m1", [])]
    assert len(states) > 200
    assert all(state == before for state in states)
    assert list(bench.group().members) == ["m0", "m1"]


def test_second_heartbeat_of_a_group_waits_for_the_first(bench):
    answers: list[Any] = []
    first = begun(beating(bench, "m0", answers))
    second = beating(bench, "m1", answers)
    resumed: list[None] = []
    subscribe: Any = next(second)
    subscribe(lambda: resumed.append(None))
    assert resumed == []
    finish(first)
    assert resumed == [None]
    finish(second)
    assert [(answer.member_id, answer.member_epoch, assigned(answer)) for answer in answers] == [("m0", 2, 2000), ("m1", 3, 0)]


def test_heartbeat_of_another_group_does_not_wait(bench):
    first = begun(beating(bench, "m0", []))
    assert bench.answer_to(bench.enter("m1", group="other", subscribed_topic_names=NAMES[:1])) == (2, {NAMES[0]: [0, 1]})
    finish(first)


def test_heartbeat_whose_client_goes_changes_nothing_and_lets_the_next_one_go_on(bench):
    beat(bench, "m0")
    before = bench.group().snapshot()
    begun(beating(bench, "m1", [])).close()
    assert bench.group().snapshot() == before
    assert beat(bench, "m2").member_epoch == 3
    assert list(bench.group().members) == ["m0", "m2"]


def test_member_that_leaves_while_another_joins_is_not_given_anything(bench):
    beat(bench, "m0")
    beat(bench, "m1")
    answers: list[Any] = []
    work = begun(beating(bench, "m2", answers))
    bench.call(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id="m1")]), 5)
    finish(work)
    assert (answers[0].error_code, answers[0].member_epoch) == (0, 5)
    assert {name: len(target) for name, target in bench.group().targets.items()} == {"m0": 1000, "m2": 1000}


def test_session_that_ends_while_its_member_is_heard_of(bench):
    beat(bench, "m0")
    answers: list[Any] = []
    work = begun(beating(bench, "m0", answers, 2, subscribed_topic_names=NAMES[:500]))
    bench.advance(60_000)
    finish(work)
    assert answers[0].error_code == 25
    assert bench.group().members == {}


def test_member_whose_heartbeat_waits_for_its_turn_is_alive(bench):
    beat(bench, "m0")
    first = begun(beating(bench, "m1", []))
    bench.advance(30_000)
    answers: list[Any] = []
    second = beating(bench, "m0", answers, 2)
    next(second)
    bench.advance(30_000)
    finish(first)
    finish(second)
    assert (answers[0].error_code, answers[0].member_epoch) == (0, 2)


def test_group_that_moves_away_while_a_heartbeat_is_prepared(bench):
    beat(bench, "m0")
    answers: list[Any] = []
    work = begun(beating(bench, "m1", answers))
    bench.groups.unload(bench.groups.partition_for("g"))
    finish(work)
    assert answers[0].error_code == 16


def test_topics_that_change_while_a_heartbeat_is_prepared_are_seen_by_the_next_one(bench):
    answers: list[Any] = []
    work = begun(beating(bench, "m0", answers))
    bench.cluster.make(NAMES[0], 3)
    bench.consumer_groups.on_topics_changed()
    finish(work)
    finish(beating(bench, "m0", answers, 2))
    assert [answer.member_epoch for answer in answers] == [2, 3]
    assert [assigned(answer) for answer in answers] == [2000, 2001]


def test_classic_member_joins_a_group_of_many_topics_in_pieces(bench):
    beat(bench, "m0")
    pieces = bench.pieces = Pieces()
    join = bench.join("", protocols=(("range", consumer(*NAMES)),))
    assert join.error == 79
    assert bench.join(join.response.member_id, protocols=(("range", consumer(*NAMES)),)).error == 0
    assert pieces.count > MANY
    assert [len(target) for target in bench.group().targets.values()] == [1000, 1000]

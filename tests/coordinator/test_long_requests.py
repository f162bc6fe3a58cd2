"""Requests of a megabyte about groups and offsets are handled in short pieces, and the world may change between two of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from milepost.coordinator.interfaces import Work
from milepost.coordinator.offsets.committed_offsets import Commit
from milepost.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from milepost.record.internal_topics.classic_records import OffsetCommitValue
from tests.coordinator.group_fixture import DAY_MS, GroupBench
from tests.coordinator.group_surroundings import START_MS, Topics
from tests.coordinator.in_pieces import Pieces, finish

PIECE_SECONDS = 0.5
"""Of work; a busy machine does not make it longer."""
MANY = 15_000


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench(topics=Topics({"wide": MANY})).load()


def ask(work: Work[Any], answers: list[Any]) -> Any:
    pieces = Pieces()
    response = finish(work, pieces)
    assert pieces.count > 20
    assert pieces.longest < PIECE_SECONDS
    return response if response is not None else answers[0]


def commits(topic: Any, count: int) -> list[Any]:
    return [topic(name="wide", partitions=[topic.Partition(partition_index=n, committed_offset=n) for n in range(count)])]


def fill(bench: GroupBench, group_id: str, count: int, committed_at: int = START_MS) -> None:
    """With committed offsets, as if they had been committed in many requests."""
    bench.commit({("wide", 0): 0}, group=group_id)
    for number in range(count):
        bench.groups.offsets.commit(
            group_id, ("wide", number), Commit(1, OffsetCommitValue(offset=number, commit_timestamp=committed_at))
        )


def codes(response: Any) -> set[int]:
    return {partition.error_code for topic in response.topics for partition in topic.partitions}


def let_all_run(bench: GroupBench, is_done: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_done():
            return
        bench.advance(1)
    raise AssertionError("it does not come to an end")


def restarted(bench: GroupBench) -> GroupBench:
    again = bench.restarted()
    let_all_run(again, lambda: not again.groups.registry.is_loading)
    return again


def test_commit_of_as_many_partitions_as_the_log_takes(bench):
    answers: list[Any] = []
    request = OffsetCommitRequest(group_id="g", topics=commits(OffsetCommitRequest.Topic, 15_000))
    assert codes(ask(bench.groups.commit_offsets(request, 9, answers.append), answers)) == {0}
    assert len(bench.fetch()) == 15_000
    assert len(restarted(bench).fetch()) == 15_000


def test_commit_that_the_log_would_refuse_is_not_made_to_the_end(bench):
    """The group's id is part of each record: 30,000 partitions of a group with a long name would be a gigabyte."""
    answers: list[Any] = []
    request = OffsetCommitRequest(group_id="g" * 32_000, topics=commits(OffsetCommitRequest.Topic, MANY))
    work = bench.groups.commit_offsets(request, 9, answers.append)
    assert codes(ask(work, answers)) == {28}
    assert bench.log.partitions == {}


def test_group_that_changes_while_a_commit_is_made_decides(bench):
    (member,) = bench.stable_group()
    answers: list[Any] = []
    topic = OffsetCommitRequest.Topic
    topics = [
        topic(
            name="wide",
            partitions=[
                topic.Partition(partition_index=0, committed_offset=1),
                topic.Partition(partition_index=1, committed_offset=1, committed_metadata="x" * 5_000),
                topic.Partition(partition_index=MANY, committed_offset=1),
            ],
        )
    ]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id=member, topics=topics)
    work = bench.groups.commit_offsets(request, 9, answers.append)
    next(work)
    bench.leave(member)
    finish(work)
    assert [partition.error_code for partition in answers[0].topics[0].partitions] == [25, 25, 3]


def test_transactional_commit_of_many_partitions(bench):
    answers: list[Any] = []
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=5,
        producer_epoch=0,
        topics=commits(TxnOffsetCommitRequest.Topic, 15_000),
    )
    prepared = ask(bench.groups.prepare_commits(request), answers)
    bench.groups.commit_offsets_in_transaction(request, 4, prepared, answers.append)
    assert codes(answers[0]) == {0}
    bench.end_transaction(True)
    assert len(bench.fetch()) == 15_000


@pytest.mark.parametrize("producer", [(-1, 0, 49), (5, -1, 47)])
def test_transactional_commit_of_no_producer(bench, producer):
    producer_id, epoch, code = producer
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=commits(TxnOffsetCommitRequest.Topic, 1),
    )
    assert codes(bench.call(request, 4).response) == {code}


def fetch_request(groups: int, partitions: int | None) -> OffsetFetchRequest:
    asked = OffsetFetchRequest.Group
    topics = None if partitions is None else [asked.Topic(name="wide", partition_indexes=list(range(partitions)))]
    return OffsetFetchRequest(groups=[asked(group_id=f"g{number}", topics=topics) for number in range(groups)])


@pytest.mark.parametrize("request_of", [(15_000, 1), (1, MANY), (1, None)])
def test_offsets_of_many_groups_or_partitions(bench, request_of):
    fill(bench, "g0", MANY)
    groups, partitions = request_of
    fetched = ask(bench.groups.fetch_offsets(fetch_request(groups, partitions), 9), []).groups
    assert (len(fetched), len(fetched[0].topics[0].partitions)) == (groups, partitions or MANY)
    assert fetched[0].topics[0].partitions[-1].committed_offset == (partitions or MANY) - 1


def test_offsets_of_many_partitions_in_an_old_version(bench):
    fill(bench, "g", MANY)
    fetched = ask(bench.groups.fetch_offsets(OffsetFetchRequest(group_id="g", topics=None), 7), [])
    assert len(fetched.topics[0].partitions) == MANY


def test_offsets_that_move_away_while_they_are_read_are_not_answered_as_never_committed(bench):
    fill(bench, "g0", 100)
    work = bench.groups.fetch_offsets(fetch_request(1, 100), 9)
    for _ in range(50):
        next(work)
    bench.groups.unload(bench.groups.partition_for("g0"))
    (fetched,) = finish(work).groups
    assert (fetched.error_code, fetched.topics) == (14, [])


def test_many_groups_are_listed_and_described(bench):
    for number in range(5_000):
        bench.commit({("wide", 0): number}, group=f"group-{number}")
    assert len(ask(bench.groups.list_groups(ListGroupsRequest()), []).groups) == 5_000
    names = [f"group-{number}" for number in range(10_000)]
    described = ask(bench.groups.describe_groups(DescribeGroupsRequest(groups=names), 5), []).groups
    assert [group.group_state for group in (described[0], described[-1])] == ["Empty", "Dead"]


def test_group_that_goes_while_groups_are_listed_is_left_out(bench):
    for number in range(50):
        bench.commit({("wide", 0): number}, group=f"group-{number}")
    work = bench.groups.list_groups(ListGroupsRequest())
    next(work)
    assert bench.call(DeleteGroupsRequest(groups_names=["group-40"])).response.results[0].error_code == 0
    assert len(finish(work).groups) == 49


def test_group_of_many_members_is_described_as_it_was_when_it_was_asked_for(bench):
    members = bench.stable_group(50)
    work = bench.groups.describe_groups(DescribeGroupsRequest(groups=["g"]), 5)
    next(work)
    bench.leave(*members[25:])
    (described,) = finish(work).groups
    assert (described.group_state, [member.member_id for member in described.members]) == ("Stable", members)
    assert [member.member_assignment for member in described.members] == [name.encode() for name in members]


def test_join_with_more_protocols_than_any_client_has_is_refused(bench):
    protocols = [(f"p{number}", b"") for number in range(1_001)]
    assert bench.join(protocols=protocols).error == 23
    assert bench.join(protocols=protocols[:1_000]).error == 79


def test_many_members_leave(bench):
    members = bench.stable_group(300)
    gone = [LeaveGroupRequest.Member(member_id=name) for name in members]
    unknown = [LeaveGroupRequest.Member(member_id=f"nobody-{number}") for number in range(20_000)]
    left = ask(bench.groups.leave(LeaveGroupRequest(group_id="g", members=[*unknown, *gone]), 5), []).members
    assert [member.error_code for member in left] == [25] * 20_000 + [0] * 300
    assert bench.groups.groups["g"].is_empty


def delete_groups(bench: GroupBench, answers: list[Any], names: list[str]) -> Work[None]:
    return bench.groups.delete_groups(DeleteGroupsRequest(groups_names=names), answers.append)


def test_group_of_many_offsets_is_deleted(bench):
    fill(bench, "g", MANY)
    answers: list[Any] = []
    (result,) = ask(delete_groups(bench, answers, ["g"]), answers).results
    assert result.error_code == 0
    assert "g" not in bench.groups.groups
    assert bench.fetch() == {}
    assert "g" not in restarted(bench).groups.groups


def test_many_groups_are_deleted(bench):
    for number in range(1_000):
        bench.commit({("wide", 0): number}, group=f"group-{number}")
    answers: list[Any] = []
    names = [f"group-{number}" for number in range(20_000)]
    results = ask(delete_groups(bench, answers, names), answers).results
    assert [result.error_code for result in results] == [0] * 1_000 + [69] * 19_000


def test_offsets_committed_while_their_group_is_deleted_go_with_it(bench):
    fill(bench, "g", 1_000)
    answers: list[Any] = []
    work = delete_groups(bench, answers, ["g"])
    next(work)
    bench.commit({("wide", 5_000): 1})
    finish(work)
    assert answers[0].results[0].error_code == 0
    assert restarted(bench).fetch() == {}


def test_group_that_gets_a_member_while_it_is_deleted_stays(bench):
    fill(bench, "g", 1_000)
    answers: list[Any] = []
    work = delete_groups(bench, answers, ["g"])
    next(work)
    bench.enter()
    finish(work)
    assert answers[0].results[0].error_code == 68
    assert "g" in bench.groups.groups


def test_deletion_is_answered_when_the_log_has_all_of_it(bench):
    fill(bench, "g", 1_000)
    bench.log.is_holding = True
    answers: list[Any] = []
    finish(delete_groups(bench, answers, ["g"]))
    assert answers == []
    bench.log.release()
    assert answers[0].results[0].error_code == 0
    assert "g" not in bench.groups.groups


def test_group_that_only_a_member_id_was_given_out_of_is_deleted(bench):
    """It is empty, though it would not expire: whoever has the id may still come."""
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, protocol_type="consumer", protocols=[protocol]
    )
    assert bench.call(join, 5).response.error_code == 79
    answers: list[Any] = []
    work = bench.groups.delete_groups(DeleteGroupsRequest(groups_names=["g"]), answers.append)
    assert len(list(itertools.islice(work, 100))) < 100
    assert answers[0].results[0].error_code == 0
    assert "g" not in bench.groups.groups


def test_many_offsets_are_deleted(bench):
    fill(bench, "g", MANY)
    topic = OffsetDeleteRequest.Topic
    topics = [topic(name="wide", partitions=[topic.Partition(partition_index=n) for n in range(MANY + 10)])]
    answers: list[Any] = []
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    (deleted,) = ask(bench.groups.delete_offsets(request, answers.append), answers).topics
    assert [part.error_code for part in deleted.partitions] == [0] * MANY + [3] * 10
    assert bench.fetch() == {}
    assert "g" in bench.groups.groups


def test_many_offsets_expire(bench):
    fill(bench, "g", MANY, START_MS - 8 * DAY_MS)
    known: list[bool] = []
    bench.timers.later(600, lambda: known.append("g" in bench.groups.groups))  # offsets.retention.check.interval.ms
    bench.advance(600_000)
    assert known == [True]  # others are served between the pieces
    assert "g" not in bench.groups.groups


def test_offsets_of_a_topic_that_was_made_again_stay(bench):
    fill(bench, "g", MANY)
    bench.groups.topics_deleted(["wide"])
    bench.commit({("wide", MANY - 1): 7})
    let_all_run(bench, lambda: len(bench.groups.offsets.of("g")) == 1)
    bench.advance(10)
    assert bench.fetch() == {("wide", MANY - 1): 7}

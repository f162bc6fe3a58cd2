"""A coordinator over a log that is there already: its own, or Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import milepost
from milepost.coordinator.classic.classic_records import group_record
from milepost.coordinator.group.group_loading import group_from
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DescribeGroupsRequest, ListGroupsRequest
from milepost.record.batches import AnyBatch
from milepost.record.internal_topics import consumer_offsets
from milepost.record.internal_topics.classic_records import GroupMetadataValue
from milepost.record.internal_topics.consumer_group_records import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from milepost.record.records import Record
from tests.coordinator.group_fixture import GroupBench
from tests.coordinator.group_surroundings import MemoryLog


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


# Restarts.


def test_members_go_on_after_a_restart_as_if_nothing_had_happened(bench):
    leader, follower = bench.stable_group(2)
    bench.commit({("visits", 0): 7}, member_id=leader, generation=1)
    again = bench.restarted()
    assert again.heartbeat(leader, 1) == again.heartbeat(follower, 1) == 0
    assert again.sync(follower, 1).response.assignment == follower.encode()
    assert again.commit({("visits", 0): 8}, member_id=leader, generation=1).response.topics[0].partitions[0].error_code == 0
    assert again.fetch() == {("visits", 0): 8}


def test_while_what_is_in_the_log_may_be_lost_again_requests_are_told_to_wait(bench):
    (leader,) = bench.stable_group(1)
    partition = bench.groups.partition_for("g")
    bench.groups.unload(partition)
    bench.groups.expect(partition)
    assert bench.commit({("visits", 0): 7}, member_id=leader, generation=1).response.topics[0].partitions[0].error_code == 14
    bench.groups.load(partition)
    assert bench.commit({("visits", 0): 7}, member_id=leader, generation=1).response.topics[0].partitions[0].error_code == 0
    bench.groups.unload(partition)
    assert bench.commit({("visits", 0): 7}, member_id=leader, generation=1).response.topics[0].partitions[0].error_code == 16


def test_who_does_not_show_itself_after_a_restart_loses_its_session(bench):
    leader, follower = bench.stable_group(2, session_ms=10_000)
    again = bench.restarted()
    again.advance(9_000)
    assert again.heartbeat(leader, 1) == 0
    again.advance(1_000)
    assert again.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert again.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert again.join(leader).response.generation_id == 2


def test_a_rebalance_that_the_restart_interrupted_begins_anew(bench):
    (leader,) = bench.stable_group()
    bench.enter()
    again = bench.restarted()
    assert again.heartbeat(leader, 1) == 0  # the newcomer was never written
    newcomer = again.enter()
    assert again.join(leader).response.generation_id == newcomer.response.generation_id == 2


def test_the_time_since_a_group_is_empty_goes_on_over_a_restart(bench):
    (member,) = bench.stable_group()
    bench.commit({("visits", 0): 7}, member_id=member, generation=1)
    bench.leave(member)
    bench.advance(6 * 86_400_000)
    again = bench.restarted()
    again.advance(86_400_000 - 1_000)
    assert again.fetch() == {("visits", 0): 7}
    again.advance(600_000)
    assert again.fetch() == {}


def test_a_group_that_is_larger_than_allowed_now_rebalances(bench):
    members = bench.stable_group(3)
    again = bench.restarted(max_size=2)
    assert again.heartbeat(members[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joins = [again.join(member) for member in members]
    assert joins[2].error == ErrorCode.GROUP_MAX_SIZE_REACHED
    again.advance(60_000)
    assert len(joins[0].response.members) == 2


def test_a_group_that_was_deleted_and_began_again_is_the_new_one(bench):
    (member,) = bench.stable_group()
    bench.leave(member)
    bench.advance(600_000)
    (second,) = bench.stable_group()
    again = bench.restarted()
    assert again.heartbeat(second, 1) == 0


# While it is loading.


@pytest.fixture
def half_loaded(bench: GroupBench) -> GroupBench:
    """A coordinator whose groups are all in one partition, which takes several pieces to load."""
    log = MemoryLog(partition_count=1)
    writer = GroupBench(log).load()
    (member,) = writer.stable_group()
    assert member == "app-id1"
    for offset in range(1_200):
        writer.commit({("visits", 0): offset}, group="other")
    return GroupBench(log)


def test_while_a_partition_is_loading_requests_are_told_to_wait(half_loaded):
    half_loaded.groups.load(0)
    assert half_loaded.join().error == 14
    assert half_loaded.commit({("visits", 0): 1}).response.topics[0].partitions[0].error_code == 14
    assert half_loaded.leave("app-id1").error == 14
    assert half_loaded.call(DescribeGroupsRequest(groups=["g"])).response.groups[0].error_code == 14
    assert half_loaded.call(ListGroupsRequest()).response.error_code == 14
    # Members stay where they are.
    assert half_loaded.heartbeat("app-id1", 1) == 0
    assert half_loaded.sync("app-id1", 1).error == 27
    half_loaded.advance(1)
    assert half_loaded.heartbeat("app-id1", 2) == 22
    assert half_loaded.fetch(group="other") == {("visits", 0): 1_199}


def test_a_marker_that_is_written_while_loading_counts(half_loaded):
    bench = GroupBench(half_loaded.log).load()
    bench.advance(1)
    bench.commit_in_transaction({("visits", 1): 5}, group="other")
    for offset in range(600):
        bench.commit({("visits", 0): offset}, group="other")
    half_loaded.groups.load(0)
    half_loaded.groups.complete_transaction(5, 0, True)
    half_loaded.advance(1)
    assert half_loaded.fetch(group="other", stable=True) == {("visits", 0): 599, ("visits", 1): 5}


def test_a_partition_that_goes_while_it_is_loading_leaves_nothing(half_loaded):
    half_loaded.groups.load(0)
    half_loaded.groups.unload(0)
    half_loaded.advance(1)
    assert half_loaded.groups.groups == {}
    assert half_loaded.join().error == ErrorCode.NOT_COORDINATOR
    half_loaded.groups.load(0)
    half_loaded.advance(1)
    assert half_loaded.fetch(group="other") == {("visits", 0): 1_199}


# Records of others.


class ConsumerGroups:
    """What is handed to the consumer protocol."""

    def __init__(self) -> None:
        self.replayed: list[object] = []

    def replay(self, partition: int, key: object, value: object) -> None:
        self.replayed.append((partition, key, value))

    def loaded(self, partition: int) -> None:
        self.replayed.append(partition)


def test_records_of_the_consumer_protocol_are_handed_on(bench):
    key, value = ConsumerGroupMetadataKey("new"), ConsumerGroupMetadataValue(epoch=3)
    bench.log.append(2, [Record(key=consumer_offsets.encode(key), value=consumer_offsets.encode(value))], lambda error: None)
    other = GroupBench(bench.log)
    service = other.groups.consumer_groups = ConsumerGroups()
    other.groups.load(2)
    assert service.replayed == [(2, key, value), 2]


def test_a_record_that_cannot_be_read_is_skipped_and_named(bench, caplog):
    bench.commit({("visits", 0): 7})
    partition = bench.groups.partition_for("g")
    bench.log.append(partition, [Record(key=b"\0\1\0\x09half", value=b"")], lambda error: None)
    bench.commit({("visits", 1): 8})
    assert bench.restarted().fetch() == {("visits", 0): 7, ("visits", 1): 8}
    assert f"__consumer_offsets-{partition}, offset 1 is skipped" in caplog.text


class KafkaLog:
    """`__consumer_offsets` of a log directory that Kafka left behind."""

    partition_count = 2

    def __init__(self, directory) -> None:
        self.logs = [milepost.open_log(str(directory / f"__consumer_offsets-{number}")) for number in range(2)]

    def batches(self, partition: int) -> Iterator[AnyBatch]:
        for segment in self.logs[partition].segments:
            for _, batch in segment.log.batches():
                yield batch

    def append(self, *_: object) -> None:
        raise AssertionError("nothing is written by loading")


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1", "4.3.0"])
def test_offsets_that_kafka_wrote_are_those_it_answered_itself(golden, version):
    case = f"groups/kafka-{version}"
    bench = GroupBench(KafkaLog(golden(case) / "logdir")).load()
    answered = golden.case_json(case)["facts"]["committedAtEnd"]["groups"]
    for group, offsets in answered.items():
        found = {
            place: (commit.value.offset, commit.value.leader_epoch) for place, commit in bench.groups.offsets.of(group).items()
        }
        expected = {(topic, partition): (offset, -1 if epoch is None else epoch) for topic, partition, offset, epoch in offsets}
        assert found == expected
    assert "g-gone" not in bench.groups.groups


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1", "4.3.0"])
def test_groups_that_kafka_wrote_are_empty_because_their_members_left(golden, version):
    bench = GroupBench(KafkaLog(golden(f"groups/kafka-{version}") / "logdir")).load()
    groups = bench.call(ListGroupsRequest()).response.groups
    states = {group.group_id: (group.protocol_type, group.group_state) for group in groups}
    assert states["g-classic"] == ("consumer", "Empty")


@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_groups_that_kafka_wrote_are_written_back_byte_for_byte(golden, version):
    log = KafkaLog(golden(f"groups/kafka-{version}") / "logdir")
    records = [
        record for partition in range(2) for batch in log.batches(partition) if not batch.is_control for record in batch.records()
    ]
    members = 0
    for record in records:
        key = consumer_offsets.decode_key(record.key)
        value = consumer_offsets.decode_value(key, record.value)
        if isinstance(value, GroupMetadataValue):
            group = group_from(key.group, value)
            assignments = {member.member_id: member.assignment for member in value.members}
            assert group_record(group, assignments, record.timestamp) == replace(record, offset=-1, sequence=-1)
            members += len(value.members)
    assert members >= 4

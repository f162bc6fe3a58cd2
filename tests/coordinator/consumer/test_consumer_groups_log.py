"""Groups of the consumer protocol in the log: Kafka's records, restarts, writes that fail or take their time."""

from __future__ import annotations

import pytest

from milepost.coordinator.hashing import partition_of
from milepost.protocol.messages import DeleteGroupsRequest, LeaveGroupRequest
from milepost.record.batch import RecordBatch
from milepost.record.builder import build_batch
from milepost.record.internal_topics import consumer_offsets
from milepost.record.internal_topics.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from milepost.record.records import Record
from tests.coordinator.consumer.consumer_fixture import ConsumerBench
from tests.coordinator.group_surroundings import MemoryLog

VISITS_ID = "dmlzaXRzAAAAAAAAAAAAAA"


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


# Records.


def test_a_join_is_written_as_kafka_writes_it(bench):
    bench.joined("a", subscribed_topic_regex="")
    (member, group, target, target_epoch, assignment) = bench.log.written()
    assert member == (
        '{"type":"5","data":{"groupId":"g","memberId":"a"}}',
        '{"version":"0","data":{"instanceId":null,"rackId":null,"clientId":"client-a","clientHost":"/127.0.0.1",'
        '"subscribedTopicNames":["visits"],"subscribedTopicRegex":"","rebalanceTimeoutMs":60000,"serverAssignor":null,'
        '"classicMemberMetadata":null}}',
    )
    assert group[0] == '{"type":"3","data":{"groupId":"g"}}'
    assert group[1].startswith('{"version":"0","data":{"epoch":2,"metadataHash":')
    assert target == (
        '{"type":"7","data":{"groupId":"g","memberId":"a"}}',
        f'{{"version":"0","data":{{"topicPartitions":[{{"topicId":"{VISITS_ID}","partitions":[0,1,2,3]}}]}}}}',
    )
    assert target_epoch == (
        '{"type":"6","data":{"groupId":"g"}}',
        '{"version":"0","data":{"assignmentEpoch":2,"assignmentTimestamp":1700000000000}}',
    )
    assert assignment == (
        '{"type":"8","data":{"groupId":"g","memberId":"a"}}',
        '{"version":"0","data":{"memberEpoch":2,"previousMemberEpoch":0,"state":0,"assignedPartitions":'
        f'[{{"topicId":"{VISITS_ID}","partitions":[0,1,2,3]}}],"partitionsPendingRevocation":[]}}}}',
    )


def test_a_member_that_leaves_is_taken_out_as_kafka_does_it(bench):
    bench.joined("a")
    before = len(bench.log.written())
    bench.heard("a", -1)
    assert bench.written_since(before) == [
        ('{"type":"8","data":{"groupId":"g","memberId":"a"}}', "<DELETE>"),
        ('{"type":"7","data":{"groupId":"g","memberId":"a"}}', "<DELETE>"),
        ('{"type":"5","data":{"groupId":"g","memberId":"a"}}', "<DELETE>"),
        ('{"type":"3","data":{"groupId":"g"}}', '{"version":"0","data":{"epoch":3}}'),
    ]


def test_a_static_member_that_is_away_has_the_epoch_minus_two(bench):
    bench.joined("a", instance_id="i")
    bench.heard("a", -2, instance_id="i")
    key, value = bench.log.written()[-1]
    assert key == '{"type":"8","data":{"groupId":"g","memberId":"a"}}'
    assert value.startswith('{"version":"0","data":{"memberEpoch":-2,"previousMemberEpoch":0,"state":0,')


def test_a_deleted_group_leaves_only_tombstones(bench):
    bench.joined("a", subscribed_topic_names=None, subscribed_topic_regex="v.*")
    assert bench.call(DeleteGroupsRequest(groups_names=["g"])).response.results[0].error_code == 68
    bench.heard("a", -1)
    assert bench.call(DeleteGroupsRequest(groups_names=["g"])).response.results[0].error_code == 0
    assert set(dict(bench.log.written()).values()) == {"<DELETE>"}
    assert bench.groups.groups == {}
    assert bench.restarted().groups.groups == {}


def test_the_topics_that_older_kafkas_wrote_in_full_are_removed_with_the_next_epoch():
    log = MemoryLog()
    put(log, ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(epoch=7))
    put(log, ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue(topics=()))
    bench = ConsumerBench(log)
    assert bench.joined("a") == (8, {"visits": [0, 1, 2, 3]})
    assert dict(log.written())['{"type":"4","data":{"groupId":"g"}}'] == "<DELETE>"


# Restarts.


def test_after_a_restart_members_go_on_as_if_nothing_had_happened(bench):
    bench.joined("a")
    bench.joined("b")
    bench.heard("a", 2)
    again = bench.restarted()
    assert again.group().state_name == "Reconciling"
    assert again.heard("b", 3) == (3, None)
    assert again.heard("a", 2, {"visits": [0, 1]}) == (3, None)
    assert again.heard("b", 3) == (3, {"visits": [2, 3]})
    assert again.group().state_name == "Stable"


def test_after_a_restart_sessions_and_rebalance_timeouts_run_anew(bench):
    bench.joined("a", rebalance_timeout_ms=20_000)
    bench.joined("b")
    bench.heard("a", 2)
    again = bench.restarted()
    again.advance(19_999)
    assert [*again.group().members] == ["a", "b"]
    again.advance(1)
    assert [*again.group().members] == ["b"]
    again.advance(25_000)
    assert again.group().state_name == "Empty"


def test_topics_that_changed_while_the_broker_was_down_are_noticed(bench):
    bench.joined("a")
    bench.topics.partitions["visits"] = 5
    assert bench.restarted().heard("a", 2) == (3, {"visits": [0, 1, 2, 3, 4]})


def test_static_members_and_patterns_survive_a_restart(bench):
    bench.joined("a", instance_id="i", subscribed_topic_names=None, subscribed_topic_regex="v.*")
    bench.heard("a", -2, instance_id="i")
    again = bench.restarted()
    assert again.group().regexes == {"v.*": frozenset({"visits"})}
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "v.*"}
    assert again.joined("b", instance_id="i", **fields) == (2, {"visits": [0, 1, 2, 3]})


def test_a_log_of_which_compaction_left_only_the_last_of_each_key_gives_the_same_group(bench):
    bench.joined("a")
    bench.joined("b")
    bench.heard("a", 2)
    bench.heard("a", 2, {"visits": [0, 1]})
    bench.heard("b", 3)
    bench.heard("a", 3, subscribed_topic_names=["visits", "nowhere"])
    compacted = ConsumerBench(compact(bench.log), topics=bench.topics)
    assert compacted.group().snapshot().members == bench.group().snapshot().members
    assert compacted.group().targets == bench.group().targets
    assert (compacted.group().epoch, compacted.group().target_epoch) == (4, 4)


def test_a_partition_that_moves_away_takes_its_groups_and_timers_with_it(bench):
    before = bench.timers.waiting
    bench.joined("a")
    bench.groups.unload(bench.groups.partition_for("g"))
    assert bench.groups.groups == {}
    assert bench.timers.waiting == before
    assert bench.beat("a", 2).error == 16


# Writes.


def test_what_cannot_be_written_has_not_happened(bench):
    bench.joined("a")
    bench.log.error = 19
    assert bench.enter("b").error == 15
    assert [*bench.group().members] == ["a"]
    assert bench.group().epoch == 2
    bench.log.error = 0
    assert bench.heard("a", 2) == (2, None)
    assert bench.joined("b") == (3, {})


def test_a_group_whose_first_member_cannot_be_written_is_not_there(bench):
    bench.log.error = 19
    assert bench.enter("a").error == 15
    assert bench.groups.groups == {}


def test_answers_wait_for_the_log_and_for_what_they_tell_of(bench):
    bench.joined("a")
    bench.log.is_holding = True
    join = bench.enter("b")
    told = bench.beat("a", 2)
    bench.log.release()
    assert bench.answer_to(join) == (3, {})
    assert bench.answer_to(told) == (2, {"visits": [0, 1]})
    plain = bench.beat("b", 3, {})
    assert bench.answer_to(plain) == (3, None)


def test_writes_that_fail_one_after_the_other_are_all_taken_back(bench):
    bench.joined("a")
    bench.log.is_holding = True
    calls = [bench.enter("b"), bench.enter("c"), bench.beat("a", 2), bench.beat("b", 3)]
    assert all(call.is_waiting for call in calls)
    bench.log.error = 19
    bench.log.release()
    assert [call.error for call in calls] == [15, 15, 15, 15]
    assert [*bench.group().members] == ["a"]
    assert bench.group().members["a"].assigned == bench.group().target_of("a")


# From one protocol to the other.


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(bench):
    bench.commit({("visits", 0): 7})
    assert bench.joined("a") == (2, {"visits": [0, 1, 2, 3]})
    assert bench.fetch() == {("visits", 0): 7}
    again = bench.restarted()
    assert (again.group().state_name, again.fetch()) == ("Stable", {("visits", 0): 7})


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(bench):
    bench.joined("a")
    bench.commit({("visits", 0): 7}, member_id="a", generation=2)
    bench.heard("a", -1)
    refused = bench.join()
    assert refused.error == 79
    join = bench.join(refused.response.member_id)
    bench.advance(0)
    assert (join.error, join.response.generation_id) == (0, 1)
    assert bench.groups.groups["g"].kind == "classic"
    assert bench.fetch() == {("visits", 0): 7}
    bench.sync(refused.response.member_id, 1, {})
    assert bench.restarted().groups.groups["g"].kind == "classic"


def test_an_admin_removes_members_with_the_request_of_the_classic_protocol(bench):
    bench.joined("a", instance_id="i")
    bench.joined("b")
    leavers = [
        LeaveGroupRequest.Member(member_id="", group_instance_id="i"),
        LeaveGroupRequest.Member(member_id="b"),
        LeaveGroupRequest.Member(member_id="c"),
        LeaveGroupRequest.Member(member_id="", group_instance_id="j"),
    ]
    left = bench.call(LeaveGroupRequest(group_id="g", members=leavers))
    assert [member.error_code for member in left.response.members] == [0, 0, 25, 25]
    assert bench.group().state_name == "Empty"


# Kafka's own.


def test_consumer_groups_that_kafka_left_are_empty_and_go_on_from_their_epoch(golden):
    bench = ConsumerBench(GoldenLog(golden("groups/kafka-4.3.0") / "logdir"))
    assert (bench.group("g-consumer").state_name, bench.group("g-consumer").epoch) == ("Empty", 3)
    assert bench.joined("a", group="g-consumer") == (4, {"visits": [0, 1, 2, 3]})


class GoldenLog(MemoryLog):
    def __init__(self, directory) -> None:
        super().__init__(partition_count=2)
        for partition in range(2):
            for path in sorted((directory / f"__consumer_offsets-{partition}").glob("*.log")):
                data, position = path.read_bytes(), 0
                while position < len(data):
                    batch = RecordBatch(data, position)
                    self.partitions.setdefault(partition, []).append(bytes(batch.view()))
                    position += batch.size


def put(log: MemoryLog, key: object, value: object) -> None:
    record = Record(0, 0, consumer_offsets.encode(key), consumer_offsets.encode(value))  # type: ignore[arg-type]
    log.append(partition_of("g", log.partition_count), [record], lambda error: None)


def compact(log: MemoryLog) -> MemoryLog:
    compacted = MemoryLog(log.partition_count)
    for partition in log.partitions:
        last: dict[bytes | None, Record] = {}
        for batch in log.batches(partition):
            for record in batch.records():
                last.pop(record.key, None)
                last[record.key] = record
        records = [record for record in last.values() if record.value is not None]
        compacted.partitions[partition] = [build_batch(records)]
    return compacted

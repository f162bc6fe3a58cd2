"""`flush.messages`: an answer waits for the fsync it needs, and nobody else does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, MetadataRequest, OffsetCommitRequest, ProduceRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.broker.held_disk import HeldDisk
from tests.broker.topics import create, offset, produce, wanted
from tests.broker.wire import Wire
from tests.waiting import PATIENCE, until

ACTIVE = "00000000000000000000.log"


@pytest.fixture
def disk(brokers) -> Iterator[HeldDisk]:
    """Let go before its broker stops, whatever the test found."""
    disk = HeldDisk()
    yield disk
    disk.release()


@pytest.fixture
def broker(brokers, disk):
    return brokers.start({"offsets.topic.num.partitions": "1"}, disk)


def produce_request(topic: str, *values: bytes, partition: int = 0, acks: int = -1) -> ProduceRequest:
    batch = build_batch([Record(number, 1000, b"key", value) for number, value in enumerate(values)], base_offset=0)
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=partition, records=memoryview(batch))
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[data(name=topic, partition_data=[part])])


def base_offset(wire: Wire) -> int:
    """Of the next answer to a produce request."""
    part = frames.decode_response(0, 9, wire.read_frame())[1].responses[0].partition_responses[0]
    assert part.error_code == 0
    return part.base_offset


def fetched(wire: Wire, topic: str) -> int:
    """Bytes that can be read from the start."""
    asked = FetchRequest.Topic
    part = asked.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    answer = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[asked(topic=topic, partitions=[part])]), 11)
    return len(answer.responses[0].partitions[0].records or b"")


def test_answer_waits_for_the_fsync_and_other_clients_do_not(broker, disk):
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        create(wire, wanted("safe", flush_messages="1"), wanted("quick"))
        disk.hold(ACTIVE)
        wire.send(produce_request("safe", b"a"), 9)
        assert disk.is_waited_for.wait(PATIENCE)
        assert [produce(other, "quick", [b"x"]) for _ in range(3)] == [0, 1, 2]
        assert (fetched(other, "safe"), offset(other, "safe", -1)) == (0, 0), "nobody may read what may be lost"
        disk.release()
        assert base_offset(wire) == 0
        assert fetched(other, "safe") > 0
        assert offset(other, "safe", -1) == 1


def test_answers_of_a_connection_keep_their_order(broker, disk):
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("safe", flush_messages="1"))
        disk.hold(ACTIVE)
        for number in range(3):
            wire.send(produce_request("safe", b"%d" % number), 9)
        wire.send(MetadataRequest(topics=[]), 12)
        assert disk.is_waited_for.wait(PATIENCE)
        disk.release()
        assert [base_offset(wire) for _ in range(3)] == [0, 1, 2]
        assert frames.decode_response(3, 12, wire.read_frame())[1].topics == []


def test_appends_that_come_during_an_fsync_share_the_next_one(broker, disk):
    with Wire(broker.bootstrap_servers) as first:
        create(first, wanted("safe", flush_messages="1"))
        disk.hold(ACTIVE)
        first.send(produce_request("safe", b"first"), 9)
        assert disk.is_waited_for.wait(PATIENCE)
        with ExitStack() as stack:
            others = [stack.enter_context(Wire(broker.bootstrap_servers)) for _ in range(5)]
            for wire in others:
                wire.send(produce_request("safe", b"other"), 9)
            log = broker.logs.logs[TopicPartition("safe", 0)]
            until(lambda: log.end_offset == 6)
            disk.release()
            assert sorted(base_offset(wire) for wire in (first, *others)) == [0, 1, 2, 3, 4, 5]
            assert (log.recovery_point, disk.syncs[log.segments.active.log.path]) == (6, 2)


def test_topic_that_flushes_every_third_record_answers_the_others_at_once(broker, disk):
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("third", flush_messages="3"))
        disk.hold(ACTIVE)
        assert [produce(wire, "third", [b"x"]), produce(wire, "third", [b"y"])] == [0, 1]
        assert not disk.is_waited_for.is_set()
        wire.send(produce_request("third", b"z"), 9)
        assert disk.is_waited_for.wait(PATIENCE)
        with Wire(broker.bootstrap_servers) as other:
            assert offset(other, "third", -1) == 2
        disk.release()
        assert base_offset(wire) == 2


def test_without_acks_nothing_waits(broker, disk):
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("safe", flush_messages="1"))
        disk.hold(ACTIVE)
        wire.send(produce_request("safe", b"a", acks=0), 9)
        assert disk.is_waited_for.wait(PATIENCE)
        assert offset(wire, "safe", -2) == 0
        disk.release()


def test_offsets_are_durable_before_a_commit_is_answered(brokers, disk):
    broker = brokers.start({"offsets.topic.num.partitions": "1", "log.flush.interval.messages": "1"}, disk)
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        create(wire, wanted("t"))
        disk.hold(ACTIVE)
        asked = OffsetCommitRequest.Topic
        topics = [asked(name="t", partitions=[asked.Partition(partition_index=0, committed_offset=5)])]
        wire.send(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics), 7)
        assert disk.is_waited_for.wait(PATIENCE)
        assert offset(other, "t", -2) == 0
        disk.release()
        _, answer = frames.decode_response(8, 7, wire.read_frame())
        assert answer.topics[0].partitions[0].error_code == 0


def test_failed_fsync_is_answered_with_56_and_takes_the_directory_offline(broker, disk, caplog):
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("safe", flush_messages="1"))
        disk.broken = ACTIVE
        answer = wire.ask(produce_request("safe", b"a"), 9).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (56, -1)
        disk.broken = ""
        answer = wire.ask(produce_request("safe", b"b"), 9).responses[0].partition_responses[0]
        assert answer.error_code == 56
        assert broker.logs.logs[TopicPartition("safe", 0)].is_failed
    assert "Input/output error" in caplog.text

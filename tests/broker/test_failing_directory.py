"""A broker of two data directories, one of which fails while it serves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from milepost.broker import maintenance
from milepost.broker.broker import Broker
from milepost.protocol.messages import DeleteTopicsRequest, DescribeLogDirsRequest, ProduceRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, metadata, offset, produce, wanted
from tests.broker.wire import Wire
from tests.failing_directory import FailingDirectoryDisk
from tests.waiting import until

OFTEN = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "10",
    "log.flush.offset.checkpoint.interval.ms": "10",
    "log.flush.start.offset.checkpoint.interval.ms": "10",
    "replica.high.watermark.checkpoint.interval.ms": "10",
    "log.cleaner.backoff.ms": "0",
}
KAFKA_STORAGE_ERROR = 56
UNKNOWN_TOPIC_OR_PARTITION = 3


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch):
    monkeypatch.setattr(maintenance, "TICK_SECONDS", 0.01)


class Served:
    def __init__(self, brokers, tmp_path: Path, **settings: str):
        self.disk = FailingDirectoryDisk()
        self.paths = [str(tmp_path / "a"), str(tmp_path / "b")]
        dirs = {"log.dirs": ",".join(self.paths)}
        self.broker: Broker = brokers.start(
            {**dirs, **{key.replace("_", "."): value for key, value in settings.items()}}, self.disk
        )

    def home(self, topic: str, partition: int) -> str:
        log = self.broker.logs.logs[TopicPartition(topic, partition)]
        return log.directory.rpartition("/")[0]

    def partition_in(self, path: str, topic: str) -> int:
        return next(number for number in range(2) if self.home(topic, number) == path)


def try_produce(wire: Wire, topic: str, partition: int, value: bytes, age_ms: int = 0) -> int:
    """The error code of one batch."""
    batch = build_batch([Record(0, int(time.time() * 1000) - age_ms, b"key", value)], base_offset=0)
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=partition, records=memoryview(batch))
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data(name=topic, partition_data=[part])])
    return wire.ask(request, 9).responses[0].partition_responses[0].error_code


def log_dirs(wire: Wire) -> dict[str, int]:
    return {each.log_dir: each.error_code for each in wire.ask(DescribeLogDirsRequest(topics=None), 4).results}


def delete(wire: Wire, topic: str) -> DeleteTopicsRequest:
    return wire.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000), 5).responses[0]


@pytest.mark.parametrize("kinds", [("stat",), ("read",), ("open",), ("write", "truncate"), ("sync",), ("rename",), ()])
def test_broker_goes_on_with_the_other_directory(brokers, tmp_path, kinds):
    served = Served(brokers, tmp_path, **OFTEN)
    with Wire(served.broker.bootstrap_servers) as wire:
        create(
            wire,
            wanted("old", 2, segment_bytes="300", retention_ms="3600000", file_delete_delay_ms="0"),
            wanted("kv", 2, segment_bytes="300", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01"),
            wanted("synced", 2, flush_messages="1"),
        )
        doomed, healthy = served.paths
        on_loop(served.broker, lambda: setattr(served.broker.logs.pool, "limit", 1))
        served.disk.fail(doomed, *kinds)
        for _ in range(6):
            for topic in ("old", "kv", "synced"):
                for partition in range(2):
                    code = try_produce(wire, topic, partition, b"v" * 150, age_ms=7_200_000)
                    assert code in ((0,) if served.home(topic, partition) == healthy else (0, KAFKA_STORAGE_ERROR))
        until(lambda: log_dirs(wire) == {doomed: KAFKA_STORAGE_ERROR, healthy: 0})
        # Retention goes on where the disk is well.
        place = served.partition_in(healthy, "old")
        assert try_produce(wire, "old", place, b"v" * 150, age_ms=7_200_000) == 0
        until(lambda: offset(wire, "old", -2, place) >= 6)
        assert try_produce(wire, "synced", served.partition_in(healthy, "synced"), b"more") == 0
        assert try_produce(wire, "synced", served.partition_in(doomed, "synced"), b"more") == KAFKA_STORAGE_ERROR


def test_delete_whose_rename_fails_is_answered_with_56_and_the_topic_stays(brokers, tmp_path):
    served = Served(brokers, tmp_path)
    doomed, healthy = served.paths
    with Wire(served.broker.bootstrap_servers) as wire:
        create(wire, wanted("visits", 2), wanted("other", 2))
        for number in range(2):
            produce(wire, "visits", [b"one"], number)
        served.disk.fail(f"{doomed}/visits-", "rename")
        answer = delete(wire, "visits")
        assert answer.error_code == KAFKA_STORAGE_ERROR
        assert doomed in answer.error_message
        assert log_dirs(wire) == {doomed: KAFKA_STORAGE_ERROR, healthy: 0}
        # The topic is there as a whole: what is on the failed directory says so, the rest takes records.
        (topic,) = metadata(wire, "visits")
        assert (topic.error_code, len(topic.partitions)) == (0, 2)
        assert try_produce(wire, "visits", served.partition_in(doomed, "visits"), b"two") == KAFKA_STORAGE_ERROR
        assert try_produce(wire, "visits", served.partition_in(healthy, "visits"), b"two") == 0
        assert delete(wire, "visits").error_code == KAFKA_STORAGE_ERROR
        assert try_produce(wire, "other", served.partition_in(healthy, "other"), b"on") == 0
    brokers.stop(served.broker)
    assert f"visits-{0 if os.path.exists(f'{doomed}/visits-0') else 1}" in os.listdir(doomed)

    served = Served(brokers, tmp_path)
    with Wire(served.broker.bootstrap_servers) as wire:
        assert [len(topic.partitions) for topic in metadata(wire, "visits")] == [2]
        assert delete(wire, "visits").error_code == 0
        assert metadata(wire, "visits")[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    names = [name for path in served.paths for name in os.listdir(path)]
    assert not [name for name in names if name in ("visits-0", "visits-1")]


def test_delete_of_a_topic_on_a_failed_directory_changes_nothing(brokers, tmp_path):
    served = Served(brokers, tmp_path)
    doomed, healthy = served.paths
    with Wire(served.broker.bootstrap_servers) as wire:
        create(wire, wanted("visits", 2))
        place = served.partition_in(healthy, "visits")
        produce(wire, "visits", [b"one"], place)
        served.disk.fail(doomed, "write")
        assert try_produce(wire, "visits", 1 - place, b"two") == KAFKA_STORAGE_ERROR
        assert delete(wire, "visits").error_code == KAFKA_STORAGE_ERROR
        assert [len(topic.partitions) for topic in metadata(wire, "visits")] == [2]
        assert offset(wire, "visits", -1, place) == 1


def test_delete_that_fails_on_the_only_directory_keeps_the_topic(brokers, tmp_path):
    disk = FailingDirectoryDisk()
    broker = brokers.start(disk=disk)
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits", 3))
        produce(wire, "visits", [b"one"])
        disk.fail(tmp_path / "data" / "visits-1", "rename")
        assert delete(wire, "visits").error_code == KAFKA_STORAGE_ERROR
        assert [(topic.error_code, len(topic.partitions)) for topic in metadata(wire, "visits")] == [(0, 3)]
        assert [try_produce(wire, "visits", number, b"two") for number in range(3)] == [KAFKA_STORAGE_ERROR] * 3

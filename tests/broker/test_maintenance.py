"""What a broker does for its logs while it serves: cleaning, retention, checkpoints; and what readers and deleted topics see of it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from milepost.broker import maintenance
from milepost.broker.broker import Broker
from milepost.protocol.messages import (
    DeleteTopicsRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
)
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.broker.held_disk import HeldDisk
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, metadata, offset, wanted
from tests.broker.wire import Wire
from tests.quick_disk import QuickDisk
from tests.waiting import PATIENCE, until

COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "2000",
    "min_cleanable_dirty_ratio": "0.01",
    "file_delete_delay_ms": "0",
}
AT_ONCE = {"log.initial.task.delay.ms": "0", "log.cleaner.backoff.ms": "0"}


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch):
    monkeypatch.setattr(maintenance, "TICK_SECONDS", 0.01)


def put(wire: Wire, topic: str, pairs: dict[str, str], partition: int = 0, age_ms: int = 0) -> Any:
    """Append one batch; the answer."""
    timestamp = int(time.time() * 1000) - age_ms
    records = [Record(number, timestamp, key.encode(), value.encode()) for number, (key, value) in enumerate(pairs.items())]
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=partition, records=memoryview(build_batch(records, base_offset=0)))
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data(name=topic, partition_data=[part])])
    return wire.ask(request, 9).responses[0].partition_responses[0]


def read(wire: Wire, topic: str) -> list[tuple[int, str, str]]:
    """Every record: offset, key, value."""
    found: list[tuple[int, str, str]] = []
    at = max(0, offset(wire, topic, -2))
    end = offset(wire, topic, -1)
    while at < end:
        asked = FetchRequest.Topic
        part = asked.Partition(partition=0, fetch_offset=at, partition_max_bytes=700)
        answer = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[asked(topic=topic, partitions=[part])]), 11)
        fetched = answer.responses[0].partitions[0]
        assert fetched.error_code == 0
        batches = [batch for batch in iter_batches(bytes(fetched.records)) if batch.is_valid()]
        assert batches, f"nothing was read at offset {at} of {end}"
        found += [
            (record.offset, record.key.decode(), record.value.decode())
            for batch in batches
            for record in batch.records()
            if record.offset >= at
        ]
        at = batches[-1].next_offset
    return found


def log_of(broker: Broker, topic: str, partition: int = 0):
    return broker.logs.logs[TopicPartition(topic, partition)]


# Cleaning.


def test_compacted_topic_is_cleaned_while_it_is_served(brokers):
    broker = brokers.start(AT_ONCE, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("kv", **COMPACTED))
        for number in range(200):
            assert put(wire, "kv", {f"k{number % 5}": f"v{number}"}).error_code == 0
        until(lambda: len(read(wire, "kv")) < 60)
        found = read(wire, "kv")
        assert {key: value for _, key, value in found} == {f"k{number % 5}": f"v{number}" for number in range(195, 200)}
        assert [place for place, _, _ in found] == sorted(place for place, _, _ in found)


def test_readers_see_the_newest_of_every_key_at_any_moment_of_a_cleaning(brokers):
    broker = brokers.start(AT_ONCE, QuickDisk())
    with Wire(broker.bootstrap_servers) as writer, Wire(broker.bootstrap_servers) as reader:
        create(writer, wanted("kv", **COMPACTED))
        written: dict[str, int] = {}
        failures: list[str] = []
        is_over = threading.Event()

        def keep_reading() -> None:
            while not is_over.is_set():
                before = dict(written)
                seen = {key: int(value) for _, key, value in read(reader, "kv")}
                failures.extend(
                    f"{key}: read {seen.get(key)}, {before[key]} was there" for key in before if seen.get(key, -1) < before[key]
                )

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(keep_reading)
            try:
                for number in range(600):
                    key = f"k{number % 7}"
                    assert put(writer, "kv", {key: str(number)}).error_code == 0
                    written[key] = number
                until(lambda: log_of(broker, "kv").partition in broker.logs.cleaner.last_stats)
                until(lambda: len(log_of(broker, "kv").segments) < 20)
            finally:
                is_over.set()
            reading.result()
        assert failures == []


def test_offsets_are_loaded_whole_though_the_cleaner_replaces_segments_under_the_loader(brokers):
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "3000", "log.cleaner.enable": "false"}
    broker = brokers.start(settings, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
        for number in range(150):
            commit(wire, f"g{number % 3}", number)

    def load_between_cleanings() -> dict[str, int]:
        """The committed offset of each group, read a batch at a time, with a cleaning and removals in between."""
        found = {}
        broker.logs.cleaner.is_enabled = True
        log = log_of(broker, "__consumer_offsets")
        log.update_config(log.config.override({"min.cleanable.dirty.ratio": "0", "file.delete.delay.ms": "0"}))
        before = log.segments.size_in_bytes
        broker.logs.scheduler.stop()
        broker.logs.cleaner.cleaner.on_owner = lambda step: step()
        for number, batch in enumerate(broker.offsets_topic.batches(0)):
            if number in (3, 40):
                assert broker.logs.clean() is (log if number == 3 else None)
                broker.logs.scheduler.run_due()
            for record in batch.records():
                found[record.key] = record.offset
        assert log.segments.size_in_bytes < before / 2, "it was cleaned"
        return found

    found = on_loop(broker, load_between_cleanings)
    with Wire(broker.bootstrap_servers) as wire:
        assert [committed(wire, f"g{number}") for number in range(3)] == [147, 148, 149]
    assert sorted(found.values())[-3:] == [147, 148, 149]


def commit(wire: Wire, group: str, offset: int) -> None:
    asked = OffsetCommitRequest.Topic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[asked(name="t", partitions=[asked.Partition(partition_index=0, committed_offset=offset)])],
    )
    assert wire.ask(request, 7).topics[0].partitions[0].error_code == 0


def committed(wire: Wire, group: str) -> int:
    asked = OffsetFetchRequest.Topic
    answer = wire.ask(OffsetFetchRequest(group_id=group, topics=[asked(name="t", partition_indexes=[0])]), 5)
    return answer.topics[0].partitions[0].committed_offset


def test_topic_that_is_deleted_while_it_is_cleaned_leaves_nothing_to_its_successor(brokers):
    # So slow that only somebody who needs the log ends it.
    broker = brokers.start(AT_ONCE | {"log.cleaner.io.max.bytes.per.second": "10"}, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("kv", **COMPACTED))
        for number in range(150):
            put(wire, "kv", {f"k{number % 5}": f"old {number}"})
        until(lambda: broker.logs.cleaner._cleaning is not None)
        delete(wire, "kv")
        create(wire, wanted("kv", **COMPACTED))
        put(wire, "kv", {"k": "new"})
        until(lambda: broker.logs.cleaner._cleaning is None)
        assert read(wire, "kv") == [(0, "k", "new")]
        directory = Path(log_of(broker, "kv").directory)
        until(lambda: not list(directory.glob("*.cleaned")))
        assert sorted(path.name for path in directory.glob("*.log*")) == ["00000000000000000000.log"]


def test_segments_deleted_since_a_topic_is_compacted_no_more_do_not_come_back_with_a_cleaning_that_had_begun(brokers):
    # Slow enough for the policy to change while it copies.
    settings = AT_ONCE | {"log.cleaner.io.max.bytes.per.second": "50000", "log.retention.check.interval.ms": "10"}
    broker = brokers.start(settings, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("kv", **COMPACTED | {"segment_bytes": "5000", "min_cleanable_dirty_ratio": "1"}))
        directory = Path(log_of(broker, "kv").directory)
        for number in range(150):
            put(wire, "kv", {f"k{number}": "x" * 400})
        alter(wire, "kv", segment_bytes="1000000", min_cleanable_dirty_ratio="0.01")  # one group, of all segments but the last
        until(lambda: list(directory.glob("*.log.cleaned")))
        alter(wire, "kv", cleanup_policy="delete", retention_bytes="20000")
        until(lambda: not list(directory.glob("*.cleaned")) and broker.logs.cleaner._cleaning is None)
        until(lambda: len(list(directory.glob("*.log*"))) <= 5)
        start = offset(wire, "kv", -2)
        assert start > 0
        assert min(int(path.name[:20]) for path in directory.glob("*.log*")) == start
    brokers.stop(broker)
    again = brokers.start(disk=QuickDisk())
    with Wire(again.bootstrap_servers) as wire:
        assert offset(wire, "kv", -2) == start
        assert [place for place, _, _ in read(wire, "kv")] == list(range(start, 150))


def alter(wire: Wire, topic: str, **configs: str) -> None:
    resource = IncrementalAlterConfigsRequest.Resource
    changes = [resource.Config(name=name.replace("_", "."), config_operation=0, value=value) for name, value in configs.items()]
    request = IncrementalAlterConfigsRequest(resources=[resource(resource_type=2, resource_name=topic, configs=changes)])
    assert wire.ask(request, 1).responses[0].error_code == 0


def test_broker_that_stops_does_not_wait_for_a_slow_cleaning(brokers):
    broker = brokers.start(AT_ONCE | {"log.cleaner.io.max.bytes.per.second": "10"}, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("kv", **COMPACTED))
        for number in range(60):
            put(wire, "kv", {f"k{number % 5}": f"v{number}"})
        until(lambda: broker.logs.cleaner._cleaning is not None)
    brokers.stop(broker)
    again = brokers.start(disk=QuickDisk())
    with Wire(again.bootstrap_servers) as wire:
        assert len(read(wire, "kv")) == 60


def delete(wire: Wire, name: str) -> None:
    answer = wire.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name)], timeout_ms=60_000), 6)
    assert answer.responses[0].error_code == 0


# Retention and checkpoints.


def test_old_segments_go_by_themselves_and_their_files_after_the_delay(brokers):
    broker = brokers.start(AT_ONCE | {"log.retention.check.interval.ms": "10"}, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("old", segment_bytes="200", retention_ms="1000", file_delete_delay_ms="0"))
        for number in range(6):
            put(wire, "old", {"k": f"v{number}"}, age_ms=60_000)
        until(lambda: offset(wire, "old", -2) == 6)
        directory = Path(log_of(broker, "old").directory)
        until(lambda: [path.name for path in directory.glob("*.log*")] == ["00000000000000000006.log"])
        put(wire, "old", {"k": "young"}, age_ms=-600_000)
        assert read(wire, "old") == [(6, "k", "young")]
        until(lambda: "old 0 6" in (directory.parent / "log-start-offset-checkpoint").read_text())


def test_high_watermarks_are_written_down_in_between_and_not_when_nothing_changed(brokers):
    broker = brokers.start(AT_ONCE | {"replica.high.watermark.checkpoint.interval.ms": "1"}, QuickDisk())
    file = Path(broker.config.directories[0]) / "replication-offset-checkpoint"
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", 2))
        put(wire, "t", {"a": "1", "b": "2"}, partition=1)
        until(lambda: file.exists() and file.read_text().split("\n")[2:] == ["t 0 0", "t 1 2", ""])
        written = file.stat().st_mtime_ns
        passes = broker.logs.directories[0].publications
        until(lambda: broker.logs.directories[0].publications > passes + 5)
        assert file.stat().st_mtime_ns == written


def test_topic_with_flush_ms_is_flushed_without_being_asked(brokers, monkeypatch):
    monkeypatch.setattr("milepost.log.maintenance.log_maintenance.FLUSH_CHECK_MS", 1)
    broker = brokers.start(AT_ONCE, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", flush_ms="1"))
        put(wire, "t", {"a": "1", "b": "2"})
        until(lambda: log_of(broker, "t").recovery_point == 2)


# Internal topics that are deleted.


def test_offsets_are_gone_with_their_topic_and_new_ones_survive_a_restart(brokers):
    broker = brokers.start({"offsets.topic.num.partitions": "3"}, QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
        commit(wire, "g", 41)
        assert committed(wire, "g") == 41
        delete(wire, "__consumer_offsets")
        assert committed(wire, "g") == -1
        assert metadata(wire, "__consumer_offsets")[0].error_code == 3
        commit(wire, "g", 42)
        assert (committed(wire, "g"), len(metadata(wire, "__consumer_offsets")[0].partitions)) == (42, 3)
    brokers.stop(broker)
    again = brokers.start({"offsets.topic.num.partitions": "3"}, QuickDisk())
    with Wire(again.bootstrap_servers) as wire:
        assert committed(wire, "g") == 42


def test_broker_starts_after_its_offsets_topic_was_deleted(brokers):
    broker = brokers.start(disk=QuickDisk())
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
        commit(wire, "g", 41)
        delete(wire, "__consumer_offsets")
    brokers.stop(broker)
    again = brokers.start(disk=QuickDisk())
    with Wire(again.bootstrap_servers) as wire:
        assert (committed(wire, "g"), [topic.name for topic in metadata(wire)]) == (-1, ["t"])


# The disk keeps nobody waiting.


def test_requests_are_answered_while_a_segment_that_rolled_is_synced(brokers):
    disk = HeldDisk()
    broker = brokers.start(disk=disk)
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", segment_bytes="300"), wanted("other"))
        disk.hold("t-0/00000000000000000000.log")
        try:
            for number in range(3):
                assert put(wire, "t", {"k": f"{number:0100}"}).base_offset == number
            assert disk.is_waited_for.wait(PATIENCE)
            assert put(wire, "other", {"k": "v"}).base_offset == 0
            assert len(read(wire, "t")) == 3
            assert log_of(broker, "t").recovery_point == 0
        finally:
            disk.release()
        until(lambda: log_of(broker, "t").recovery_point == 2)

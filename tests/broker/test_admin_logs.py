"""Requests about the logs themselves: DeleteRecords, DescribeLogDirs, AlterReplicaLogDirs, OffsetForLeaderEpoch."""

from __future__ import annotations

import os

import pytest

from milepost.protocol.messages import (
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)
from tests.broker.topics import create, offset, produce, wanted
from tests.broker.wire import Wire

FIRST, END = -2, -1


# DeleteRecords.


def delete(wire: Wire, topic: str, *partitions: tuple[int, int], version: int = 2) -> list[tuple[int, int, int]]:
    """(partition, low watermark, error code) for each (partition, offset)."""
    asked = DeleteRecordsRequest.Topic
    below = [asked.Partition(partition_index=number, offset=offset) for number, offset in partitions]
    (answer,) = wire.ask(DeleteRecordsRequest(topics=[asked(name=topic, partitions=below)], timeout_ms=60_000), version).topics
    assert answer.name == topic
    return [(part.partition_index, part.low_watermark, part.error_code) for part in answer.partitions]


@pytest.mark.parametrize("version", range(3))
def test_log_starts_where_records_were_deleted_up_to(wire, version):
    create(wire, wanted("visits"))
    produce(wire, "visits", [b"v"] * 10)
    assert delete(wire, "visits", (0, 4), version=version) == [(0, 4, 0)]
    assert (offset(wire, "visits", FIRST), offset(wire, "visits", END)) == (4, 10)
    assert delete(wire, "visits", (0, 2), version=version) == [(0, 4, 0)]


def test_minus_one_deletes_everything(wire):
    create(wire, wanted("visits"))
    produce(wire, "visits", [b"v"] * 10)
    assert delete(wire, "visits", (0, -1)) == [(0, 10, 0)]
    assert offset(wire, "visits", FIRST) == 10
    assert produce(wire, "visits", [b"v"]) == 10


def test_records_that_cannot_be_deleted_stay(wire):
    create(wire, wanted("visits", 2), wanted("state", cleanup_policy="compact"))
    produce(wire, "visits", [b"v"] * 10)
    produce(wire, "state", [b"v"] * 10)
    assert delete(wire, "visits", (0, 11), (0, -2), (1, 0), (7, 0)) == [(0, -1, 1), (0, -1, 1), (1, 0, 0), (7, -1, 3)]
    assert delete(wire, "state", (0, 3)) == [(0, -1, 44)]
    assert delete(wire, "nope", (0, 0)) == [(0, -1, 3)]
    assert offset(wire, "visits", FIRST) == 0


def test_records_of_an_internal_topic_cannot_be_deleted(wire):
    wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="__consumer_offsets")]), 9)
    assert delete(wire, "__consumer_offsets", (0, 0)) == [(0, -1, 17)]


def test_start_of_the_log_survives_a_restart(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        produce(wire, "visits", [b"v"] * 10)
        delete(wire, "visits", (0, 4))
    brokers.stop(broker)
    with Wire(brokers.start().bootstrap_servers) as wire:
        assert (offset(wire, "visits", FIRST), offset(wire, "visits", END)) == (4, 10)


# DescribeLogDirs.


def log_dirs(wire: Wire, topics: dict[str, list[int]] | None = None, version: int = 5):
    asked = None if topics is None else [DescribeLogDirsRequest.Topic(topic=name, partitions=p) for name, p in topics.items()]
    response = wire.ask(DescribeLogDirsRequest(topics=asked), version)
    assert response.error_code == 0
    return response.results


def sizes(result) -> dict[tuple[str, int], int]:
    return {(topic.name, part.partition_index): part.partition_size for topic in result.topics for part in topic.partitions}


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dir_lists_every_partition_with_its_size(broker, wire, version):
    create(wire, wanted("visits", 2))
    produce(wire, "visits", [b"v"] * 10)
    (result,) = log_dirs(wire, version=version)
    size = os.path.getsize(os.path.join(broker.config.directories[0], "visits-0", "00000000000000000000.log"))
    assert size > 61
    assert (result.error_code, result.log_dir) == (0, broker.config.directories[0])
    assert sizes(result) == {("visits", 0): size, ("visits", 1): 0}
    assert all((part.offset_lag, part.is_future_key) == (0, False) for topic in result.topics for part in topic.partitions)
    if version >= 4:
        assert 0 < result.usable_bytes < result.total_bytes
    else:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_log_dir_lists_only_the_partitions_asked_for(wire):
    create(wire, wanted("visits", 3), wanted("other"))
    (result,) = log_dirs(wire, {"visits": [1, 7], "nope": [0]})
    assert sizes(result) == {("visits", 1): 0}
    (result,) = log_dirs(wire, {})
    assert result.topics == []


def test_each_of_several_log_dirs_has_its_own_partitions(brokers, tmp_path):
    broker = brokers.start({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits", 4))
        first, second = log_dirs(wire)
        assert [first.log_dir, second.log_dir] == [f"{tmp_path}/a", f"{tmp_path}/b"]
        assert sorted([*sizes(first), *sizes(second)]) == [("visits", number) for number in range(4)]
        assert len(sizes(first)) == len(sizes(second)) == 2


def test_log_dir_that_cannot_be_used_is_listed_with_its_error(brokers, tmp_path):
    (tmp_path / "file").write_text("where a directory should be")
    broker = brokers.start({"log.dirs": f"{tmp_path}/a,{tmp_path}/file"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        assert [(result.log_dir, result.error_code) for result in log_dirs(wire)] == [
            (f"{tmp_path}/a", 0),
            (f"{tmp_path}/file", 56),
        ]
        assert move(wire, f"{tmp_path}/file", "visits", 0) == [(0, 56)]


# AlterReplicaLogDirs.


def move(wire: Wire, path: str, topic: str, *partitions: int, version: int = 2) -> list[tuple[int, int]]:
    """(partition, error code)."""
    target = AlterReplicaLogDirsRequest.Dir
    dirs = [target(path=path, topics=[target.Topic(name=topic, partitions=list(partitions))])]
    (result,) = wire.ask(AlterReplicaLogDirsRequest(dirs=dirs), version).results
    assert result.topic_name == topic
    return [(part.partition_index, part.error_code) for part in result.partitions]


@pytest.mark.parametrize("version", [1, 2])
def test_partition_can_be_moved_to_where_it_is(broker, wire, version):
    create(wire, wanted("visits"))
    here = broker.config.directories[0]
    assert move(wire, here, "visits", 0, 44, version=version) == [(0, 0), (44, 3)]
    assert move(wire, "/nowhere", "visits", 0, version=version) == [(0, 57)]
    assert move(wire, here, "nope", 0, version=version) == [(0, 3)]


def test_partition_cannot_be_moved_to_another_directory_of_the_broker(brokers, tmp_path):
    with Wire(brokers.start({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}).bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        assert sorted(move(wire, f"{tmp_path}/{name}", "visits", 0)[0][1] for name in "ab") == [0, 42]


# OffsetForLeaderEpoch.


def epoch_ends(wire: Wire, topic: str, *asked: tuple[int, int, int], version: int = 4) -> list[tuple[int, int, int]]:
    """(error code, leader epoch, end offset) for each (partition, current leader epoch, leader epoch)."""
    each = OffsetForLeaderEpochRequest.Topic
    partitions = [
        each.Partition(partition=number, current_leader_epoch=current, leader_epoch=epoch) for number, current, epoch in asked
    ]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[each(topic=topic, partitions=partitions)])
    (answer,) = wire.ask(request, version).topics
    assert answer.topic == topic
    return [(part.error_code, part.leader_epoch, part.end_offset) for part in answer.partitions]


@pytest.mark.parametrize("version", range(2, 5))
def test_current_epoch_ends_at_the_end_of_the_log_also_when_it_is_empty(wire, version):
    create(wire, wanted("visits", 2))
    produce(wire, "visits", [b"v"] * 10)
    assert epoch_ends(wire, "visits", (0, -1, 0), (1, -1, 0), version=version) == [(0, 0, 10), (0, 0, 0)]


def test_epoch_that_nobody_knows_has_no_end(wire):
    create(wire, wanted("visits"))
    produce(wire, "visits", [b"v"] * 10)
    assert epoch_ends(wire, "visits", (0, -1, 9), (0, -1, -1)) == [(0, -1, -1), (0, -1, -1)]


def test_client_with_another_leader_epoch_is_told_so(wire):
    create(wire, wanted("visits"))
    assert epoch_ends(wire, "visits", (0, 0, 0), (0, 5, 0), (33, -1, 0)) == [(0, 0, 0), (75, -1, -1), (3, -1, -1)]
    assert epoch_ends(wire, "nope", (0, -1, 0)) == [(3, -1, -1)]


def test_older_epochs_end_where_the_next_begins(broker, wire):
    create(wire, wanted("visits"))
    partition = next(iter(broker.replicas.partitions.values()))
    produce(wire, "visits", [b"v"] * 10)
    partition.leader_epoch = 4
    produce(wire, "visits", [b"v"] * 3)
    assert epoch_ends(wire, "visits", (0, 4, 0), (0, 4, 3), (0, 4, 4), (0, 3, 0)) == [
        (0, 0, 10),
        (0, 0, 10),
        (0, 4, 13),
        (74, -1, -1),
    ]

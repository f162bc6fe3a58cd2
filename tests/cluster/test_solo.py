"""What a cluster of one remembers, and what it does when it cannot."""

from __future__ import annotations

import json
import random

import pytest

from milepost.cluster import solo
from milepost.cluster.change_log import FILE_NAME, ChangeLog
from milepost.cluster.solo import KnownTopic, SoloCluster
from milepost.cluster.view import TopicState
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.topic_partition import TopicPartition
from tests.crash.memory_disk import MemoryDisk
from tests.crash.recorder import RecordingDisk
from tests.crash.replayer import power_failures, process_deaths


class FillableDisk(Disk):
    """A disk that takes nothing more once it is full."""

    is_full = False
    written = 0

    def pwrite(self, fd, data, position):
        self.written += len(data)
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().pwrite(fd, data, position)


@pytest.fixture
def disk() -> FillableDisk:
    return FillableDisk()


@pytest.fixture
def opened(tmp_path, disk):
    """The cluster as another start would find it."""
    return lambda: SoloCluster(ChangeLog(str(tmp_path), disk), random.Random(1), "cluster", 0)


def everything(cluster: SoloCluster) -> tuple:
    topics = {topic.name: (topic.topic_id, topic.partitions, topic.configs) for topic in cluster.topics.values()}
    return topics, cluster.broker_configs, cluster.client_quotas


QUOTAS = [{"entity": {"user": None}, "values": {"producer_byte_rate": 1000.0}}]
QUOTA_CHANGE = {"quotas": {"user": None}, "to": {"producer_byte_rate": 1000.0}}


def create(cluster: SoloCluster, name: str, partitions: int, configs: dict[str, str] | None = None) -> TopicState:
    cluster.save([cluster.new_topic(name, partitions, configs or {})])
    return cluster.topics[name]


def test_everything_is_there_after_a_restart(opened):
    cluster = opened()
    topic = create(cluster, "visits", 3, {"retention.ms": "5"})
    create(cluster, "gone", 1)
    cluster.save([{"leaving": "gone"}])
    cluster.save([{"partitions": "visits", "to": 5}, {"config": "visits", "to": {"retention.ms": "7"}}])
    cluster.save([{"broker": "", "to": {"log.segment.bytes": "5000000"}}])
    cluster.save([QUOTA_CHANGE, {"group": "readers", "to": {"consumer.session.timeout.ms": "50000"}}])
    after = opened()
    assert everything(after) == (
        {"visits": (topic.topic_id, 5, {"retention.ms": "7"})},
        {"": {"log.segment.bytes": "5000000"}},
        QUOTAS,
    )
    assert after.group_configs == {"readers": {"consumer.session.timeout.ms": "50000"}}
    assert list(after.being_deleted) == ["gone"]
    assert after.topic_by_id(topic.topic_id) is after.topics["visits"]
    after.save([{"gone": "gone"}, {"quotas": {"user": None}, "to": {}}, {"group": "readers", "to": {}}])
    later = opened()
    assert (later.being_deleted, later.client_quotas, later.group_configs) == ({}, [], {})


def test_what_cannot_be_written_is_undone(opened, disk):
    cluster = opened()
    topic = create(cluster, "visits", 3, {"retention.ms": "5"})
    before = everything(cluster)
    disk.is_full = True
    for change in (
        lambda: create(cluster, "more", 1),
        lambda: cluster.save([{"leaving": "visits"}]),
        lambda: cluster.save([{"partitions": "visits", "to": 5}]),
        lambda: cluster.save([QUOTA_CHANGE]),
        cluster.allocate_producer_id,
    ):
        with pytest.raises(KafkaStorage, match="nothing has been changed"):
            change()
        assert everything(cluster) == before
    assert cluster.topic_by_id(topic.topic_id) is topic
    disk.is_full = False
    assert everything(opened()) == before
    assert cluster.allocate_producer_id() == 0
    assert opened().allocate_producer_id() == 1000


def test_producer_ids_are_never_given_twice_and_a_restart_skips_a_block(opened):
    cluster = opened()
    assert [cluster.allocate_producer_id() for _ in range(1001)] == list(range(1001))
    assert opened().allocate_producer_id() == 2000


def test_topics_that_kafka_left_behind_are_taken_in_with_their_ids(opened):
    cluster = opened()
    create(cluster, "known", 1)
    found = [(TopicPartition("visits", 0), None), (TopicPartition("visits", 2), "EY6sPWxSQJaP9KBcA_qc8g")]
    cluster.adopt([*found, (TopicPartition("known", 7), None)], {})
    assert {name: topic.partitions for name, topic in opened().topics.items()} == {"known": 1, "visits": 3}
    assert opened().topics["visits"].topic_id_text == "EY6sPWxSQJaP9KBcA_qc8g"


def test_nothing_is_thrown_away_of_a_topic_whose_settings_are_not_known(opened):
    cluster = opened()
    found = [(TopicPartition("visits", 0), None), (TopicPartition("__consumer_offsets", 0), None)]
    known = {"__consumer_offsets": KnownTopic({"cleanup.policy": "compact"})}
    assert cluster.adopt(found, known) == ["visits", "__consumer_offsets"]
    assert {name: topic.configs for name, topic in opened().topics.items()} == {
        "visits": {"retention.ms": "-1", "retention.bytes": "-1"},
        "__consumer_offsets": {"cleanup.policy": "compact"},
    }
    assert opened().adopt(found, {}) == []


@pytest.mark.parametrize(("known", "first"), [(-1, 0), (0, 1000), (999, 1000), (1000, 2000), (123_456, 124_000)])
def test_producer_ids_that_somebody_has_are_skipped(opened, known, first):
    cluster = opened()
    cluster.skip_producer_ids(known)
    assert cluster.allocate_producer_id() == first
    cluster.skip_producer_ids(first - 1)
    assert cluster.allocate_producer_id() == first + 1


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"topics": 5}', json.dumps({"topics": {"a": {"id": "x"}}})])
def test_file_that_is_damaged_stops_the_start_with_a_sentence(tmp_path, opened, content):
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(KafkaStorage, match="not what this broker wrote"):
        opened()


# The files.


def names(directory) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_change_costs_what_it_says_however_many_topics_there_are(opened, disk):
    cluster = opened()
    cluster.save([cluster.new_topic(f"topic-{number}", 1, {}) for number in range(5000)])
    disk.written = 0
    create(cluster, "one-more", 3, {"retention.ms": "5"})
    assert disk.written == 107


def test_file_of_an_older_version_is_taken_over(tmp_path, opened):
    topics = {"visits": {"id": "EY6sPWxSQJaP9KBcA_qc8g", "partitions": 5, "config": {"retention.ms": "-1"}}}
    old = {
        "version": 1,
        "topics": topics,
        "brokers": {"": {"log.segment.bytes": "5000000"}},
        "groups": {"readers": {"consumer.session.timeout.ms": "50000"}},
        "quotas": QUOTAS,
        "features": {"epoch": 1, "levels": {"transaction.version": 1}},
        "next_producer_id": 3000,
    }
    (tmp_path / FILE_NAME).write_text(json.dumps(old, indent=1))
    create(opened(), "more", 1)
    cluster = opened()
    assert {name: topic.partitions for name, topic in cluster.topics.items()} == {"visits": 5, "more": 1}
    assert (cluster.features_epoch, cluster.feature_levels) == (1, {"transaction.version": 1})
    assert cluster.allocate_producer_id() == 3000
    cluster.close()
    assert names(tmp_path) == [FILE_NAME]
    kept = json.loads((tmp_path / FILE_NAME).read_text())
    new = {"version": 2, "generation": 1, "leaving": {}, "users": {}, "acls": [], "next_producer_id": 4000}
    assert {**kept, "topics": topics} == {**old, **new}
    assert kept["topics"]["visits"] == topics["visits"]


def test_file_of_a_newer_version_is_not_read(tmp_path, opened):
    (tmp_path / FILE_NAME).write_text('{"version": 3, "topics": {}}')
    with pytest.raises(KafkaStorage, match="is of version 3, and this milepost knows 2"):
        opened()


def test_last_line_that_is_torn_never_happened_and_nothing_else_is_lost(tmp_path, opened):
    cluster = opened()
    create(cluster, "first", 1)
    (changes,) = [path for path in tmp_path.iterdir() if path.suffix == ".changes"]
    one = changes.read_bytes()
    create(cluster, "second", 1)
    both = changes.read_bytes()
    for torn in [both[:size] for size in range(len(one), len(both))] + [
        one + bytes(500),
        one + bytes(len(both) - len(one) - 5) + both[-5:],
    ]:
        changes.write_bytes(torn)
        for path in tmp_path.iterdir():
            if path != changes:
                path.unlink()
        again = opened()
        assert list(again.topics) == ["first"]
        create(again, "third", 1)
        assert list(opened().topics) == ["first", "third"]


def test_damaged_line_with_whole_ones_behind_it_ends_the_start(tmp_path, opened):
    cluster = opened()
    for name in ("first", "second", "third"):
        create(cluster, name, 1)
    (changes,) = [path for path in tmp_path.iterdir() if path.suffix == ".changes"]
    lines = changes.read_bytes().splitlines(keepends=True)
    changes.write_bytes(lines[0] + lines[1].replace(b"second", b"sEcond") + lines[2])
    with pytest.raises(
        KafkaStorage, match=f"begins at byte {len(lines[0])} is not what this broker wrote, and whole lines follow"
    ):
        opened()


def test_changes_that_outgrow_the_snapshot_are_put_into_a_new_one(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(solo, "SMALLEST_SNAPSHOT_AFTER", 2000)
    cluster = opened()
    for number in range(200):
        create(cluster, f"topic-{number}", 1)
        assert sum(path.stat().st_size for path in tmp_path.iterdir() if path.suffix == ".changes") < 50_000
    assert len(names(tmp_path)) == 2
    assert list(opened().topics) == [f"topic-{number}" for number in range(200)]


def test_snapshot_that_cannot_be_written_costs_nothing(tmp_path, opened, monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(solo, "SMALLEST_SNAPSHOT_AFTER", 2000)
    cluster = opened()
    with monkeypatch.context() as away:
        away.setattr("milepost.cluster.change_log.replace_file", full)
        for number in range(100):
            create(cluster, f"topic-{number}", 1)
        assert list(opened().topics) == [f"topic-{number}" for number in range(100)]
    assert "cannot be replaced: [Errno 28] No space left on device" in caplog.text
    caplog.clear()
    cluster.close()
    assert names(tmp_path) == [FILE_NAME]
    assert len(opened().topics) == 100


def test_no_crash_loses_a_change_that_was_made_or_makes_half_of_one(monkeypatch):
    """Every state that a process or a machine may leave, over appends and snapshots."""
    monkeypatch.setattr(solo, "SMALLEST_SNAPSHOT_AFTER", 300)
    disk = RecordingDisk(directories=["/data"])
    cluster = SoloCluster(ChangeLog("/data", disk), random.Random(1), "cluster", 0)
    made = [0]
    """How many operations of the disk had been done when there were so many pairs of topics."""
    for number in range(16):
        cluster.save([cluster.new_topic(f"a{number}", 1, {}), cluster.new_topic(f"b{number}", 2, {"retention.ms": "5"})])
        made.append(len(disk.trace))
    cluster.close()
    assert sum(operation.kind == "rename" for operation in disk.trace) >= 3, "there were snapshots"
    crashes = [*process_deaths({}, disk.trace), *power_failures({}, disk.trace, random.Random(2), subsets=5)]
    assert len(crashes) > 400
    for crash in crashes:
        found = SoloCluster(ChangeLog("/data", MemoryDisk(crash.state, ["/data"])), random.Random(1), "cluster", 0)
        pairs = sum(after <= crash.after for after in made) - 1
        expected = [[f"{kind}{number}" for number in range(count) for kind in "ab"] for count in (pairs, pairs + 1)]
        assert list(found.topics) in expected, crash.label

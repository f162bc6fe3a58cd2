"""What a cluster of one remembers, and what it does when it cannot."""

from __future__ import annotations

import json
import random

import pytest

from milepost.cluster.solo import FILE_NAME, SoloCluster
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log.partition_name import TopicPartition


class FillableDisk(Disk):
    """A disk that takes nothing more once it is full."""

    is_full = False

    def pwrite(self, fd, data, position):
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().pwrite(fd, data, position)


@pytest.fixture
def disk() -> FillableDisk:
    return FillableDisk()


@pytest.fixture
def opened(tmp_path, disk):
    """The cluster as another start would find it."""
    return lambda: SoloCluster(str(tmp_path), disk, random.Random(1), "cluster", 0)


def everything(cluster: SoloCluster) -> tuple:
    topics = {topic.name: (topic.topic_id, topic.partitions, topic.configs) for topic in cluster.topics.values()}
    return topics, cluster.broker_configs, cluster.client_quotas


QUOTAS = [{"entity": {"user": None}, "values": {"producer_byte_rate": 1000.0}}]


def test_everything_is_there_after_a_restart(opened):
    cluster = opened()
    topic = cluster.create_topic("visits", 3, {"retention.ms": "5"})
    cluster.create_topic("gone", 1)
    cluster.delete_topic("gone")
    cluster.add_partitions("visits", 5)
    cluster.alter_topic_config("visits", {"retention.ms": "7"})
    cluster.alter_broker_config("", {"log.segment.bytes": "5000000"})
    cluster.alter_client_quotas(QUOTAS)
    after = opened()
    assert everything(after) == (
        {"visits": (topic.topic_id, 5, {"retention.ms": "7"})},
        {"": {"log.segment.bytes": "5000000"}},
        QUOTAS,
    )
    assert after.topic_by_id(topic.topic_id) is after.topics["visits"]


def test_what_cannot_be_written_is_undone(opened, disk):
    cluster = opened()
    topic = cluster.create_topic("visits", 3, {"retention.ms": "5"})
    before = everything(cluster)
    disk.is_full = True
    for change in (
        lambda: cluster.create_topic("more", 1),
        lambda: cluster.delete_topic("visits"),
        lambda: cluster.add_partitions("visits", 5),
        lambda: cluster.alter_topic_config("visits", {}),
        lambda: cluster.alter_broker_config("0", {"log.segment.bytes": "5000000"}),
        lambda: cluster.alter_client_quotas(QUOTAS),
        cluster.allocate_producer_id,
    ):
        with pytest.raises(KafkaStorage, match="nothing has been changed"):
            change()
        assert everything(cluster) == before
    assert cluster.topic_by_id(topic.topic_id) is topic
    disk.is_full = False
    assert everything(opened()) == before
    assert cluster.allocate_producer_id() == 0


def test_producer_ids_are_never_given_twice_and_a_restart_skips_a_block(opened):
    cluster = opened()
    assert [cluster.allocate_producer_id() for _ in range(1001)] == list(range(1001))
    assert opened().allocate_producer_id() == 2000


def test_topics_that_kafka_left_behind_are_taken_in_with_their_ids(opened):
    cluster = opened()
    cluster.create_topic("known", 1)
    found = [(TopicPartition("visits", 0), None), (TopicPartition("visits", 2), "EY6sPWxSQJaP9KBcA_qc8g")]
    cluster.adopt([*found, (TopicPartition("known", 7), None)])
    assert {name: topic.partitions for name, topic in opened().topics.items()} == {"known": 1, "visits": 3}
    assert opened().topics["visits"].topic_id_text == "EY6sPWxSQJaP9KBcA_qc8g"


def test_nothing_is_thrown_away_of_a_topic_whose_settings_are_not_known(opened):
    cluster = opened()
    found = [(TopicPartition("visits", 0), None), (TopicPartition("__consumer_offsets", 0), None)]
    assert cluster.adopt(found, {"__consumer_offsets": {"cleanup.policy": "compact"}}) == ["visits", "__consumer_offsets"]
    assert {name: topic.configs for name, topic in opened().topics.items()} == {
        "visits": {"retention.ms": "-1", "retention.bytes": "-1"},
        "__consumer_offsets": {"cleanup.policy": "compact"},
    }
    assert opened().adopt(found) == []


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

"""Offsets by time and at the ends, and commits of a consumer that is no member, in old and new versions."""

from __future__ import annotations

import zlib

import pytest

from milepost.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, Committed, FoundOffset, commit, committed, ends, list_offsets
from milepost.client.producer import Producer
from milepost.errors import RequestFailed
from milepost.topic_partition import TopicPartition
from tests.client.topics import make_topic


@pytest.fixture
def topic(broker, cluster, request) -> TopicPartition:
    name = f"offsets-{zlib.crc32(request.node.name.encode())}"
    make_topic(cluster, name, 2)
    with Producer(cluster) as producer:
        for timestamp in (1000, 3000, 2000):
            producer.send(name, b"v", partition=0, timestamp=timestamp)
            producer.flush()
    return TopicPartition(name, 0)


def test_ends_of_partitions(cluster, topic, any_version):
    empty = TopicPartition(topic.topic, 1)
    assert ends(cluster, [topic, empty], EARLIEST) == {topic: 0, empty: 0}
    assert ends(cluster, [topic, empty], LATEST) == {topic: 3, empty: 0}


@pytest.mark.parametrize(("asked", "offset", "timestamp"), [(0, 0, 1000), (1000, 0, 1000), (1001, 1, 3000), (3000, 1, 3000)])
def test_first_record_that_is_not_older(cluster, topic, any_version, asked, offset, timestamp):
    found = list_offsets(cluster, {topic: asked})[topic]
    assert found is not None
    assert (found.offset, found.timestamp) == (offset, timestamp)


def test_nothing_is_as_new_as_that(cluster, topic, any_version):
    assert list_offsets(cluster, {topic: 3001}) == {topic: None}


def test_record_with_the_largest_timestamp(cluster, topic):
    assert list_offsets(cluster, {topic: MAX_TIMESTAMP}) == {topic: FoundOffset(1, 3000, 0)}


def test_commits_are_kept_by_group_and_partition(cluster, topic, any_version):
    group, other = f"group-{any_version}", TopicPartition(topic.topic, 1)
    assert committed(cluster, group) == {}
    commit(cluster, group, {topic: 2, other: 7})
    commit(cluster, group, {topic: 3})
    assert {partition: place.offset for partition, place in committed(cluster, group).items()} == {topic: 3, other: 7}
    assert isinstance(committed(cluster, group)[topic], Committed)


def test_commit_in_a_partition_that_is_not_there_is_refused(cluster, topic):
    with pytest.raises(
        RequestFailed, match=rf"^commit of group g in {topic.topic}-9: the broker answers UNKNOWN_TOPIC_OR_PARTITION"
    ):
        commit(cluster, "g", {TopicPartition(topic.topic, 9): 0})

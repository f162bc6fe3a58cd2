"""Names of partition directories."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.log.directory.partition_directory import delete_directory_name, parse_directory_name, stray_directory_name
from milepost.topic_partition import TopicPartition, validate_topic_name

UID = "0123456789abcdef0123456789abcdef"


def test_partition_is_written_behind_the_last_dash():
    assert str(TopicPartition("page_visits", 4)) == "page_visits-4"
    assert str(TopicPartition("a-b", 0)) == "a-b-0"


def test_partitions_sort_by_topic_and_number():
    names = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    assert [str(tp) for tp in sorted(names)] == ["a-9", "a-10", "b-0"]


@pytest.mark.parametrize(
    ("name", "topic", "partition", "suffix"),
    [
        ("test_topic-143", "test_topic", 143, ""),
        ("a-b-c-0", "a-b-c", 0, ""),
        ("a.b-2147483647", "a.b", 2147483647, ""),
        ("__cluster_metadata-0", "__cluster_metadata", 0, ""),
        ("t-007", "t", 7, ""),
        (f"foo-bar-0.{UID}-delete", "foo-bar", 0, "delete"),
        (f"foo.bar-12.{UID}-stray", "foo.bar", 12, "stray"),
        (f"foo-3.{UID}-future", "foo", 3, "future"),
        ("foo-3.x-future", "foo", 3, "future"),
        ("my-delete-5", "my-delete", 5, ""),
    ],
)
def test_name_is_taken_apart(name, topic, partition, suffix):
    assert parse_directory_name(name) == (TopicPartition(topic, partition), suffix)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "test_topic",
        "-143",
        "test_topic-",
        "test_topic-1999a",
        "test_topic--",
        "test_topic-2147483648",
        "test_topic-+1",
        "test_topic-1_0",
        "test_topic-\u0661",
        "non_kafka_dir",
        "non_kafka_dir-delete",
        "remote-log-index-cache",
        f"-143.{UID}-delete",
        f"test_topic-.{UID}-delete",
        f"test_topic.{UID}-delete",
        f"test_topic-1999a.{UID}-delete",
        "test_topic-0-delete",
        "test_topic-0.-delete",
        f"test topic-0.{UID}-delete",
        f"test_topic-0.{UID} -stray",
        "my dir-0",
        "..-0",
        "caf\u00e9-0",
        "lost+found-0",
        f"{'x' * 250}-0",
    ],
)
def test_other_names_are_refused_with_the_name(name):
    with pytest.raises(KafkaStorage, match=r"^directory '"):
        parse_directory_name(name)


def test_delete_name_of_the_longest_topic_fills_255_characters():
    name = delete_directory_name(TopicPartition("n" * 249, 5), UID)
    assert len(name) == 255
    assert name == "n" * 213 + f"-5.{UID}-delete"
    assert parse_directory_name(name) == (TopicPartition("n" * 213, 5), "delete")


def test_names_of_the_states_that_are_given():
    tp = TopicPartition("foo", 3)
    assert delete_directory_name(tp, UID) == f"foo-3.{UID}-delete"
    assert stray_directory_name(tp, UID) == f"foo-3.{UID}-stray"


def test_stray_name_of_the_longest_topic_fills_255_characters():
    assert stray_directory_name(TopicPartition("n" * 249, 5), UID) == "n" * 214 + f"-5.{UID}-stray"


def test_future_name_is_read_though_it_is_longer_than_others_may_be():
    assert parse_directory_name("n" * 249 + f"-5.{UID}-future") == (TopicPartition("n" * 249, 5), "future")


@pytest.mark.parametrize("name", ["a", "A.b_c-D9", "...", "n" * 249, "__consumer_offsets"])
def test_legal_topic(name):
    validate_topic_name(name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "cannot be empty"),
        (".", "cannot be '.' or '..'"),
        ("..", "cannot be '.' or '..'"),
        ("n" * 250, "at most 249 characters, this one has 250"),
        ("a b", "holds only letters"),
        ("a/b", "holds only letters"),
        ("a\n", "holds only letters"),
        ("caf\u00e9", "holds only letters"),
    ],
)
def test_illegal_topic_is_told_why(name, fault):
    with pytest.raises(InvalidArgument, match=fault):
        validate_topic_name(name)

"""Topics over the wire, in old and new versions."""

from __future__ import annotations

import pytest

from milepost.client.admin import CreatedTopic, create_topic, delete_topics, list_topics
from milepost.client.cluster import Cluster
from milepost.client.retrying import Retries
from milepost.errors import RequestFailed, UnsupportedVersion
from tests.client.fake_broker import FakeBroker, metadata
from tests.client.topics import make_topic
from tests.waiting import PATIENCE


def test_created_topic_is_as_asked_for(broker, cluster, any_version):
    name = f"made-{any_version}"
    create_topic(cluster, name, partitions=3, replication_factor=1, configs={"retention.ms": "1000"})
    assert broker.cluster.topics[name].partitions == 3
    assert broker.cluster.topics[name].configs == {"retention.ms": "1000"}


def test_numbers_that_are_not_given_are_the_brokers(cluster):
    assert create_topic(cluster, "defaults") == CreatedTopic("defaults", 1, 1)


def test_only_validated_topic_is_not_made(broker, cluster):
    create_topic(cluster, "imagined", partitions=1, replication_factor=1, validate_only=True)
    assert "imagined" not in broker.cluster.topics


def test_topic_that_is_there_is_refused(cluster):
    create_topic(cluster, "twice")
    with pytest.raises(RequestFailed, match=r"^topic twice: the broker answers TOPIC_ALREADY_EXISTS \(36\): ") as caught:
        create_topic(cluster, "twice")
    assert caught.value.code == 36


def test_old_broker_without_defaults_wants_numbers(cluster_of):
    fake = FakeBroker(Metadata=lambda version, request: metadata([fake], {}))
    fake.versions["CreateTopics"] = (2, 3)
    with pytest.raises(UnsupportedVersion, match="name partitions and replication factor"):
        create_topic(cluster_of(fake), "t", partitions=3)
    assert "CreateTopics" not in fake.names()
    fake.close()


def test_topics_are_listed_by_name_and_deleted(broker, cluster, any_version):
    names = [f"{letter}-{any_version}" for letter in "zya"]
    for name in names:
        make_topic(cluster, name, 1)
    listed = [topic.name for topic in list_topics(cluster)]
    assert listed == sorted(listed)
    assert set(names) <= set(listed)
    delete_topics(cluster, names[:2])
    assert {topic.name for topic in list_topics(cluster)} & set(names) == {names[2]}


def test_deleting_what_is_not_there_is_told_at_once(broker, any_version):
    never = Retries(sleep=lambda seconds: pytest.fail("nothing to wait for"))
    with (
        Cluster(broker.bootstrap_servers, timeout=PATIENCE, retries=never) as cluster,
        pytest.raises(RequestFailed, match=r"^topic absent: the broker answers UNKNOWN_TOPIC_OR_PARTITION \(3\)"),
    ):
        delete_topics(cluster, ["absent"])

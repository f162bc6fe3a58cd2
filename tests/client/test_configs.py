"""Settings over the wire, in old and new versions."""

from __future__ import annotations

import pytest

from milepost.client.configs import ConfigSource, Resource, ResourceType, alter_configs, describe_configs
from milepost.errors import InvalidArgument, RequestFailed
from tests.client.topics import make_topic


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def test_settings_of_a_topic_say_where_each_comes_from(broker, cluster, any_version):
    name = f"settings-{any_version}"
    make_topic(cluster, name, 1, {"retention.ms": "1000"})
    entries = {entry.name: entry for entry in describe_configs(cluster, topic(name))}
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (entries["segment.bytes"].value, entries["segment.bytes"].source) == ("1073741824", ConfigSource.DEFAULT_CONFIG)
    assert list(entries) == sorted(entries)


def test_only_the_settings_asked_for(broker, cluster):
    make_topic(cluster, "asked", 1)
    assert [entry.name for entry in describe_configs(cluster, topic("asked"), ["segment.ms", "no.such.setting"])] == [
        "segment.ms"
    ]


def test_changes_leave_the_other_settings_alone(broker, cluster, any_version):
    name = f"changes-{any_version}"
    make_topic(cluster, name, 1, {"retention.ms": "1000", "segment.ms": "5000"})
    alter_configs(cluster, topic(name), {"retention.bytes": "77"}, ["retention.ms"])
    assert broker.cluster.topics[name].configs == {"segment.ms": "5000", "retention.bytes": "77"}


def test_validated_change_is_not_made(broker, cluster):
    make_topic(cluster, "validated", 1)
    alter_configs(cluster, topic("validated"), {"retention.ms": "5"}, validate_only=True)
    assert broker.cluster.topics["validated"].configs == {}


def test_value_that_cannot_be_is_refused_with_the_brokers_words(broker, cluster):
    make_topic(cluster, "refused", 1)
    with pytest.raises(
        RequestFailed, match=r"^settings of topic refused: the broker answers INVALID_CONFIG \(40\): .*retention\.ms"
    ):
        alter_configs(cluster, topic("refused"), {"retention.ms": "soon"})


def test_change_of_nothing_is_refused_here(cluster):
    with pytest.raises(InvalidArgument, match=r"^topic t: nothing to change is named$"):
        alter_configs(cluster, topic("t"), {})


def test_settings_of_a_broker(cluster):
    entries = {entry.name: entry for entry in describe_configs(cluster, Resource(ResourceType.BROKER, "0"))}
    assert entries["offsets.topic.num.partitions"].value == "3"
    assert entries["offsets.topic.num.partitions"].source is ConfigSource.STATIC_BROKER_CONFIG


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (topic("t"), "topic t"),
        (Resource(ResourceType.BROKER, "3"), "broker 3"),
        (Resource(ResourceType.BROKER, ""), "all brokers"),
    ],
)
def test_resource_in_words(resource, words):
    assert str(resource) == words


def test_broker_that_is_no_number_is_refused(cluster):
    with pytest.raises(InvalidArgument, match="is no node id"):
        describe_configs(cluster, Resource(ResourceType.BROKER, "one"))

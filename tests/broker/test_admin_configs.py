"""Settings of topics and brokers: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs. Expected answers are those of Kafka 4.3.0."""

from __future__ import annotations

import pytest

from milepost.config.topic import LogConfig
from milepost.protocol.messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from milepost.topic_partition import TopicPartition
from tests.broker.settings import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, alter, configs, describe, replace
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire

DROPPED = {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
"""Kafka 4.3 has these no more (its LogConfig class does not name them): they are shown where they are set."""

# Describing.


@pytest.mark.parametrize("version", range(1, 5))
def test_every_property_of_a_topic_is_described(wire, version):
    create(wire, wanted("visits", retention_ms="7000"))
    result = describe(wire, TOPIC, "visits", version=version)
    assert (result.error_code, result.error_message) == (0, "")
    found = {config.name: config for config in result.configs}
    assert sorted(found) == sorted(set(LogConfig.names()) - DROPPED)
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("7000", 1)
    assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == ("1073741824", 5)
    assert not any(config.read_only or config.is_sensitive for config in result.configs)


@pytest.mark.parametrize(
    ("name", "value", "wire_type"),
    [
        ("preallocate", "false", 1),
        ("compression.type", "producer", 2),
        ("segment.bytes", "1073741824", 3),
        ("flush.messages", "9223372036854775807", 5),
        ("min.cleanable.dirty.ratio", "0.5", 6),
        ("cleanup.policy", "delete", 7),
        ("leader.replication.throttled.replicas", "", 7),
    ],
)
def test_values_have_kafkas_types_and_spelling(wire, name, value, wire_type):
    create(wire, wanted("visits"))
    (config,) = describe(wire, TOPIC, "visits", name, version=3).configs
    assert (config.value, config.config_type, config.documentation) == (value, wire_type, None)
    (config,) = describe(wire, TOPIC, "visits", name, documentation=True, version=3).configs
    assert config.documentation


def test_synonyms_are_left_out_unless_asked_for(wire):
    create(wire, wanted("visits"))
    assert all(config.synonyms == [] for config in describe(wire, TOPIC, "visits", synonyms=False).configs)


def test_source_and_synonyms_of_a_topic_tell_where_values_come_from(brokers):
    broker = brokers.start({"log.retention.bytes": "123456789", "log.roll.hours": "24"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits", cleanup_policy="compact"))
        found = configs(wire, TOPIC, "visits")
        assert found["cleanup.policy"] == ("compact", 1, [("cleanup.policy", "compact", 1), ("log.cleanup.policy", "delete", 5)])
        assert found["retention.bytes"] == (
            "123456789",
            4,
            [("log.retention.bytes", "123456789", 4), ("log.retention.bytes", "-1", 5)],
        )
        assert found["segment.ms"] == ("86400000", 4, [("log.roll.hours", "24", 4), ("log.roll.hours", "168", 5)])
        assert found["remote.storage.enable"] == ("false", 5, [])


def test_only_the_keys_asked_for_are_answered_and_an_empty_list_means_all(wire):
    create(wire, wanted("visits"))
    assert list(configs(wire, TOPIC, "visits", "retention.ms", "no.such", "segment.ms")) == ["retention.ms", "segment.ms"]
    resource = DescribeConfigsRequest.Resource(resource_type=TOPIC, resource_name="visits", configuration_keys=[])
    (result,) = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert len(result.configs) == len(set(LogConfig.names()) - DROPPED)


@pytest.mark.parametrize(
    ("kind", "name", "code", "sentence"),
    [
        (TOPIC, "nope", 3, "there is no topic nope"),
        (TOPIC, "a b", 17, "topic name 'a b': a topic's name holds only letters, digits, '.', '_' and '-'"),
        (BROKER, "77", 42, "broker '77': this is broker 0; name it, or no broker to mean all"),
        (BROKER, "x", 42, "broker 'x': this is broker 0; name it, or no broker to mean all"),
        (0, "x", 42, "resource type 0: only topics (2), brokers (4) and groups (32) have settings here"),
        (99, "0", 42, "resource type 99: only topics (2), brokers (4) and groups (32) have settings here"),
    ],
)
def test_what_has_no_settings_is_refused_the_same_way_by_all_three(wire, kind, name, code, sentence):
    result = describe(wire, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, sentence, [])
    assert alter(wire, kind, name, ("retention.ms", SET, "1")) == (code, sentence)
    assert replace(wire, kind, name, retention_ms="1") == (code, sentence)


def test_broker_describes_itself_and_marks_what_cannot_change(brokers):
    broker = brokers.start({"num.partitions": "3", "node.id": "5"})
    with Wire(broker.bootstrap_servers) as wire:
        found = {config.name: config for config in describe(wire, BROKER, "5").configs}
        assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("3", 4)
        assert found["num.partitions"].read_only
        assert (found["log.segment.bytes"].value, found["log.segment.bytes"].read_only) == ("1073741824", False)
        assert (found["log.retention.ms"].value, found["log.retention.ms"].synonyms) == (None, [])
        assert found["log.retention.hours"].read_only
        assert describe(wire, BROKER, "").configs == []


def test_internal_topic_that_a_client_asks_for_is_made_as_its_coordinator_needs_it(brokers):
    broker = brokers.start({"offsets.topic.num.partitions": "3"})
    with Wire(broker.bootstrap_servers) as wire:
        (topic,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="__consumer_offsets")]), 9).topics
        assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 3)
        found = configs(wire, TOPIC, "__consumer_offsets", "cleanup.policy", "segment.bytes")
        assert (found["cleanup.policy"][:2], found["segment.bytes"][:2]) == (("compact", 1), ("104857600", 1))


# Changing topics.


@pytest.mark.parametrize("version", range(2))
def test_setting_is_set_and_taken_away_again(wire, version):
    create(wire, wanted("visits", retention_ms="7000"))
    assert alter(wire, TOPIC, "visits", ("segment.ms", SET, "60000"), version=version) == (0, None)
    assert configs(wire, TOPIC, "visits", "segment.ms")["segment.ms"][:2] == ("60000", 1)
    assert configs(wire, TOPIC, "visits", "retention.ms")["retention.ms"][:2] == ("7000", 1)
    assert alter(wire, TOPIC, "visits", ("retention.ms", DELETE, None), ("no.such", DELETE, None)) == (0, None)
    assert configs(wire, TOPIC, "visits", "retention.ms")["retention.ms"][:2] == ("604800000", 5)


def test_lists_grow_and_shrink_by_their_parts(wire):
    """Kafka 4.3.0's answers to the same requests, one after the other."""
    create(wire, wanted("visits"))
    for operation, value, after in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (APPEND, "delete, compact", "delete,compact"),
    ]:
        assert alter(wire, TOPIC, "visits", ("cleanup.policy", operation, value)) == (0, None)
        assert configs(wire, TOPIC, "visits", "cleanup.policy")["cleanup.policy"][:2] == (after, 1)


@pytest.mark.parametrize(
    ("operations", "code", "sentence"),
    [
        ([("no.such", SET, "1")], 40, "'no.such' is no topic property: no name is near it."),
        ([("no.such", APPEND, "1")], 40, "'no.such' is no topic property: no name is near it."),
        (
            [("segment.ms", APPEND, "5")],
            40,
            "segment.ms is no list but a long: it can be set, not appended to or subtracted from",
        ),
        ([("cleanup.policy", APPEND, "shrink")], 40, None),
        ([("segment.ms", SET, None)], 42, "segment.ms: null is no value; give one, or leave the setting out"),
        ([("cleanup.policy", APPEND, None)], 42, "cleanup.policy: null is no value; give one, or leave the setting out"),
        ([("segment.ms", 9, "1")], 42, "segment.ms: operation 9 is none of set 0, delete 1, append 2, subtract 3"),
        ([("segment.ms", SET, "1"), ("segment.ms", SET, "2")], 42, "segment.ms: in the request more than once"),
        ([("retention.ms", SET, "5"), ("segment.ms", SET, "x")], 40, None),
        (
            [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")],
            40,
            "min.compaction.lag.ms = 5 is above max.compaction.lag.ms = 4: lower the first or raise the second.",
        ),
    ],
)
def test_change_that_is_refused_changes_nothing(wire, operations, code, sentence):
    create(wire, wanted("visits", retention_ms="7000"))
    before = configs(wire, TOPIC, "visits")
    found, message = alter(wire, TOPIC, "visits", *operations)
    assert found == code
    assert message
    if sentence is not None:
        assert message == sentence
    assert configs(wire, TOPIC, "visits") == before


def test_change_that_is_only_checked_changes_nothing(wire):
    create(wire, wanted("visits"))
    assert alter(wire, TOPIC, "visits", ("segment.ms", SET, "60000"), validate_only=True) == (0, None)
    assert alter(wire, TOPIC, "visits", ("segment.ms", SET, "x"), validate_only=True)[0] == 40
    assert replace(wire, TOPIC, "visits", validate_only=True, segment_ms="60000") == (0, None)
    assert configs(wire, TOPIC, "visits", "segment.ms")["segment.ms"][:2] == ("604800000", 5)


@pytest.mark.parametrize("request_class", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
def test_resource_that_comes_twice_is_refused_and_the_others_are_changed(wire, request_class):
    create(wire, wanted("twice"), wanted("once"))
    resource = request_class.Resource
    resources = [
        resource(resource_type=TOPIC, resource_name=name, configs=[resource.Config(name="segment.ms", value="60000")])
        for name in ("twice", "once", "twice")
    ]
    responses = wire.ask(request_class(resources=resources), 1).responses
    assert [(response.resource_name, response.error_code) for response in responses] == [
        ("twice", 42),
        ("once", 0),
        ("twice", 42),
    ]
    assert configs(wire, TOPIC, "once", "segment.ms")["segment.ms"][:2] == ("60000", 1)


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_everything(wire, version):
    create(wire, wanted("visits", segment_ms="60000"))
    assert replace(wire, TOPIC, "visits", version=version, flush_ms="5") == (0, None)
    found = configs(wire, TOPIC, "visits", "flush.ms", "segment.ms")
    assert (found["flush.ms"][:2], found["segment.ms"][:2]) == (("5", 1), ("604800000", 5))


@pytest.mark.parametrize(("settings", "code"), [({"flush_ms": "x"}, 40), ({"no_such": "1"}, 40), ({"flush_ms": None}, 42)])
def test_alter_configs_refuses_what_is_not_valid(wire, settings, code):
    create(wire, wanted("visits", segment_ms="60000"))
    assert replace(wire, TOPIC, "visits", **settings)[0] == code
    assert configs(wire, TOPIC, "visits", "segment.ms")["segment.ms"][:2] == ("60000", 1)


def test_value_is_stored_in_one_spelling_and_under_the_propertys_own_name(wire):
    create(wire, wanted("visits", retention_ms=" 5000 ", internal_segment_bytes="2000000"))
    found = configs(wire, TOPIC, "visits", "retention.ms", "segment.bytes")
    assert (found["retention.ms"][:2], found["segment.bytes"][:2]) == (("5000", 1), ("2000000", 1))
    assert alter(wire, TOPIC, "visits", ("internal.segment.bytes", DELETE, None)) == (0, None)
    assert configs(wire, TOPIC, "visits", "segment.bytes")["segment.bytes"][1] == 5


def test_new_setting_holds_for_the_next_append(broker, wire):
    create(wire, wanted("visits"))
    log = broker.replicas.partition(TopicPartition("visits", 0)).log
    produce(wire, "visits", [b"a" * 500])
    alter(wire, TOPIC, "visits", ("segment.bytes", SET, "600"))
    produce(wire, "visits", [b"b" * 500])
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_settings_survive_a_restart(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        alter(wire, TOPIC, "visits", ("segment.ms", SET, "60000"))
        alter(wire, BROKER, "", ("log.flush.interval.messages", SET, "77"))
    brokers.stop(broker)
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        found = configs(wire, TOPIC, "visits", "segment.ms", "flush.messages")
        assert (found["segment.ms"][:2], found["flush.messages"][:2]) == (("60000", 1), ("77", 3))
    assert broker.replicas.partition(TopicPartition("visits", 0)).log.config.flush_messages == 77


def test_settings_that_cannot_be_remembered_do_not_hold(wire, monkeypatch):
    create(wire, wanted("visits"))
    before = configs(wire, TOPIC, "visits")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("milepost.cluster.change_log.ChangeLog.append", full)
    assert alter(wire, TOPIC, "visits", ("segment.ms", SET, "60000"))[0] == 56
    assert replace(wire, TOPIC, "visits", segment_ms="60000")[0] == 56
    assert alter(wire, BROKER, "", ("log.segment.bytes", SET, "5000000"))[0] == 56
    assert configs(wire, TOPIC, "visits") == before

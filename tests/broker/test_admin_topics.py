"""Topics come, grow and go: CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

import base64

import pytest

from milepost.protocol.messages import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from tests.broker.topics import create, metadata, produce, wanted
from tests.broker.wire import Wire

NO_ID = bytes(16)
Assignment = CreateTopicsRequest.Topic.Assignment


def ask(wire: Wire, *topics: CreateTopicsRequest.Topic, version: int = 7, validate_only: bool = False):
    return wire.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=60_000, validate_only=validate_only), version).topics


def assigned(name: str, *replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1):
    topic = wanted(name, partitions, factor)
    topic.assignments = [Assignment(partition_index=index, broker_ids=brokers) for index, brokers in replicas]
    return topic


# CreateTopics.


@pytest.mark.parametrize("version", range(2, 8))
def test_topic_is_there_when_the_answer_is(wire, version):
    (answer,) = ask(wire, wanted("visits", 3), version=version)
    assert (answer.name, answer.error_code, answer.error_message) == ("visits", 0, None)
    (topic,) = metadata(wire, "visits")
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
    assert [partition.leader_id for partition in topic.partitions] == [0, 0, 0]


def test_version_5_returns_numbers_and_settings_and_version_7_the_id(wire):
    (old,) = ask(wire, wanted("old", 2), version=4)
    assert (old.num_partitions, old.replication_factor, old.configs, old.topic_id) == (-1, -1, [], NO_ID)
    (newer,) = ask(wire, wanted("newer", 2), version=5)
    assert (newer.num_partitions, newer.replication_factor, newer.topic_id) == (2, 1, NO_ID)
    (newest,) = ask(wire, wanted("newest", 2, retention_ms="7000"), version=7)
    assert newest.topic_id == metadata(wire, "newest")[0].topic_id != NO_ID
    configs = {config.name: (config.value, config.config_source, config.read_only) for config in newest.configs}
    assert configs["retention.ms"] == ("7000", 1, False)
    assert configs["cleanup.policy"] == ("delete", 5, False)
    assert list(configs) == sorted(configs)


def test_minus_one_means_the_brokers_defaults(brokers):
    broker = brokers.start({"num.partitions": "4", "default.replication.factor": "3"})
    with Wire(broker.bootstrap_servers) as wire:
        (answer,) = ask(wire, wanted("visits", -1, -1))
        assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 4, 1)
        (old,) = ask(wire, wanted("old", -1, -1), version=4)
        assert old.error_code == 0
        assert len(metadata(wire, "old")[0].partitions) == 4


def test_validate_only_says_what_would_be_and_makes_nothing(wire):
    create(wire, wanted("there"))
    there, fine, bad = ask(wire, wanted("there"), wanted("fine", 5), wanted("bad", 1, 9), validate_only=True)
    assert (there.error_code, fine.error_code, bad.error_code) == (36, 0, 38)
    assert (fine.num_partitions, fine.topic_id) == (5, NO_ID)
    assert [topic.name for topic in metadata(wire)] == ["there"]


@pytest.mark.parametrize(
    ("topic", "code", "sentence"),
    [
        (wanted("visits", 0), 37, "0 partitions: give at least 1, or -1 for the broker's default"),
        (wanted("visits", -2), 37, "-2 partitions: give at least 1, or -1 for the broker's default"),
        (wanted("visits", 1, 0), 38, "replication factor 0: give 1, or -1 for the default"),
        (wanted("visits", 1, 3), 38, "replication factor 3: there is 1 broker, so it can be at most 1"),
        (wanted("visits", 10_001), 44, "the request asks for 10001 partitions, 10000 at once are allowed; send several"),
        (wanted("a b"), 17, "topic name 'a b': a topic's name holds only letters, digits, '.', '_' and '-'"),
        (wanted(""), 17, "topic name '': a topic's name cannot be empty"),
        (wanted("x" * 250), 17, None),
        (wanted("__cluster_metadata"), 42, None),
        (wanted("visits", retention_ms="soon"), 40, None),
        (wanted("visits", retention_ms=None), 40, "retention.ms: null is no value; give one, or leave the setting out"),
        (wanted("visits", retension_ms="5"), 40, "'retension.ms' is no topic property: did you mean retention.ms?"),
        (assigned("visits", (0, [7])), 39, "partition 0 is assigned to broker 7, which does not exist: there is only 0"),
        (assigned("visits", (0, [])), 39, "partition 0 is assigned to no broker"),
        (assigned("visits", (0, [0, 0])), 39, "partition 0 is assigned to [0, 0]: a broker has at most one replica of it"),
        (assigned("visits", (1, [0])), 39, "partitions [1] are assigned; they must be 0 to 0, each once"),
        (assigned("visits", (0, [0]), (0, [0])), 39, "partitions [0, 0] are assigned; they must be 0 to 1, each once"),
        (assigned("visits", (0, [0]), partitions=1), 42, None),
        (assigned("visits", (0, [0]), factor=1), 42, None),
    ],
)
def test_topic_that_cannot_be_is_refused_with_a_sentence(wire, topic, code, sentence):
    (answer,) = ask(wire, topic)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor, answer.topic_id) == (code, -1, -1, NO_ID)
    assert answer.configs == []
    if sentence is not None:
        assert answer.error_message == sentence
    assert metadata(wire) == []


def test_partitions_assigned_by_hand_to_this_broker_are_fine(wire):
    (answer,) = ask(wire, assigned("visits", (1, [0]), (0, [0])))
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 2, 1)


def test_name_that_comes_twice_is_answered_once_and_not_created(wire):
    answers = ask(wire, wanted("twice", 1), wanted("once"), wanted("twice", 2))
    assert [(answer.name, answer.error_code) for answer in answers] == [("twice", 42), ("once", 0)]
    assert [topic.name for topic in metadata(wire)] == ["once"]


def test_topic_that_exists_is_left_as_it_is(wire):
    (before,) = create(wire, wanted("visits", 2))
    (answer,) = ask(wire, wanted("visits", 5))
    assert (answer.error_code, answer.error_message) == (36, "topic visits already exists")
    assert [(topic.topic_id, len(topic.partitions)) for topic in metadata(wire, "visits")] == [(before, 2)]


def test_names_that_differ_in_dots_and_underscores_collide(wire):
    create(wire, wanted("page.visits"))
    (answer,) = ask(wire, wanted("page_visits"))
    assert answer.error_code == 17


def test_10_000_partitions_are_counted_over_the_whole_request(wire):
    answers = ask(wire, wanted("a", 6000), wanted("b", 6000), validate_only=True)
    assert [answer.error_code for answer in answers] == [44, 44]


def test_topic_with_its_settings_and_id_survives_a_restart(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        (topic_id,) = create(wire, wanted("visits", 3, retention_ms="7000", cleanup_policy="compact,delete"))
        produce(wire, "visits", [b"a"], 2)
    brokers.stop(broker)
    with Wire(brokers.start().bootstrap_servers) as wire:
        (topic,) = metadata(wire, "visits")
        assert (topic.topic_id, len(topic.partitions)) == (topic_id, 3)
        assert produce(wire, "visits", [b"b"], 2) == 1


def test_topic_id_is_a_uuid_of_version_4(wire):
    (topic_id,) = create(wire, wanted("visits"))
    assert (topic_id[6] >> 4, topic_id[8] >> 6) == (4, 2)
    assert not base64.urlsafe_b64encode(topic_id).startswith(b"-")


# DeleteTopics.


def delete(wire: Wire, *topics: str | bytes, version: int = 6):
    if version < 6:
        return wire.ask(DeleteTopicsRequest(topic_names=list(topics), timeout_ms=60_000), version).responses
    named = [
        DeleteTopicsRequest.Topic(topic_id=topic) if isinstance(topic, bytes) else DeleteTopicsRequest.Topic(name=topic)
        for topic in topics
    ]
    return wire.ask(DeleteTopicsRequest(topics=named, timeout_ms=60_000), version).responses


@pytest.mark.parametrize("version", range(1, 7))
def test_topic_is_gone_when_the_answer_is_there(wire, version):
    create(wire, wanted("visits"), wanted("other"))
    answers = delete(wire, "visits", "nope", version=version)
    assert [(answer.name, answer.error_code) for answer in answers] == [("visits", 0), ("nope", 3)]
    assert [topic.name for topic in metadata(wire)] == ["other"]


def test_topic_is_deleted_by_its_id(wire):
    (topic_id,) = create(wire, wanted("visits"))
    found, missing = delete(wire, topic_id, b"x" * 16)
    assert (found.name, found.topic_id, found.error_code) == ("visits", topic_id, 0)
    assert (missing.name, missing.topic_id, missing.error_code) == (None, b"x" * 16, 100)


def test_name_and_id_together_or_neither_are_refused(wire):
    (topic_id,) = create(wire, wanted("visits"))
    topics = [DeleteTopicsRequest.Topic(name="visits", topic_id=topic_id), DeleteTopicsRequest.Topic()]
    answers = wire.ask(DeleteTopicsRequest(topics=topics, timeout_ms=60_000), 6).responses
    assert [answer.error_code for answer in answers] == [42, 42]
    assert [topic.name for topic in metadata(wire)] == ["visits"]


@pytest.mark.parametrize("by_id", [False, True])
def test_topic_that_is_named_twice_stays(wire, by_id):
    (topic_id,) = create(wire, wanted("visits"))
    answers = delete(wire, "visits", topic_id if by_id else "visits")
    assert [answer.error_code for answer in answers] == [42]
    assert [topic.name for topic in metadata(wire)] == ["visits"]


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73), (6, 73)])
def test_topics_stay_where_deleting_is_disabled(brokers, version, code):
    with Wire(brokers.start({"delete.topic.enable": "false"}).bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        assert [answer.error_code for answer in delete(wire, "visits", version=version)] == [code]


def test_topic_that_is_created_again_is_another_one(wire):
    (before,) = create(wire, wanted("visits"))
    produce(wire, "visits", [b"a", b"b"])
    delete(wire, "visits")
    (after,) = create(wire, wanted("visits"))
    assert after != before
    assert produce(wire, "visits", [b"c"]) == 0
    assert [answer.error_code for answer in delete(wire, before)] == [100]


# CreatePartitions.


def grow(
    wire: Wire, name: str, count: int, assignments: list[list[int]] | None = None, version: int = 3, validate_only: bool = False
):
    topic = CreatePartitionsRequest.Topic
    lists = None if assignments is None else [topic.Assignment(broker_ids=brokers) for brokers in assignments]
    request = CreatePartitionsRequest(
        topics=[topic(name=name, count=count, assignments=lists)], timeout_ms=60_000, validate_only=validate_only
    )
    (result,) = wire.ask(request, version).results
    return result


@pytest.mark.parametrize("version", range(4))
def test_new_partitions_can_be_written_to_at_once(wire, version):
    create(wire, wanted("visits", 2))
    result = grow(wire, "visits", 4, version=version)
    assert (result.name, result.error_code, result.error_message) == ("visits", 0, None)
    assert produce(wire, "visits", [b"a"], 3) == 0


@pytest.mark.parametrize(
    ("count", "assignments", "code", "sentence"),
    [
        (2, None, 37, "topic visits has 2 partitions; 2 would not be more"),
        (1, None, 37, "topic visits has 2 partitions; 1 would not be more"),
        (-1, None, 37, "topic visits has 2 partitions; -1 would not be more"),
        (20_000, None, 44, "the request asks for 19998 partitions, 10000 at once are allowed; send several"),
        (4, [[0]], 39, "2 partitions to be added and 1 assigned by hand: give each a list"),
        (3, [[9]], 39, "partition 2 is assigned to broker 9, which does not exist: there is only 0"),
        (3, [[]], 39, "partition 2 is assigned to no broker"),
    ],
)
def test_growth_that_cannot_be_is_refused_with_a_sentence(wire, count, assignments, code, sentence):
    create(wire, wanted("visits", 2))
    result = grow(wire, "visits", count, assignments)
    assert (result.error_code, result.error_message) == (code, sentence)
    assert len(metadata(wire, "visits")[0].partitions) == 2


def test_sentence_about_one_partition_counts_it_as_one(wire):
    create(wire, wanted("visits"))
    assert grow(wire, "visits", 1).error_message == "topic visits has 1 partition; 1 would not be more"
    assert grow(wire, "visits", 2, [[0], [0]]).error_message == "1 partition to be added and 2 assigned by hand: give each a list"


def test_growth_by_hand_and_growth_that_is_only_checked(wire):
    create(wire, wanted("visits", 2))
    assert grow(wire, "visits", 9, validate_only=True).error_code == 0
    assert grow(wire, "visits", 3, [[0]]).error_code == 0
    assert len(metadata(wire, "visits")[0].partitions) == 3


def test_missing_topic_does_not_grow_and_one_that_comes_twice_neither(wire):
    create(wire, wanted("visits", 2))
    assert grow(wire, "nope", 3).error_code == 3
    topics = [CreatePartitionsRequest.Topic(name="visits", count=count, assignments=None) for count in (3, 4)]
    results = wire.ask(CreatePartitionsRequest(topics=topics, timeout_ms=60_000), 3).results
    assert [(result.name, result.error_code) for result in results] == [("visits", 42)]


# A disk that is full.


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_nothing_is_created_or_changed_that_cannot_be_remembered(wire, monkeypatch):
    create(wire, wanted("visits"))
    with monkeypatch.context() as disk:
        disk.setattr("milepost.cluster.change_log.ChangeLog.append", full)
        (answer,) = ask(wire, wanted("more"))
        assert answer.error_code == 56
        assert answer.error_message.endswith("cannot be written ([Errno 28] No space left on device); nothing has been changed")
        assert grow(wire, "visits", 3).error_code == 56
        assert [answer.error_code for answer in delete(wire, "visits")] == [56]
    assert [(topic.name, len(topic.partitions)) for topic in metadata(wire)] == [("visits", 1)]
    create(wire, wanted("more"))

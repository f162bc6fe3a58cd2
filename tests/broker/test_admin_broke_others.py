"""Behaviours of clients that broke other Kafka-compatible brokers: those that have to do with topics, settings and limits."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from milepost.protocol.messages import (
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.topics import create, metadata, produce, wanted
from tests.broker.wire import Wire

SECONDS = 60


def ask_for(wire: Wire, name: str, version: int, may_create: bool = True) -> int:
    """The error code of a topic in the metadata."""
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=may_create)
    return wire.ask(request, version).topics[0].error_code


# Topics that come by themselves (38).


@pytest.mark.parametrize("version", range(14))
def test_topic_comes_into_being_when_a_client_asks_for_it(wire, version):
    assert ask_for(wire, "visits", version) == 0
    assert [topic.name for topic in metadata(wire)] == ["visits"]


@pytest.mark.parametrize("version", range(4, 14))
def test_topic_does_not_when_the_client_says_so(wire, version):
    assert ask_for(wire, "visits", version, may_create=False) == 3
    assert metadata(wire) == []


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_topic_does_not_when_the_broker_says_so(brokers, version):
    with Wire(brokers.start({"auto.create.topics.enable": "false"}).bootstrap_servers) as wire:
        assert ask_for(wire, "visits", version) == 3
        assert metadata(wire) == []


def test_producer_writes_to_a_topic_that_was_not_there(brokers):
    broker = brokers.start({"num.partitions": "3"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("visits", b"first")
    assert producer.flush(SECONDS) == 0
    with Wire(broker.bootstrap_servers) as wire:
        assert [len(topic.partitions) for topic in metadata(wire, "visits")] == [3]


# Settings and partitions (39, 40, 42).


def test_description_of_a_new_topic_has_entries(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("visits", 1, 1)])["visits"].result(SECONDS)
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "visits")]).values()
    assert {"cleanup.policy", "max.message.bytes", "retention.ms"} <= set(future.result(SECONDS))


def test_description_answers_every_resource_in_its_place(wire):
    create(wire, wanted("visits"))
    resource = DescribeConfigsRequest.Resource
    asked = [(2, "visits"), (2, "nope"), (4, "0"), (2, "visits")]
    resources = [resource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in asked]
    results = wire.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(result.resource_type, result.resource_name, result.error_code) for result in results] == [
        (2, "visits", 0),
        (2, "nope", 3),
        (4, "0", 0),
        (2, "visits", 0),
    ]


def test_growth_of_several_topics_has_a_result_for_each(wire):
    create(wire, wanted("a"), wanted("b"))
    topic = CreatePartitionsRequest.Topic
    topics = [topic(name=name, count=2, assignments=None) for name in ("a", "nope", "b")]
    results = wire.ask(CreatePartitionsRequest(topics=topics, timeout_ms=60_000), 3).results
    assert [(result.name, result.error_code) for result in results] == [("a", 0), ("nope", 3), ("b", 0)]


def test_producer_finds_partitions_that_were_added(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("visits", 1, 1)])["visits"].result(SECONDS)
    admin.create_partitions([NewPartitions("visits", 3)])["visits"].result(SECONDS)
    delivered = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(
        "visits", b"v", partition=2, on_delivery=lambda error, message: delivered.append((error, message.partition()))
    )
    assert producer.flush(SECONDS) == 0
    assert delivered == [(None, 2)]


def test_append_and_subtract_leave_the_broker_as_it_was_when_they_fail(wire):
    create(wire, wanted("visits"))
    resource = IncrementalAlterConfigsRequest.Resource
    for operation in (2, 3, 4, -1, 127):
        for name in ("cleanup.policy", "retention.ms", "no.such", ""):
            for value in ("delete", "", ",", None):
                config = resource.Config(name=name, config_operation=operation, value=value)
                asked = [resource(resource_type=2, resource_name="visits", configs=[config])]
                (response,) = wire.ask(IncrementalAlterConfigsRequest(resources=asked), 1).responses
                assert response.error_code in (0, 40, 42)
    assert produce(wire, "visits", [b"still there"]) == 0


# Limits (41, 44).


def append(wire: Wire, topic: str, records: list[Record]) -> int:
    data = ProduceRequest.TopicData
    batch = build_batch(records, base_offset=0)
    part = data.PartitionData(index=0, records=memoryview(batch))
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data(name=topic, partition_data=[part])])
    return wire.ask(request, 9).responses[0].partition_responses[0].error_code


def test_batch_over_the_topics_limit_is_refused_and_one_at_the_limit_is_not(wire):
    record = Record(0, 1000, b"k", b"v" * 1000)
    size = len(build_batch([record], base_offset=0))
    create(wire, wanted("fits", max_message_bytes=str(size)), wanted("over", max_message_bytes=str(size - 1)))
    assert (append(wire, "fits", [record]), append(wire, "over", [record])) == (0, 10)


def test_record_without_a_key_is_refused_by_a_compacted_topic(wire):
    create(wire, wanted("state", cleanup_policy="compact"), wanted("log"))
    keyless = [Record(0, 1000, None, b"v")]
    assert (append(wire, "state", keyless), append(wire, "log", keyless)) == (87, 0)


def test_limit_of_a_partition_above_the_limit_of_the_answer(broker, wire):
    """`max.partition.fetch.bytes` above `fetch.max.bytes`: the smaller one counts, and at least one batch comes."""
    create(wire, wanted("visits", 3))
    for partition in range(3):
        produce(wire, "visits", [b"v" * 2000], partition)
    topic = FetchRequest.Topic
    partitions = [topic.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 30) for number in range(3)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[topic(topic="visits", partitions=partitions)])
    (answer,) = wire.ask(request, 11).responses
    assert [len(part.records) > 2000 for part in answer.partitions] == [True, False, False]
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "fetch.max.bytes": 2000,
            "message.max.bytes": 2000,
            "max.partition.fetch.bytes": 1 << 20,
        }
    )
    try:
        consumer.subscribe(["visits"])
        deadline, found = time.monotonic() + SECONDS, []
        while len(found) < 3 and time.monotonic() < deadline:
            found += [message.partition() for message in consumer.consume(10, 0.5) if message.error() is None]
        assert sorted(found) == [0, 1, 2]
    finally:
        consumer.close()


# A topic that was deleted and created again (47).


def test_clients_with_the_old_id_of_a_topic_are_told_and_find_the_new_one(wire):
    (before,) = create(wire, wanted("visits"))
    produce(wire, "visits", [b"old"])
    wire.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="visits")], timeout_ms=60_000), 6)
    (after,) = create(wire, wanted("visits"))
    assert wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=before)]), 12).topics[0].error_code == 100
    (found,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=None, topic_id=after)]), 12).topics
    assert (found.name, found.error_code) == ("visits", 0)
    data = ProduceRequest.TopicData
    batch = memoryview(build_batch([Record(0, 1000, b"k", b"v")], base_offset=0))
    produced = [
        data(topic_id=topic_id, partition_data=[data.PartitionData(index=0, records=batch)]) for topic_id in (before, after)
    ]
    responses = wire.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=produced), 13).responses
    assert [(part.error_code, part.base_offset) for each in responses for part in each.partition_responses] == [(100, -1), (0, 0)]
    asked = FetchRequest.Topic
    part = asked.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [asked(topic_id=topic_id, partitions=[part]) for topic_id in (before, after)]
    fetched = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics), 13).responses
    assert [(each.topic_id, each.partitions[0].error_code) for each in fetched] == [(before, 100), (after, 0)]


def test_consumer_goes_on_with_a_topic_that_was_created_again(brokers):
    # Or the producer, which asks for its topics all the time, has it created before we do.
    broker = brokers.start({"auto.create.topics.enable": "false"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "topic.metadata.refresh.interval.ms": 200})
    settings = {"auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 200, "group.id": "g"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    try:
        consumer.subscribe(["visits"])
        for value in (b"first", b"second"):
            recreate(admin)
            assert read_until(consumer, producer, value)
    finally:
        consumer.close()


def recreate(admin: AdminClient) -> None:
    try:
        admin.delete_topics(["visits"])["visits"].result(SECONDS)
    except KafkaException as error:
        assert error.args[0].name() == "UNKNOWN_TOPIC_OR_PART"
    admin.create_topics([NewTopic("visits", 1, 1)])["visits"].result(SECONDS)


def read_until(consumer: Consumer, producer: Producer, value: bytes) -> bool:
    """Whether the consumer reads the value; it is written again and again, as clients need a while to notice a new topic."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        producer.produce("visits", value)
        producer.flush(1)
        if value in [message.value() for message in consumer.consume(10, 0.3) if message.error() is None]:
            return True
    return False


# Names that stay valid (50).


def test_topic_of_another_tool_stays_what_it_is_through_restarts_and_changes(brokers):
    names = ("connect-configs", "_schemas", "__transaction_state-copy", "app.store-changelog")
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        ids = create(wire, *(wanted(name, cleanup_policy="compact") for name in names))
    for _ in range(2):
        brokers.stop(broker)
        broker = brokers.start()
        with Wire(broker.bootstrap_servers) as wire:
            found = metadata(wire, *names)
            assert [(topic.error_code, topic.topic_id, topic.is_internal) for topic in found] == [
                (0, each, False) for each in ids
            ]
            for name in names:
                produce(wire, name, [b"v"])

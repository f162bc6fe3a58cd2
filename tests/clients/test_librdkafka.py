"""librdkafka, through confluent-kafka: what its users do, with the settings they would use."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    libversion,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from milepost.codec.compression import Codec
from tests.clients import situations
from tests.clients.client import Client
from tests.clients.served import Served
from tests.clients.situations import CODECS, covers
from tests.waiting import PROCESS_PATIENCE, until

LACKS: dict[str, str] = {}
CLIENTS = [Client("librdkafka", "C, through confluent-kafka in Python", lambda: libversion()[0])]
SECONDS = PROCESS_PATIENCE


def create(served: Served, partitions: int = 1, **configs: str) -> str:
    topic = served.name()
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): value for name, value in configs.items()})
    admin.create_topics([new])[topic].result(SECONDS)
    return topic


def producer_of(served: Served, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": served.bootstrap, "linger.ms": 5, **dotted(settings)})


def consumer_of(served: Served, group: str, **settings: Any) -> Consumer:
    given = {
        "bootstrap.servers": served.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 60_000,
        "heartbeat.interval.ms": 200,
        "fetch.wait.max.ms": 50,
    }
    return Consumer({**given, **dotted(settings)})


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def fill(served: Served, topic: str, values: list[str], **settings: Any) -> None:
    producer = producer_of(served, **settings)
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(SECONDS) == 0


def take(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 0.1):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def read(served: Served, topic: str, count: int, **settings: Any) -> list[Message]:
    with closing(consumer_of(served, "reader", check_crcs=True, **settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return take(consumer, count)


def has(consumer: Consumer, partitions: int) -> bool:
    return consumer.poll(0.05) is None and len(consumer.assignment()) == partitions


def share_and_take_over(topic: str, first: Consumer, second: Consumer) -> None:
    with closing(first):
        with closing(second):
            first.subscribe([topic])
            until(lambda: has(first, 4), "the first member has all four partitions", SECONDS)
            second.subscribe([topic])
            until(lambda: [has(first, 2), has(second, 2)] == [True, True], "the members share two and two", SECONDS)
        until(lambda: has(first, 4), "the partitions of the member that left are taken over", SECONDS)


@covers("codec {codec}")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(served, codec):
    topic = create(served)
    values = [f"{number} {'page visit ' * 20}" for number in range(200)]
    fill(served, topic, values, compression_type=codec)
    assert [message.value().decode() for message in read(served, topic, 200)] == values
    assert served.codecs(topic) == {CODECS[codec]}


def test_the_topics_own_codec_wins_over_the_producers(served):
    topic = create(served, compression_type="zstd")
    fill(served, topic, ["a" * 500] * 20, compression_type="gzip")
    assert [message.value() for message in read(served, topic, 20)] == [b"a" * 500] * 20
    assert served.codecs(topic) == {Codec.ZSTD}


@covers(situations.HEADERS, situations.TIMESTAMPS)
def test_keys_headers_nulls_and_timestamps_come_back(served):
    topic = create(served)
    producer = producer_of(served)
    headers = [("trace", b"\x00\xff"), ("trace", None), ("empty", b"")]
    producer.produce(topic, "value", "key", partition=0, timestamp=1_500_000_000_123, headers=headers)
    producer.produce(topic, None, None, partition=0, timestamp=1_500_000_000_124)
    producer.produce(topic, b"", b"", partition=0, timestamp=1_500_000_000_125)
    assert producer.flush(SECONDS) == 0
    first, null, empty = read(served, topic, 3)
    assert (first.key(), first.value(), first.headers()) == (b"key", b"value", headers)
    assert (null.key(), null.value(), null.headers()) == (None, None, None)
    assert (empty.key(), empty.value()) == (b"", b"")
    stamps = [message.timestamp() for message in (first, null, empty)]
    assert stamps == [(TIMESTAMP_CREATE_TIME, 1_500_000_000_123 + delta) for delta in range(3)]


@covers(situations.LARGE, situations.TOO_LARGE)
def test_a_message_near_the_limit_passes_and_one_above_is_refused(served):
    topic = create(served)
    fill(served, topic, ["x" * 900_000])
    assert [len(message.value()) for message in read(served, topic, 1)] == [900_000]
    errors: list[KafkaError] = []
    producer = producer_of(served, message_max_bytes=3_000_000)
    producer.produce(topic, "x" * 2_000_000, partition=0, on_delivery=lambda error, message: errors.append(error))
    producer.flush(SECONDS)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


@covers(situations.OFFSETS_BY_TIME)
def test_offsets_are_found_by_time(served):
    topic = create(served)
    producer = producer_of(served)
    for number in range(10):
        producer.produce(topic, str(number), partition=0, timestamp=1_600_000_000_000 + 1000 * number)
    assert producer.flush(SECONDS) == 0
    with closing(consumer_of(served, "by-time")) as consumer:
        asked = [1_600_000_000_000, 1_600_000_003_500, 1_600_000_009_001]
        found = [consumer.offsets_for_times([TopicPartition(topic, 0, at)], timeout=SECONDS)[0].offset for at in asked]
        assert found == [0, 4, -1]
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS) == (0, 10)


@covers(situations.CLASSIC_GROUP)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_members_share_and_the_one_left_takes_over(served, strategy):
    topic = create(served, partitions=4)
    group = served.name("group")
    settings = {"partition_assignment_strategy": strategy}
    share_and_take_over(topic, consumer_of(served, group, **settings), consumer_of(served, group, **settings))


@covers(situations.CONSUMER_PROTOCOL)
def test_the_consumer_protocol_shares_partitions_too(served):
    topic = create(served, partitions=4)
    group = served.name("group")
    common = {
        "bootstrap.servers": served.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    share_and_take_over(topic, Consumer(common), Consumer(common))


@covers(situations.RESUME)
def test_a_new_consumer_goes_on_where_the_group_committed(served):
    topic = create(served)
    group = served.name("group")
    fill(served, topic, [str(number) for number in range(10)])
    with closing(consumer_of(served, group)) as first:
        first.subscribe([topic])
        assert [message.value() for message in take(first, 4)] == [b"0", b"1", b"2", b"3"]
        first.commit(offsets=[TopicPartition(topic, 0, 4, "half way")], asynchronous=False)
    with closing(consumer_of(served, group)) as second:
        second.subscribe([topic])
        assert [message.value() for message in take(second, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
        committed = second.committed([TopicPartition(topic, 0)], timeout=SECONDS)[0]
        assert (committed.offset, committed.metadata) == (4, "half way")


@covers(situations.IDEMPOTENCE)
def test_an_idempotent_producer_writes_each_record_once_in_order(served):
    topic = create(served)
    values = [str(number) for number in range(5000)]
    fill(served, topic, values, enable_idempotence=True, batch_num_messages=50)
    assert [message.value().decode() for message in read(served, topic, 5000)] == values
    served.assert_idempotent(topic, 5000)


@covers(situations.TRANSACTIONS)
def test_committed_transactions_are_read_and_aborted_ones_are_not(served):
    topic = create(served)
    producer = producer_of(served, transactional_id=served.name("transaction"))
    producer.init_transactions(SECONDS)
    commit, abort = producer.commit_transaction, producer.abort_transaction
    for value, end in [("first", commit), ("lost", abort), ("third", commit)]:
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(SECONDS)
        end(SECONDS)
    assert [message.value() for message in read(served, topic, 2, isolation_level="read_committed")] == [b"first", b"third"]
    everything = read(served, topic, 3, isolation_level="read_uncommitted")
    assert [(message.offset(), message.value()) for message in everything] == [(0, b"first"), (2, b"lost"), (4, b"third")]


def test_an_open_transaction_holds_back_readers_of_committed_records(served):
    topic = create(served)
    producer = producer_of(served, transactional_id=served.name("transaction"))
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "not yet", partition=0)
    producer.flush(SECONDS)
    with closing(consumer_of(served, "held-back", isolation_level="read_committed")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert consumer.consume(1, 0.5) == []
        producer.commit_transaction(SECONDS)
        assert [message.value() for message in take(consumer, 1)] == [b"not yet"]


@covers(situations.OFFSETS_IN_TRANSACTIONS)
def test_offsets_in_a_transaction_follow_its_outcome(served):
    source, target, group = create(served), create(served), served.name("group")
    fill(served, source, ["a", "b", "c", "d"])
    with closing(consumer_of(served, group)) as consumer:
        consumer.subscribe([source])
        assert len(take(consumer, 4)) == 4
        producer = producer_of(served, transactional_id=served.name("transaction"))
        producer.init_transactions(SECONDS)
        committed = []
        for offset, end in [(2, producer.commit_transaction), (4, producer.abort_transaction)]:
            producer.begin_transaction()
            producer.produce(target, f"up to {offset}", partition=0)
            offsets = [TopicPartition(source, 0, offset)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
            end(SECONDS)
            committed.append(consumer.committed([TopicPartition(source, 0)], timeout=SECONDS)[0].offset)
    assert committed == [2, 2]
    assert [message.value() for message in read(served, target, 1, isolation_level="read_committed")] == [b"up to 2"]


@covers(situations.FENCING)
def test_a_second_producer_of_the_same_id_fences_the_first(served):
    topic, name = create(served), served.name("transaction")
    first = producer_of(served, transactional_id=name)
    first.init_transactions(SECONDS)
    first.begin_transaction()
    second = producer_of(served, transactional_id=name)
    second.init_transactions(SECONDS)
    first.produce(topic, "too late", partition=0)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(SECONDS)
    assert raised.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    first.purge()
    first.flush(SECONDS)


@covers(situations.TOPICS)
def test_topics_are_created_grown_configured_and_deleted(served):
    topic = create(served, partitions=2)
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    assert len(admin.list_topics(topic, SECONDS).topics[topic].partitions) == 3
    change = ConfigEntry("retention.ms", "7000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    assert admin.describe_configs([resource])[resource].result(SECONDS)["retention.ms"].value == "7000000"
    admin.delete_topics([topic])[topic].result(SECONDS)
    assert topic not in admin.list_topics(timeout=SECONDS).topics


@covers(situations.DELETE_RECORDS)
def test_records_are_deleted_up_to_an_offset(served):
    topic = create(served)
    fill(served, topic, ["0", "1", "2", "3"])
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    (answer,) = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    assert answer.result(SECONDS).low_watermark == 3
    assert [(message.offset(), message.value()) for message in read(served, topic, 1)] == [(3, b"3")]


@covers(situations.GROUPS, situations.GROUP_OFFSETS, situations.DELETE_GROUPS)
def test_groups_are_listed_described_their_offsets_changed_and_deleted(served):
    topic, group = create(served), served.name("group")
    fill(served, topic, ["a", "b", "c"])
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    with closing(consumer_of(served, group, client_id="reader-1")) as consumer:
        consumer.subscribe([topic])
        assert len(take(consumer, 3)) == 3
        consumer.commit(asynchronous=False)
        listed = {found.group_id: found.state for found in admin.list_consumer_groups().result(SECONDS).valid}
        assert listed[group] == ConsumerGroupState.STABLE
        described = admin.describe_consumer_groups([group])[group].result(SECONDS)
        assert [(member.client_id, member.assignment.topic_partitions) for member in described.members] == [
            ("reader-1", [TopicPartition(topic, 0)])
        ]
    asked = ConsumerGroupTopicPartitions(group)
    assert admin.list_consumer_group_offsets([asked])[group].result(SECONDS).topic_partitions[0].offset == 3
    changed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([changed])[group].result(SECONDS)
    assert admin.list_consumer_group_offsets([asked])[group].result(SECONDS).topic_partitions[0].offset == 1
    admin.delete_consumer_groups([group])[group].result(SECONDS)
    assert group not in {found.group_id for found in admin.list_consumer_groups().result(SECONDS).valid}

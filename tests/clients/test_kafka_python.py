"""kafka-python: what its users do, with the settings they would use."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest

from tests.clients import situations
from tests.clients.client import Client
from tests.clients.served import Served
from tests.clients.situations import CODECS, covers
from tests.waiting import PROCESS_PATIENCE, until

with warnings.catch_warnings():
    # It loads its schemas by a function that importlib.resources deprecates.
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, OffsetSpec, TopicPartition
    from kafka.admin import ConfigResource, TransactionState
    from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
    from kafka.net import KafkaNetSocket

LACKS = {situations.CONSUMER_PROTOCOL: "it has the classic protocol only"}
CLIENTS = [Client("kafka-python", "Python", lambda: version("kafka-python"))]
SECONDS = PROCESS_PATIENCE
# A poll gives records as soon as there are any; kafka-python forgets a join that outlasts the poll it began in.
POLL_MS = 5000
PATIENT = {"bootstrap_timeout_ms": int(1000 * SECONDS)}


@pytest.fixture(scope="module", autouse=True)
def sockets_are_closed() -> Iterator[None]:
    """A client that is closed while one of its connections is being made forgets that socket."""
    made: list[socket.socket] = []
    make = KafkaNetSocket.socket

    def noted(self: KafkaNetSocket, *kind: int) -> socket.socket:
        made.append(make(self, *kind))
        return made[-1]

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(KafkaNetSocket, "socket", noted)
        yield
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def admin(served: Served) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=served.bootstrap, **PATIENT)
    yield client
    client.close()


@pytest.fixture
def producer(served: Served) -> Iterator[Callable[..., KafkaProducer]]:
    opened: list[KafkaProducer] = []

    def make(**settings: Any) -> KafkaProducer:
        opened.append(KafkaProducer(bootstrap_servers=served.bootstrap, **{**PATIENT, **settings}))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def consumer(served: Served) -> Iterator[Callable[..., KafkaConsumer]]:
    opened: list[KafkaConsumer] = []
    common = {
        **PATIENT,
        "bootstrap_servers": served.bootstrap,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 50,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 60_000,
    }

    def make(*topics: str, **settings: Any) -> KafkaConsumer:
        opened.append(KafkaConsumer(*topics, **{**common, **settings}))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def topic(served: Served, admin: KafkaAdminClient) -> str:
    name = served.name()
    admin.create_topics({name: {"num_partitions": 1}})
    return name


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(POLL_MS).values():
            found += records
    return found


def fill(producer: KafkaProducer, topic: str, values: list[bytes]) -> None:
    sent = [producer.send(topic, value, partition=0) for value in values]
    producer.flush()
    assert [future.get(SECONDS).topic for future in sent] == [topic] * len(values)


@covers("codec {codec}")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(served, producer, consumer, topic, codec):
    values = [b"%d %s" % (number, b"page visit " * 20) for number in range(200)]
    fill(producer(compression_type=None if codec == "none" else codec, linger_ms=5), topic, values)
    assert [record.value for record in take(consumer(topic), 200)] == values
    assert served.codecs(topic) == {CODECS[codec]}


@covers(situations.HEADERS, situations.TIMESTAMPS)
def test_keys_headers_nulls_and_timestamps_come_back(producer, consumer, topic):
    client = producer()
    headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b"")]
    client.send(topic, b"value", b"key", headers, 0, 1_500_000_000_123)
    client.send(topic, None, b"only a key", partition=0, timestamp_ms=1_500_000_000_124)
    client.flush()
    first, null = take(consumer(topic), 2)
    assert (first.key, first.value, list(first.headers), first.timestamp) == (b"key", b"value", headers, 1_500_000_000_123)
    assert (null.key, null.value, null.timestamp, null.timestamp_type) == (b"only a key", None, 1_500_000_000_124, 0)


@covers(situations.LARGE, situations.TOO_LARGE)
def test_a_message_near_the_limit_passes_and_one_above_is_refused(producer, consumer, topic):
    client = producer(max_request_size=3_000_000, batch_size=1)
    assert client.send(topic, b"x" * 900_000, partition=0).get(SECONDS).offset == 0
    with pytest.raises(MessageSizeTooLargeError):
        client.send(topic, b"x" * 2_000_000, partition=0).get(SECONDS)
    assert [len(record.value) for record in take(consumer(topic), 1)] == [900_000]


@covers(situations.OFFSETS_BY_TIME)
def test_offsets_are_found_by_time(producer, consumer, admin, topic):
    client = producer()
    for number in range(10):
        client.send(topic, b"visit", partition=0, timestamp_ms=1_600_000_000_000 + 1000 * number)
    client.flush()
    partition = TopicPartition(topic, 0)
    reader = consumer()
    found = reader.offsets_for_times({partition: 1_600_000_003_500})[partition]
    assert (found.offset, found.timestamp) == (4, 1_600_000_004_000)
    assert reader.offsets_for_times({partition: 1_600_000_009_001}) == {partition: None}
    assert (reader.beginning_offsets([partition]), reader.end_offsets([partition])) == ({partition: 0}, {partition: 10})
    latest = admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
    assert (latest.offset, latest.timestamp) == (9, 1_600_000_009_000)


class Member(threading.Thread):
    """A member of a group on a thread of its own, as in use: a poll must last until the others have joined too."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        super().__init__()
        self.consumer = consumer
        self.leaving = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.leaving.is_set():
            self.consumer.poll(1000)
        self.consumer.close()

    @property
    def assigned(self) -> int:
        return len(self.consumer.assignment())

    def leave(self) -> None:
        self.leaving.set()
        self.join(SECONDS)


@covers(situations.CLASSIC_GROUP)
def test_two_members_share_and_the_one_left_takes_over(served, admin, consumer):
    topic, group = served.name(), served.name("group")
    admin.create_topics({topic: {"num_partitions": 4}})
    members = [Member(consumer(topic, group_id=group))]

    def until_they_have(*counts: int) -> None:
        until(lambda: tuple(member.assigned for member in members) == counts, f"the members have {counts}", SECONDS)

    try:
        until_they_have(4)
        members.append(Member(consumer(topic, group_id=group)))
        until_they_have(2, 2)
        members.pop().leave()
        until_they_have(4)
    finally:
        for member in members:
            member.leave()


@covers(situations.RESUME)
def test_a_new_consumer_goes_on_where_the_group_committed(served, producer, consumer, topic):
    group, partition = served.name("group"), TopicPartition(topic, 0)
    fill(producer(), topic, [b"%d" % number for number in range(10)])
    first = consumer(topic, group_id=group, max_poll_records=4)
    assert [record.value for record in take(first, 4)] == [b"0", b"1", b"2", b"3"]
    first.commit({partition: OffsetAndMetadata(4, "half way", -1)})
    first.close()
    second = consumer(topic, group_id=group)
    assert [record.value for record in take(second, 6)] == [b"4", b"5", b"6", b"7", b"8", b"9"]
    assert second.committed(partition, metadata=True) == OffsetAndMetadata(4, "half way", -1)


@covers(situations.IDEMPOTENCE)
def test_an_idempotent_producer_writes_each_record_once_in_order(producer, consumer, admin, topic):
    values = [b"%d" % number for number in range(1000)]
    fill(producer(enable_idempotence=True, batch_size=500), topic, values)
    assert [record.value for record in take(consumer(topic), 1000)] == values
    (state,) = admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].active_producers
    assert (state.producer_epoch, state.last_sequence) == (0, 999)


@covers(situations.TRANSACTIONS)
def test_committed_transactions_are_read_and_aborted_ones_are_not(served, producer, consumer, topic):
    client = producer(transactional_id=served.name("transaction"))
    client.init_transactions()
    for value, end in [
        (b"first", client.commit_transaction),
        (b"lost", client.abort_transaction),
        (b"third", client.commit_transaction),
    ]:
        client.begin_transaction()
        client.send(topic, value, partition=0).get(SECONDS)
        end()
    assert [record.value for record in take(consumer(topic, isolation_level="read_committed"), 2)] == [b"first", b"third"]
    assert [(record.offset, record.value) for record in take(consumer(topic), 3)] == [(0, b"first"), (2, b"lost"), (4, b"third")]


@covers(situations.OFFSETS_IN_TRANSACTIONS)
def test_offsets_in_a_transaction_follow_its_outcome(served, producer, consumer, topic):
    group, partition = served.name("group"), TopicPartition(topic, 0)
    fill(producer(), topic, [b"a", b"b", b"c", b"d"])
    reader = consumer(topic, group_id=group)
    assert len(take(reader, 4)) == 4
    client = producer(transactional_id=served.name("transaction"))
    client.init_transactions()
    for offset, end in [(2, client.commit_transaction), (4, client.abort_transaction)]:
        client.begin_transaction()
        client.send_offsets_to_transaction({partition: OffsetAndMetadata(offset, "", -1)}, reader.group_metadata())
        end()
        # The answer comes before the marker: the group's coordinator may be another broker, and hear of the outcome later.
        until(lambda: reader.committed(partition) == 2, "the offset of the first transaction is the group's", SECONDS, 0.05)


@covers(situations.FENCING)
def test_a_second_producer_of_the_same_id_fences_the_first(served, producer, topic):
    name = served.name("transaction")
    first, second = producer(transactional_id=name), producer(transactional_id=name)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"in time", partition=0).get(SECONDS)
    second.init_transactions()
    with pytest.raises(KafkaError) as raised:
        first.send(topic, b"too late", partition=0).get(SECONDS)
        first.commit_transaction()
    assert raised.type.__name__ in ("ProducerFencedError", "InvalidProducerEpochError")


def test_an_open_transaction_is_listed_and_described(served, admin, producer, topic):
    name = served.name("transaction")
    client = producer(transactional_id=name)
    client.init_transactions()
    client.begin_transaction()
    client.send(topic, b"open", partition=0).get(SECONDS)
    listed = {found.transactional_id: found.state for states in admin.list_transactions().values() for found in states}
    assert listed[name] == TransactionState.ONGOING
    assert admin.describe_transactions([name])[name].topic_partitions == {TopicPartition(topic, 0)}
    (state,) = admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].active_producers
    assert state.current_transaction_start_offset == 0
    client.abort_transaction()


@covers(situations.TOPICS)
def test_topics_are_created_grown_configured_and_deleted(served, admin):
    topic = served.name()
    admin.create_topics({topic: {"num_partitions": 2, "configs": {"retention.ms": "7000000"}}})
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({topic: {}})
    admin.create_partitions({topic: 3})
    (described,) = admin.describe_topics([topic])
    assert [found["partition_index"] for found in described["partitions"]] == [0, 1, 2]
    assert {found["leader_id"] for found in described["partitions"]} <= served.node_ids
    assert len(admin.describe_topic_partitions([topic])["topics"][0]["partitions"]) == 3
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "8000000", "segment.bytes": "100000"})])
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": ("DELETE", None)})])
    configs = admin.describe_configs([ConfigResource("TOPIC", topic)])["topic"][topic]
    assert {name: entry["value"] for name, entry in configs.items()} == {"segment.bytes": "100000"}
    described = admin.describe_log_dirs([topic])
    assert {broker["log_dirs"][0]["log_dir"] for broker in described} == served.directories
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


@covers(situations.DELETE_RECORDS)
def test_records_are_deleted_up_to_an_offset(admin, producer, consumer, topic):
    fill(producer(), topic, [b"0", b"1", b"2", b"3"])
    assert admin.delete_records({TopicPartition(topic, 0): 3})[TopicPartition(topic, 0)]["low_watermark"] == 3
    assert [(record.offset, record.value) for record in take(consumer(topic), 1)] == [(3, b"3")]


@covers(situations.GROUPS, situations.GROUP_OFFSETS, situations.DELETE_GROUPS)
def test_groups_are_listed_described_their_offsets_changed_and_deleted(served, admin, producer, consumer, topic):
    group, partition = served.name("group"), TopicPartition(topic, 0)
    fill(producer(), topic, [b"a", b"b", b"c"])
    reader = consumer(topic, group_id=group, client_id="reader-1")
    assert len(take(reader, 3)) == 3
    reader.commit()
    assert {found["group_id"]: found["group_state"] for found in admin.list_groups()}[group] == "Stable"
    (member,) = admin.describe_groups([group])[group]["members"]
    assert member["client_id"] == "reader-1"
    assert member["member_assignment"]["assigned_partitions"] == [{"topic": topic, "partitions": [0]}]
    reader.close()
    assert admin.list_group_offsets([group])[group][partition].offset == 3
    admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, "", -1)})
    assert admin.list_group_offsets([group])[group][partition].offset == 1
    assert admin.delete_group_offsets(group, [partition])[partition].errno == 0
    assert admin.delete_groups([group]) == {group: "OK"}
    assert group not in {found["group_id"] for found in admin.list_groups()}

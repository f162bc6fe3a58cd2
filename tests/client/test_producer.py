"""The producer: where records go, what is sent again after a lost answer, and what an error means for the rest."""

from __future__ import annotations

import random

import pytest

from milepost.client.consumer import Consumer
from milepost.client.producer import Delivery, Producer
from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.errors import InvalidArgument, RequestFailed
from milepost.protocol.messages import InitProducerIdResponse, ProduceResponse
from milepost.record.batch import RecordBatch
from milepost.topic_partition import TopicPartition
from tests.client.fake_broker import CLOSE, FakeBroker, fake_brokers, metadata
from tests.client.topics import make_topic
from tests.waiting import PATIENCE


def read_all(cluster, topic: str, partitions: int, count: int):
    positions = {TopicPartition(topic, number): 0 for number in range(partitions)}
    found = {partition: [] for partition in positions}
    with Consumer(cluster, positions) as consumer:
        while sum(map(len, found.values())) < count:
            for partition, records in consumer.poll(PATIENCE).items():
                found[partition] += records
    return {partition.partition: records for partition, records in found.items()}


# Against a real broker.


def test_keyed_records_go_where_javas_producer_sends_them(broker, cluster):
    make_topic(cluster, "keyed", 5)
    with Producer(cluster) as producer:
        # From Kafka's own tests of murmur2: "21" is -973932308, "foobar" -790332482, "a-little-bit-long-string" -985981536.
        targets = [producer.send("keyed", b"v", key=key) for key in (b"21", b"foobar", b"a-little-bit-long-string")]
    hashes = (-973932308, -790332482, -985981536)
    assert [target.partition for target in targets] == [(value & 0x7FFFFFFF) % 5 for value in hashes]


@pytest.mark.parametrize("codec", list(Codec))
def test_record_comes_back_as_it_went_whatever_the_codec(broker, cluster, codec):
    topic = f"codec-{codec.name.lower()}"
    make_topic(cluster, topic, 1)
    with Producer(cluster, codec=codec, clock=ManualClock(1700000000000)) as producer:
        producer.send(topic, b"value", key=b"key", headers=(("h", b"1"), ("h", None), ("\udcff", b"")))
        producer.send(topic, None, key=b"", timestamp=5)
    first, second = read_all(cluster, topic, 1, 2)[0]
    assert (first.offset, first.timestamp, first.key, first.value) == (0, 1700000000000, b"key", b"value")
    assert first.headers == (("h", b"1"), ("h", None), ("\udcff", b""))
    assert (second.offset, second.timestamp, second.key, second.value) == (1, 5, b"", None)


def test_full_batches_are_sent_and_order_is_kept_per_partition(broker, cluster):
    make_topic(cluster, "ordered", 3)
    deliveries: list[Delivery] = []
    with Producer(cluster, batch_size=1000, delivered=deliveries.append) as producer:
        for number in range(500):
            producer.send("ordered", b"%05d" % number, key=b"%d" % (number % 7))
    assert sum(delivery.count for delivery in deliveries) == 500
    assert len(deliveries) > 10
    found = read_all(cluster, "ordered", 3, 500)
    for records in found.values():
        per_key: dict[bytes, list[bytes]] = {}
        for record in records:
            per_key.setdefault(record.key, []).append(record.value)
        assert all(values == sorted(values) for values in per_key.values())
    assert [record.offset for record in found[0]] == list(range(len(found[0])))


def test_records_without_a_key_stay_together_for_a_batch_and_then_move_on(broker, cluster):
    make_topic(cluster, "keyless", 3)
    producer = Producer(cluster, rng=random.Random(1))
    rounds = []
    for _ in range(3):
        rounds.append({producer.send("keyless", b"v").partition for _ in range(5)})
        producer.flush()
    assert [len(each) for each in rounds] == [1, 1, 1]
    assert set().union(*rounds) == {0, 1, 2}


def test_topic_that_is_not_there_is_created_when_the_broker_does_that(broker, cluster):
    with Producer(cluster) as producer:
        producer.send("made-by-producing", b"v")
    assert "made-by-producing" in broker.cluster.topics


def test_partition_that_is_not_there_is_refused(broker, cluster):
    make_topic(cluster, "two", 2)
    with pytest.raises(InvalidArgument, match=r"^topic two has partitions 0 to 1, not 2$"):
        Producer(cluster).send("two", b"v", partition=2)


def test_batch_too_large_for_the_topic_is_a_sentence_and_the_end_of_the_producer(broker, cluster):
    make_topic(cluster, "small", 1, {"max.message.bytes": "500"})
    producer = Producer(cluster)
    producer.send("small", b"x" * 1000)
    with pytest.raises(
        RequestFailed, match=r"^small-0, a batch of 1 record and 107\d bytes: the broker answers MESSAGE_TOO_LARGE \(10\)"
    ):
        producer.flush()
    with pytest.raises(InvalidArgument, match="failed before"):
        producer.send("small", b"y")


def test_record_refused_by_a_compacted_topic_is_named(broker, cluster):
    make_topic(cluster, "compacted", 1, {"cleanup.policy": "compact"})
    producer = Producer(cluster)
    producer.send("compacted", b"no key")
    with pytest.raises(RequestFailed, match=r"INVALID_RECORD \(87\).*record 0: "):
        producer.flush()


def test_oldest_and_newest_versions_of_produce(broker, cluster, any_version):
    topic = f"versions-{any_version}"
    make_topic(cluster, topic, 1)
    with Producer(cluster) as producer:
        producer.send(topic, b"v")
    assert [record.value for record in read_all(cluster, topic, 1, 1)[0]] == [b"v"]


# Lost answers.


@pytest.fixture
def two():
    with fake_brokers(2) as brokers:
        for broker in brokers:
            broker.handlers["InitProducerId"] = lambda version, request: InitProducerIdResponse(
                producer_id=4000, producer_epoch=2
            )
        yield brokers


def acknowledge(offset: int = 0, error: int = 0):
    Response = ProduceResponse.Response

    def answer(version: int, request) -> ProduceResponse:
        rows = [
            Response(
                name=topic.name,
                partition_responses=[
                    Response.PartitionResponse(index=part.index, error_code=error, base_offset=-1 if error else offset)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=rows)

    return answer


def sent(broker: FakeBroker) -> list[bytes]:
    return [
        bytes(part.records)
        for name, _, request in broker.asked
        if name == "Produce"
        for topic in request.topic_data
        for part in topic.partition_data
    ]


def test_batch_whose_answer_was_lost_is_sent_again_with_the_same_bytes(two, cluster_of):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [1]})
    answers = iter([lambda version, request: CLOSE, acknowledge(70)])
    two[1].handlers["Produce"] = lambda version, request: next(answers)(version, request)
    deliveries: list[Delivery] = []
    with Producer(cluster_of(two[0]), delivered=deliveries.append) as producer:
        producer.send("t", b"v")
    first, second = sent(two[1])
    assert first == second
    header = RecordBatch(first)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 2, 0)
    assert deliveries == [Delivery(TopicPartition("t", 0), 70, 1)]


def test_batch_follows_its_leader(two, cluster_of):
    leaders = iter([0, 1])
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [next(leaders)]})
    two[0].handlers["Produce"] = acknowledge(error=6)
    two[1].handlers["Produce"] = acknowledge()
    with Producer(cluster_of(two[0])) as producer:
        producer.send("t", b"v")
    assert sent(two[0]) == sent(two[1])


def test_batch_that_the_broker_has_already_counts_as_delivered(two, cluster_of):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    two[0].handlers["Produce"] = acknowledge(error=46)
    deliveries: list[Delivery] = []
    with Producer(cluster_of(two[0]), delivered=deliveries.append) as producer:
        producer.send("t", b"v")
    assert deliveries == [Delivery(TopicPartition("t", 0), -1, 1)]


def test_answer_that_repeats_itself_or_speaks_of_others_counts_once(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    Response = ProduceResponse.Response
    rows = [Response.PartitionResponse(index=index, base_offset=5) for index in (0, 0, 9)]
    two[0].handlers["Produce"] = lambda version, request: ProduceResponse(
        responses=[Response(name="t", partition_responses=rows)]
    )
    deliveries: list[Delivery] = []
    producer = Producer(cluster_of(two[0]), delivered=deliveries.append)
    for _ in range(2):
        producer.send("t", b"v")
        producer.flush()
    assert deliveries == [Delivery(TopicPartition("t", 0), 5, 1)] * 2
    assert [RecordBatch(data).base_sequence for data in sent(two[0])] == [0, 1]


def test_topic_without_partitions_is_a_sentence(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": []})
    for key in (None, b"k"):
        with pytest.raises(RequestFailed, match="topic t has no partitions"):
            Producer(cluster_of(two[0])).send("t", b"v", key=key)


def test_sequences_go_on_from_batch_to_batch_in_each_partition(two, cluster_of):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0, 0]})
    two[0].handlers["Produce"] = acknowledge()
    producer = Producer(cluster_of(two[0]))
    for count in (3, 2):
        for _ in range(count):
            producer.send("t", b"v", partition=0)
        producer.send("t", b"v", partition=1)
        producer.flush()
    batches = [RecordBatch(data) for data in sent(two[0])]
    assert [(batch.base_sequence, batch.record_count) for batch in batches] == [(0, 3), (0, 1), (3, 2), (1, 1)]


def test_without_idempotence_no_producer_id_is_asked_for(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    two[0].handlers["Produce"] = acknowledge()
    with Producer(cluster_of(two[0]), is_idempotent=False) as producer:
        producer.send("t", b"v")
    assert "InitProducerId" not in two[0].names()
    assert RecordBatch(sent(two[0])[0]).producer_id == -1


def test_every_request_waits_for_all_replicas(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    two[0].handlers["Produce"] = acknowledge()
    with Producer(cluster_of(two[0])) as producer:
        producer.send("t", b"v")
    assert [(version, request.acks) for name, version, request in two[0].asked if name == "Produce"] == [(12, -1)]


def test_error_inside_the_block_sends_nothing_more(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    with pytest.raises(ZeroDivisionError), Producer(cluster_of(two[0])) as producer:
        producer.send("t", b"v")
        raise ZeroDivisionError
    assert sent(two[0]) == []

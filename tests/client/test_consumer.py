"""The consumer: positions, ends of the log, transactions as Kafka's own consumer saw them, and leaders that move or sleep."""

from __future__ import annotations

import math
import time
import zlib

import pytest

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.client.cluster import Cluster
from milepost.client.consumer import Consumer
from milepost.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from milepost.client.producer import Producer
from milepost.client.retrying import Retries
from milepost.errors import BrokerUnavailable, RequestFailed
from milepost.protocol.messages import FetchResponse, ListOffsetsResponse
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.client.fake_broker import CLOSE, SILENCE, FakeBroker, fake_brokers, metadata
from tests.client.topics import make_topic
from tests.waiting import PATIENCE, until

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def topic(broker, cluster, request) -> TopicPartition:
    """A topic of one partition with ten records, two to a batch, at times 1000, 1010, …"""
    name = f"ten-{zlib.crc32(request.node.name.encode())}"
    make_topic(cluster, name, 1)
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send(name, b"v%d" % number, timestamp=1000 + 10 * number)
            if number % 2:
                producer.flush()
    return TopicPartition(name, 0)


def take(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        for records in consumer.poll(PATIENCE).values():
            found += [record.value for record in records]
    return found


def test_reading_begins_in_the_middle_of_a_batch(cluster, topic, any_version):
    with Consumer(cluster, {topic: 3}) as consumer:
        assert take(consumer, 7) == [b"v%d" % number for number in range(3, 10)]
        assert consumer.positions == {topic: 10}


def test_small_fetches_give_everything_once(cluster, topic):
    with Consumer(cluster, {topic: 0}, partition_max_bytes=1) as consumer:
        assert take(consumer, 10) == [b"v%d" % number for number in range(10)]


def test_end_of_the_log_is_waited_at_and_what_comes_is_seen(cluster, topic):
    with Consumer(cluster, {topic: 10}) as consumer:
        started = time.monotonic()
        assert consumer.poll(0.2) == {}
        assert time.monotonic() - started > 0.15
        with Producer(cluster) as producer:
            producer.send(topic.topic, b"new")
        assert take(consumer, 1) == [b"new"]


def test_offset_behind_the_end_is_an_error_that_says_what_there_is(cluster, topic):
    with Consumer(cluster, {topic: 11}) as consumer, pytest.raises(RequestFailed) as caught:
        consumer.poll(PATIENCE)
    expected = f"fetch of {topic} at offset 11: the broker answers OFFSET_OUT_OF_RANGE (1): the log holds offsets 0 to 9"
    assert (str(caught.value), caught.value.code) == (expected, 1)


@pytest.mark.parametrize(("reset", "position"), [(EARLIEST, 0), (LATEST, 10)])
def test_offset_behind_the_end_is_reset_when_asked_for(cluster, topic, reset, position):
    with Consumer(cluster, {topic: 99}, reset=reset) as consumer:
        assert consumer.poll(PATIENCE) == {}
        assert consumer.positions == {topic: position}


def test_topic_that_is_not_there_ends_in_an_error(cluster_of):
    fake = FakeBroker()
    fake.handlers["Metadata"] = lambda version, request: metadata([fake], {})
    with Consumer(cluster_of(fake), {T0: 0}) as consumer, pytest.raises(RequestFailed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        for _ in range(1000):
            consumer.poll(0.01)
    fake.close()


# What Kafka's own consumer saw of a log that Kafka wrote.


def spans(offsets: list[int]) -> list[list[int]]:
    """[0, 1, 2, 5] as [[0, 2], [5, 5]]."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1", "4.3.0"])
@pytest.mark.parametrize(
    ("isolation", "column", "end"),
    [(READ_UNCOMMITTED, "visibleOffsets", "latest"), (READ_COMMITTED, "readCommittedOffsets", "lastStable")],
)
def test_transactions_are_seen_as_kafkas_consumer_saw_them(golden, tmp_path, version, isolation, column, end):
    case = f"transactions/kafka-{version}"
    settings = {
        "log.dirs": str(golden(case, tmp_path) / "logdir"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.retention.ms": "-1",
        "transaction.state.log.num.partitions": "2",
    }
    with Life(AloneBroker(settings)) as broker, Cluster(broker.bootstrap_servers) as cluster:
        for partition in (TopicPartition("tx", 0), TopicPartition("tx", 1), TopicPartition("open", 0)):
            live = golden.expected(case, str(partition))["live"]
            found: list[int] = []
            # Small fetches, so that transactions lie across them.
            with Consumer(cluster, {partition: 0}, isolation=isolation, partition_max_bytes=600) as consumer:
                while consumer.positions[partition] < live[end]:
                    for records in consumer.poll(PATIENCE).values():
                        found += [record.offset for record in records]
            assert spans(found) == live[column], partition


def test_directory_of_kafka_is_read_record_for_record(golden, tmp_path):
    case = "page_visits/kafka-3.9.1"
    settings = {
        "log.dirs": str(golden(case, tmp_path) / "logdir"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.retention.ms": "-1",
    }
    partitions = [TopicPartition("page_visits", number) for number in range(5)]
    found: dict[TopicPartition, list[Record]] = {partition: [] for partition in partitions}
    with (
        Life(AloneBroker(settings)) as broker,
        Cluster(broker.bootstrap_servers) as cluster,
        Consumer(cluster, dict.fromkeys(partitions, 0)) as consumer,
    ):
        while sum(map(len, found.values())) < 1224:
            for partition, records in consumer.poll(PATIENCE).items():
                found[partition] += records
    for partition, records in found.items():
        segments = golden.expected(case, str(partition))["segments"]
        rows = [row for segment in segments for row in segment["records"]]
        assert [
            [each.offset, each.timestamp, each.sequence, each.key.decode(), each.value.decode(), []] for each in records
        ] == rows


# Leaders that move, fail or sleep.


@pytest.fixture
def two():
    with fake_brokers(2) as brokers:
        yield brokers


def records(partition: int, value: bytes = b"v", error: int = 0):
    """A handler of Fetch: one record at the offset asked for."""
    Response = FetchResponse.Response

    def answer(version: int, request) -> FetchResponse:
        offsets = {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}
        data = b"" if error else build_batch([Record(offsets[partition], 1000, None, value)])
        row = Response.Partition(
            partition_index=partition, error_code=error, high_watermark=9, aborted_transactions=None, records=data
        )
        return FetchResponse(responses=[Response(topic="t", partitions=[row])])

    return answer


def test_leader_that_has_nothing_does_not_hold_up_the_other(two, cluster_of):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0, 1]})
    two[0].handlers["Fetch"] = lambda version, request: SILENCE
    two[1].handlers["Fetch"] = records(1)
    with Consumer(cluster_of(two[0]), {T0: 0, T1: 0}) as consumer:
        for _ in range(5):
            assert list(consumer.poll(PATIENCE)) == [T1]
        assert consumer.positions == {T0: 0, T1: 5}
        until(lambda: "Fetch" in two[0].names(), "the leader that has nothing was never asked")
    assert two[0].names().count("Fetch") == 1


def test_leader_that_moved_is_followed(two, cluster_of):
    leaders = iter([0, 1])
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [next(leaders)]})
    two[0].handlers["Fetch"] = records(0, error=6)
    two[1].handlers["Fetch"] = records(0)
    with Consumer(cluster_of(two[0]), {T0: 4}) as consumer:
        assert take(consumer, 1) == [b"v"]
        assert consumer.positions == {T0: 5}


def test_leader_that_went_away_is_waited_for_with_an_end(two, cluster_of, pauses):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    two[0].handlers["Fetch"] = lambda version, request: CLOSE
    with Consumer(cluster_of(two[1]), {T0: 0}) as consumer, pytest.raises(BrokerUnavailable, match=f"{two[0].address} closed"):
        for _ in range(1000):
            assert consumer.poll(0.5) == {}
    assert len(pauses) == 9


def test_failing_partition_does_not_starve_the_others(two, cluster_of):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0, 1]})
    two[0].handlers["Fetch"] = lambda version, request: CLOSE
    two[1].handlers["Fetch"] = records(1)
    seen = []
    with Consumer(cluster_of(two[1]), {T0: 0, T1: 0}) as consumer:
        for _ in range(1000):
            seen += consumer.poll(0.5).get(T1, [])
            if len(seen) >= 10:
                break
        assert consumer.positions[T0] == 0
    assert len(seen) >= 10


def test_records_that_came_are_handed_out_before_an_error_ends_it(two, cluster_of):
    Response = FetchResponse.Response

    def both(version: int, request) -> FetchResponse:
        rows = [
            Response.Partition(
                partition_index=0, high_watermark=1, aborted_transactions=None, records=build_batch([Record(0, 1, None, b"v")])
            ),
            Response.Partition(partition_index=1, error_code=29, high_watermark=-1, aborted_transactions=None, records=b""),
        ]
        return FetchResponse(responses=[Response(topic="t", partitions=rows)])

    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0, 0]})
    two[0].handlers["Fetch"] = both
    with Consumer(cluster_of(two[0]), {T0: 0, T1: 0}) as consumer:
        assert list(consumer.poll(PATIENCE)) == [T0]
        with pytest.raises(RequestFailed, match=r"fetch of t-1 at offset 0: the broker answers TOPIC_AUTHORIZATION_FAILED"):
            consumer.poll(PATIENCE)


def test_leader_that_never_answers_is_given_up_at_its_deadline(two, cluster_of):
    for broker in two:
        broker.handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    two[0].handlers["Fetch"] = lambda version, request: SILENCE
    now = 0.0
    cluster = cluster_of(two[1])
    cluster.retries = Retries(attempts=10, timeout=math.inf, sleep=lambda seconds: None, monotonic=lambda: now)
    with Consumer(cluster, {T0: 0}) as consumer, pytest.raises(BrokerUnavailable, match="did not answer a fetch"):
        for _ in range(100):
            assert consumer.poll(0.01) == {}
            now += cluster.timeout + 1
    until(lambda: two[0].names().count("Fetch") == 10)


def test_partition_that_was_not_asked_for_is_ignored(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0, 0]})
    Response = FetchResponse.Response
    row = Response.Partition(
        partition_index=1, high_watermark=1, aborted_transactions=None, records=build_batch([Record(0, 1, None, b"v")])
    )
    two[0].handlers["Fetch"] = lambda version, request: FetchResponse(responses=[Response(topic="t", partitions=[row])])
    with Consumer(cluster_of(two[0]), {T0: 0}) as consumer:
        assert consumer.poll(PATIENCE) == {}
        assert consumer.positions == {T0: 0}


def test_reset_asks_the_leader_for_its_end(two, cluster_of):
    two[0].handlers["Metadata"] = lambda version, request: metadata(two, {"t": [0]})
    two[0].handlers["Fetch"] = records(0, error=1)
    Topic = ListOffsetsResponse.Topic
    two[0].handlers["ListOffsets"] = lambda version, request: ListOffsetsResponse(
        topics=[Topic(name="t", partitions=[Topic.Partition(partition_index=0, offset=55)])]
    )
    with Consumer(cluster_of(two[0]), {T0: 4}, reset=EARLIEST) as consumer:
        consumer.poll(PATIENCE)
        assert consumer.positions == {T0: 55}
    asked = [request for name, _, request in two[0].asked if name == "ListOffsets"]
    assert [part.timestamp for request in asked for topic in request.topics for part in topic.partitions] == [-2]

"""The client and its commands against a real Apache Kafka: the same words in, the same answers out, and a leader that restarts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from milepost.client.cluster import Cluster
from milepost.client.producer import Producer
from milepost.topic_partition import TopicPartition
from tests.cli.running import Ran, run
from tests.client.test_producer import read_all
from tests.client.topics import make_topic
from tests.interop.kafka_harness import KafkaBroker
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    directory = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(directory, directory / "data", {"controlled.shutdown.enable": "true"}) as kafka:
        # It listens a moment before it is a member of its own cluster.
        with Cluster(kafka.bootstrap) as cluster:
            until(lambda: cluster.refresh(()).nodes, pause=0.05)
        yield kafka


@pytest.fixture
def ask(kafka: KafkaBroker) -> Callable[..., Ran]:
    def invoke(*arguments: object, stdin: bytes | None = None) -> Ran:
        return run(*arguments, "--bootstrap-server", kafka.bootstrap, stdin=stdin)

    return invoke


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_takes_our_batches_and_gives_them_back(ask, codec):
    topic = f"codec-{codec}"
    assert ask("topics", "create", topic, "--partitions", 3).code == 0
    lines = b"".join(b"k%d:%d\n" % (number % 10, number) for number in range(300))
    produced = ask("produce", topic, "--key-separator", ":", "--compression", codec, "--header", "h=1", "--json", stdin=lines)
    assert sum(json.loads(line)["records"] for line in produced.lines) == 300
    records = [json.loads(line) for line in ask("consume", topic, "--from-beginning", "--max-messages", 300, "--json").lines]
    assert sorted(int(record["value"]) for record in records) == list(range(300))
    assert all(record["headers"] == [["h", "1"]] for record in records)


def test_keys_go_to_the_partitions_that_librdkafka_and_java_would_choose(ask, kafka):
    ask("topics", "create", "placed", "--partitions", 7)
    ask("produce", "placed", "--key-separator", ":", stdin=b"foobar:1\n21:2\n")
    records = [json.loads(line) for line in ask("consume", "placed", "--from-beginning", "--max-messages", 2, "--json").lines]
    # murmur2("foobar") is -790332482 and murmur2("21") -973932308, from Kafka's own tests.
    assert {record["key"]: record["partition"] for record in records} == {
        "foobar": (-790332482 & 0x7FFFFFFF) % 7,
        "21": (-973932308 & 0x7FFFFFFF) % 7,
    }


def test_topics_and_settings(ask):
    assert ask("topics", "create", "admin", "--partitions", 2, "--config", "retention.ms=86400000").lines == [
        "created topic admin with 2 partitions, 1 replica each"
    ]
    assert ask("topics", "describe", "admin").lines[1] == "retention.ms=86400000"
    assert ask("config", "alter", "--topic", "admin", "--set", "segment.ms=777777", "--unset", "retention.ms").code == 0
    assert ask("config", "describe", "--topic", "admin", "segment.ms").lines == ["segment.ms=777777  (dynamic topic config)"]
    assert ask("config", "describe", "--broker", 0, "num.io.threads").lines == ["num.io.threads=2  (static broker config)"]
    again = ask("topics", "create", "admin")
    assert (again.code, again.errors) == (
        4,
        ["milepost: topic admin: the broker answers TOPIC_ALREADY_EXISTS (36): Topic 'admin' already exists."],
    )
    assert ask("topics", "delete", "admin").code == 0
    assert "admin" not in ask("topics", "list").lines


def test_groups_with_and_without_members(ask, kafka):
    ask("topics", "create", "grouped", "--partitions", 2)
    ask("produce", "grouped", "--partition", 0, stdin=b"a\nb\nc\n")
    assert ask("consume", "grouped", "--group", "steps", "--from-beginning", "--max-messages", 2).lines == ["a", "b"]
    assert ask("groups", "describe", "steps").lines[2].split() == ["grouped", "0", "2", "3", "1", "-", "-"]
    assert ask("groups", "reset", "steps", "--to-earliest", "--execute").code == 0
    assert ask("consume", "grouped", "--group", "steps", "--max-messages", 3).lines == ["a", "b", "c"]
    member = ConfluentConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": "busy", "client.id": "worker"})
    try:
        member.subscribe(["grouped"])
        deadline = time.monotonic() + PATIENCE
        while len(member.assignment()) < 2 and time.monotonic() < deadline:
            member.poll(0.1)
        described = ask("groups", "describe", "busy").lines
        assert described[0] == "group busy: Stable, classic, 1 member, assignor range"
        assert [line.split()[5] for line in described[2:]] == ["worker", "worker"]
        assert ask("groups", "reset", "busy", "--to-earliest", "--topic", "grouped", "--execute").code == 4
    finally:
        member.close()
    assert ask("groups", "delete", "steps").lines == ["deleted group steps"]
    assert ask("groups", "describe", "steps").code == 4


def test_nothing_is_lost_or_doubled_when_the_broker_restarts_under_the_producer(kafka):
    """The last test here: it stops and starts the broker."""
    with Cluster(kafka.bootstrap, timeout=60) as cluster:
        make_topic(cluster, "restarted", 1)
        with Producer(cluster, batch_size=500) as producer:
            for number in range(200):
                producer.send("restarted", b"%d" % number)
            kafka.stop()
            restarting = threading.Timer(1.0, kafka.start)
            restarting.start()
            for number in range(200, 400):
                producer.send("restarted", b"%d" % number)
            producer.flush()
        restarting.join()
        found = read_all(cluster, "restarted", 1, 400)[TopicPartition("restarted", 0).partition]
    assert [record.value for record in found] == [b"%d" % number for number in range(400)]

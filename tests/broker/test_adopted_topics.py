"""A broker on a directory that Kafka left behind: everything is there, nothing is thrown away, and it goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.errors import KafkaStorage
from milepost.log.retention import delete_old_segments
from milepost.topic_partition import TopicPartition as Name
from tests.broker.attaching import FREE_PORT, SECONDS
from tests.broker.conftest import Brokers
from tests.broker.test_attach import consume, printed_rows
from tests.golden_fixture import Golden
from tests.golden_log.golden_case import clock_of

CLUSTERS = {"2.4.1": "yMr0Nr1EQfWmxvDX44FXnQ", "3.9.1": "h84QCK7ZTQyG-0n3kRSpFg", "4.3.0": "aFI2YNwyQcqd8y4tIupr1Q"}
VERSIONS = list(CLUSTERS)


@pytest.fixture
def left_behind(golden: Golden, tmp_path: Path, brokers: Brokers):
    """Start a broker on a copy of a golden directory."""

    def start(case: str, **settings: str) -> Broker:
        directory = tmp_path / case / "logdir"
        if not directory.exists():
            golden(case, tmp_path)
        return brokers.start({"log.dirs": str(directory), **{name.replace("_", "."): value for name, value in settings.items()}})

    return start


@pytest.mark.parametrize("version", VERSIONS)
def test_every_record_is_read_and_more_are_produced_behind_them(golden: Golden, tmp_path, left_behind, brokers, version):
    case = f"page_visits/kafka-{version}"
    names = [Name("page_visits", number) for number in range(5)]
    printed = {name: printed_rows(golden.expected(case, str(name)), 0) for name in names}
    broker = left_behind(case)
    assert broker.adopted == ["page_visits"]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(100):
        producer.produce("page_visits", b"new %d" % number, partition=number % 5)
    assert producer.flush(SECONDS) == 0
    for _ in range(2):
        for name, rows in consume(broker, dict.fromkeys(names, 0)).items():
            old, new = rows[: len(printed[name])], rows[len(printed[name]) :]
            assert [(row[0], row[1], row[2].decode(), row[3].decode()) for row in old] == [
                (row[0], row[1], row[3], row[4]) for row in printed[name]
            ]
            assert [(row[0], row[3]) for row in new] == [
                (printed[name][-1][0] + 1 + place, b"new %d" % (5 * place + name.partition)) for place in range(20)
            ]
        brokers.stop(broker)
        broker = left_behind(case)
        assert broker.adopted == []


@pytest.mark.parametrize("version", VERSIONS)
def test_broker_is_the_one_the_directory_belongs_to(tmp_path, left_behind, version):
    broker = left_behind(f"page_visits/kafka-{version}")
    assert (broker.node_id, broker.cluster.cluster_id) == (1, CLUSTERS[version])
    meta = next(tmp_path.rglob("meta.properties")).read_text().splitlines()
    assert sorted(line for line in meta if not line.startswith("#")) == sorted(
        [f"cluster.id={CLUSTERS[version]}"]
        + (
            ["version=1", "node.id=1", "directory.id=dq5qcF1wUd2554ngZiAeQw"]
            if version == "4.3.0"
            else ["version=0", "broker.id=1"]
        )
    )
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.list_topics(timeout=SECONDS)
    assert (list(found.brokers), found.controller_id, found.cluster_id) == ([1], 1, CLUSTERS[version])
    assert {partition.leader for partition in found.topics["page_visits"].partitions.values()} == {1}


def test_configuration_of_another_broker_is_refused(left_behind):
    with pytest.raises(
        KafkaStorage, match=r"meta\.properties: the directory belongs to broker 1, expected 2; use another data directory"
    ):
        left_behind("page_visits/kafka-3.9.1", broker_id="2")


def test_directories_of_two_clusters_are_refused(golden: Golden, tmp_path, brokers):
    first = golden("page_visits/kafka-3.9.1", tmp_path) / "logdir"
    second = golden("idempotence/kafka-3.9.1", tmp_path) / "logdir"
    with pytest.raises(KafkaStorage, match=f"{second}/meta.properties: the directory belongs to cluster "):
        brokers.start({"log.dirs": f"{first},{second}"})


def test_second_directory_becomes_one_of_the_same_broker(tmp_path, left_behind, golden: Golden, brokers):
    first = golden("page_visits/kafka-4.3.0", tmp_path) / "logdir"
    brokers.start({"log.dirs": f"{first},{tmp_path}/new"})
    lines = (tmp_path / "new" / "meta.properties").read_text().splitlines()
    assert lines[2:] == ["version=1", "cluster.id=aFI2YNwyQcqd8y4tIupr1Q", "node.id=1"]


def test_topic_whose_settings_are_not_known_loses_nothing_to_its_age(left_behind, golden: Golden):
    broker = left_behind("page_visits/kafka-3.9.1")
    assert broker.cluster.topics["page_visits"].configs == {"retention.ms": "-1", "retention.bytes": "-1"}
    # The records are of 2023, and a topic's records stay for a week where nothing else is said.
    assert [delete_old_segments(log) for log in broker.logs.logs.values()] == [0] * 5
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert len(admin.list_topics(timeout=SECONDS).topics["page_visits"].partitions) == 5


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_are_where_they_were_and_their_topic_is_compacted(golden: Golden, left_behind, version):
    case = f"groups/kafka-{version}"
    broker = left_behind(case)
    assert broker.logs.config_of("__consumer_offsets").cleanup_policy == ("compact",)
    assert broker.logs.config_of("__transaction_state").cleanup_policy == ("compact",)
    assert broker.offsets_topic.partition_count == 2
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for group, rows in golden.case_json(case)["facts"]["committedAtEnd"]["groups"].items():
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(SECONDS)
        assert {(each.topic, each.partition): each.offset for each in answer.topic_partitions} == {
            (topic, partition): offset for topic, partition, offset, _ in rows
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_producer_id_that_is_in_the_log_is_not_given_again(golden: Golden, tmp_path, version):
    case = f"idempotence/kafka-{version}"
    settings = {"log.dirs": str(golden(case, tmp_path) / "logdir"), **FREE_PORT}
    with Life(AloneBroker(settings, clock=clock_of(golden.expected(case, "idem-0")))) as broker:
        log = broker.logs.logs[Name("idem", 0)]
        known, end = set(log.producers.producers), log.end_offset
        assert known
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        for number in range(10):
            producer.produce("idem", b"%d" % number, partition=0)
        assert producer.flush(SECONDS) == 0
        assert log.end_offset == end + 10
        (new,) = set(log.producers.producers) - known
        assert new == (max(known) // 1000 + 1) * 1000

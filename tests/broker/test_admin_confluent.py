"""librdkafka's AdminClient against the broker: what its users call, as they call it."""

from __future__ import annotations

import pytest
from confluent_kafka import ElectionType, IsolationLevel, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

SECONDS = 60


@pytest.fixture
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def done(futures):
    return {key: future.result(SECONDS) for key, future in futures.items()}


def error_of(future) -> str:
    with pytest.raises(KafkaException) as raised:
        future.result(SECONDS)
    return raised.value.args[0].name()


def create(admin: AdminClient, *topics: NewTopic, **options) -> None:
    done(admin.create_topics(list(topics), request_timeout=SECONDS, **options))


def fill(broker, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, f"value {number}", partition=partition)
    assert producer.flush(SECONDS) == 0


def test_topics_are_created_listed_described_and_deleted(admin):
    create(admin, NewTopic("visits", 3, 1, config={"retention.ms": "7000"}), NewTopic("defaults", -1, -1))
    topics = admin.list_topics(timeout=SECONDS).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"visits": 3, "defaults": 1}
    description = done(admin.describe_topics(TopicCollection(["visits"]), include_authorized_operations=True))["visits"]
    assert [partition.leader.id for partition in description.partitions] == [0, 0, 0]
    assert str(description.topic_id)
    assert len(description.authorized_operations) == 8
    done(admin.delete_topics(["visits"]))
    assert list(admin.list_topics(timeout=SECONDS).topics) == ["defaults"]


def test_topics_that_cannot_be_have_their_error(admin):
    create(admin, NewTopic("visits", 1, 1))
    wishes = [NewTopic("visits", 1, 1), NewTopic("factor", 1, 2), NewTopic("a b", 1, 1), NewTopic("x", 1, 1, config={"no": "1"})]
    futures = admin.create_topics(wishes)
    assert {name: error_of(future) for name, future in futures.items()} == {
        "visits": "TOPIC_ALREADY_EXISTS",
        "factor": "INVALID_REPLICATION_FACTOR",
        "a b": "TOPIC_EXCEPTION",
        "x": "INVALID_CONFIG",
    }
    assert error_of(admin.delete_topics(["nope"])["nope"]) == "UNKNOWN_TOPIC_OR_PART"


def test_checked_topic_is_not_made_and_replicas_can_be_assigned(admin):
    create(admin, NewTopic("checked", 1, 1), validate_only=True)
    create(admin, NewTopic("assigned", 2, replica_assignment=[[0], [0]]))
    assert {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=SECONDS).topics.items()} == {"assigned": 2}


def test_topic_grows(admin):
    create(admin, NewTopic("visits", 1, 1))
    done(admin.create_partitions([NewPartitions("visits", 3)]))
    assert len(admin.list_topics("visits", timeout=SECONDS).topics["visits"].partitions) == 3
    assert error_of(admin.create_partitions([NewPartitions("visits", 2)])["visits"]) == "INVALID_PARTITIONS"


def test_settings_of_a_topic_are_described_and_altered(admin):
    create(admin, NewTopic("visits", 1, 1, config={"retention.ms": "7000"}))
    topic = ConfigResource(ResourceType.TOPIC, "visits")
    (found,) = done(admin.describe_configs([topic])).values()
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("7000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert list(found["cleanup.policy"].synonyms) == ["log.cleanup.policy"]
    changes = [
        ConfigEntry("retention.ms", "9000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("segment.bytes", None, incremental_operation=AlterConfigOpType.DELETE),
    ]
    done(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, "visits", incremental_configs=changes)]))
    (found,) = done(admin.describe_configs([topic])).values()
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("9000", "delete,compact")
    missing = ConfigResource(ResourceType.TOPIC, "nope")
    assert error_of(admin.describe_configs([missing])[missing]) == "UNKNOWN_TOPIC_OR_PART"


def test_settings_of_a_broker_are_described_and_altered(admin):
    broker = ConfigResource(ResourceType.BROKER, "0")
    change = ConfigEntry("log.segment.bytes", "5000000", incremental_operation=AlterConfigOpType.SET)
    done(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "0", incremental_configs=[change])]))
    (found,) = done(admin.describe_configs([broker])).values()
    entry = found["log.segment.bytes"]
    assert (entry.value, entry.source) == ("5000000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    assert found["num.partitions"].is_read_only


def test_records_are_deleted_up_to_an_offset(broker, admin):
    create(admin, NewTopic("visits", 1, 1))
    fill(broker, "visits", 10)
    (deleted,) = done(admin.delete_records([TopicPartition("visits", 0, 4)])).values()
    assert deleted.low_watermark == 4
    partition = TopicPartition("visits", 0)
    earliest = done(admin.list_offsets({partition: OffsetSpec.earliest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED))
    assert [found.offset for found in earliest.values()] == [4]


def test_cluster_describes_itself(broker, admin):
    cluster = admin.describe_cluster(include_authorized_operations=True).result(SECONDS)
    assert (cluster.cluster_id, cluster.controller.id) == (broker.cluster.cluster_id, 0)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap_servers]
    assert len(cluster.authorized_operations) == 7


def test_no_election_is_needed(admin):
    create(admin, NewTopic("visits", 1, 1))
    partition = TopicPartition("visits", 0)
    result = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(SECONDS)
    assert [error.name() for error in result.values()] == ["ELECTION_NOT_NEEDED"]

"""What administrators ask of three brokers: settings, moves, elections, growth and deletion; and who may ask it of whom."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.log.open import open_log
from milepost.protocol.messages import (
    AllocateProducerIdsRequest,
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ApiVersionsRequest,
    ControlledShutdownRequest,
    CreateTopicsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    LeaderAndIsrRequest,
    ListPartitionReassignmentsRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from tests.broker.wire import Wire
from tests.cluster.asking import in_sync, leaders, metadata, partitions_of, until
from tests.cluster.processes import ClusterProcesses
from tests.cluster.proving import prove, secret_of
from tests.cluster.writing import (
    Writer,
    create_topic,
    ensure_nothing_lost,
    ensure_transactions_are_seen_as_a_whole,
    read_all,
)
from tests.waiting import PROCESS_PATIENCE

DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 55, 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    with ClusterProcesses(tmp_path_factory.mktemp("cluster"), f"{zookeeper_server.address}/administered") as cluster:
        yield cluster


@pytest.fixture
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def ask(broker, request, **options):
    with Connection(Address("127.0.0.1", broker.port), timeout=PROCESS_PATIENCE) as connection:
        return connection.ask(request, **options)


def controller(cluster):
    return cluster.brokers[metadata(cluster.bootstrap).controller_id]


def until_everywhere(cluster, is_so, what):
    """`is_so` of every broker's address."""
    for broker in cluster.brokers.values():
        until(lambda broker=broker: is_so(broker.address), f"{what}, as broker {broker.broker_id} was told")


def test_topic_grows_and_goes(cluster, admin):
    create_topic(cluster, "grows", 1, 3)
    admin.create_partitions([NewPartitions("grows", 3)])["grows"].result()
    grown = {number: [1, 2, 3] for number in range(3)}
    until_everywhere(cluster, lambda address: in_sync(address, "grows") == grown, "it has three partitions")
    admin.delete_topics(["grows"], operation_timeout=60)["grows"].result()
    until_everywhere(cluster, lambda address: "grows" not in metadata(address).topics, "the topic is gone")
    until(
        lambda: all(each.name.endswith("-delete") for broker in cluster.brokers.values() for each in broker.data.glob("grows*")),
        "the directories are on their way out",
    )
    create_topic(cluster, "grows", 2, 3)  # the same name, another topic
    assert sorted(leaders(cluster.bootstrap, "grows")) == [0, 1]


def test_setting_of_a_topic_is_taken_up_by_every_broker(cluster, admin):
    create_topic(cluster, "set", 3, 3)
    resource = ConfigResource(ResourceType.TOPIC, "set")
    resource.add_incremental_config(ConfigEntry("min.insync.replicas", "3", incremental_operation=AlterConfigOpType.SET))
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    for broker in cluster.brokers.values():
        asked = ConfigResource(ResourceType.TOPIC, "set")
        one = AdminClient({"bootstrap.servers": broker.address})

        def value(one=one, asked=asked):
            return one.describe_configs([asked])[asked].result()["min.insync.replicas"].value

        until(lambda value=value: value() == "3", "the setting is known everywhere")


def test_settings_that_are_changed_through_one_broker_after_another_are_all_kept(cluster):
    create_topic(cluster, "kept", 1, 3)
    given = {"retention.ms": "70000000", "segment.bytes": "1048576", "max.message.bytes": "100000"}
    shown = []
    for broker, (name, value) in zip(cluster.brokers.values(), given.items(), strict=True):
        config = IncrementalAlterConfigsRequest.Resource.Config(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsRequest.Resource(resource_type=2, resource_name="kept", configs=[config])
        assert ask(broker, IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    wanted = DescribeConfigsRequest.Resource(resource_type=2, resource_name="kept", configuration_keys=list(given))
    for broker in cluster.brokers.values():
        (found,) = ask(broker, DescribeConfigsRequest(resources=[wanted])).results
        shown.append({config.name: config.value for config in found.configs})
    assert shown == [given] * 3


def test_quotas_that_are_changed_through_one_broker_after_another_are_all_kept_and_shown(cluster):
    of_client = AlterClientQuotasRequest.Entry
    given = {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0, "request_percentage": 12.5}
    for broker, (key, value) in zip(cluster.brokers.values(), given.items(), strict=True):
        entry = of_client(
            entity=[of_client.Entity(entity_type="client-id", entity_name="etl")], ops=[of_client.Op(key=key, value=value)]
        )
        assert [each.error_code for each in ask(broker, AlterClientQuotasRequest(entries=[entry])).entries] == [0]
        (found,) = ask(list(cluster.brokers.values())[broker.broker_id % 3], DescribeClientQuotasRequest(components=[])).entries
        assert {each.key: each.value for each in found.values}[key] == value
    assert {each.key: each.value for each in found.values} == given


def test_moved_partition_keeps_its_records_and_leaves_its_old_brokers(cluster):
    create_topic(cluster, "moves", 1, 2)
    before = partitions_of(cluster.bootstrap, "moves")[0].replicas
    (absent,) = {1, 2, 3} - set(before)
    target = [absent, before[0]]
    with Writer(cluster.bootstrap, "moves", 1) as writer:
        writer.wait_for(300)
        topic = AlterPartitionReassignmentsRequest.Topic
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=60_000, topics=[topic(name="moves", partitions=[topic.Partition(partition_index=0, replicas=target)])]
        )
        elsewhere = next(broker for broker in cluster.brokers.values() if broker is not controller(cluster))
        assert ask(elsewhere, request).error_code == 41
        assert ask(controller(cluster), request).responses[0].partitions[0].error_code == 0
        until(
            lambda: not ask(controller(cluster), ListPartitionReassignmentsRequest(timeout_ms=60_000, topics=None)).topics,
            "the move is over",
        )
        writer.wait_for(300)
    until_everywhere(cluster, lambda address: partitions_of(address, "moves")[0].replicas == target, "it is where it should be")
    until_everywhere(cluster, lambda address: in_sync(address, "moves") == {0: sorted(target)}, "it is in sync")
    ensure_nothing_lost(writer, read_all(cluster.bootstrap, "moves", 1, writer.acked))
    old = cluster.brokers[before[1]]
    until(lambda: not (old.data / "moves-0").exists(), "it has left its old broker")


def test_deleted_records_are_gone_on_every_replica(cluster, admin):
    create_topic(cluster, "trimmed", 1, 3)
    with Writer(cluster.bootstrap, "trimmed", 1) as writer:
        writer.wait_for(100)
    name = TopicPartition("trimmed", 0, 50)
    (future,) = admin.delete_records([name], operation_timeout=60).values()
    assert future.result().low_watermark == 50
    for broker in cluster.brokers.values():
        with open_log(broker.data / "trimmed-0") as log:
            assert log.end_offset == len(writer.acked)
    assert len(read_all(cluster.bootstrap, "trimmed", 1)) == len(writer.acked) - 50


def test_preferred_leader_is_elected_again(cluster, admin):
    create_topic(cluster, "prefers", 3, 3)
    victim = next(broker for broker in cluster.brokers.values() if broker is not controller(cluster))
    assert victim.stop() == 0
    victim.start()
    cluster.wait_until_in_sync("prefers")
    assert victim.broker_id not in leaders(cluster.bootstrap, "prefers").values()
    results = admin.elect_leaders(ElectionType.PREFERRED, None).result()
    assert [error for name, error in results.items() if name.topic == "prefers"] == [None]
    until(lambda: victim.broker_id in leaders(cluster.bootstrap, "prefers").values(), "the preferred leader leads")


def test_transaction_over_partitions_of_all_brokers_is_seen_as_a_whole(cluster):
    ensure_transactions_are_seen_as_a_whole(cluster, "cashier", "pays")


def test_offsets_of_a_transaction_count_when_it_commits(cluster):
    create_topic(cluster, "bills", 1, 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "biller", "log_level": 0})
    producer.init_transactions(PROCESS_PATIENCE)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "enable.auto.commit": False, "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition("bills", 0, 0)])
        for offset, commits in ((7, True), (9, False)):
            producer.begin_transaction()
            producer.produce("bills", b"x", partition=0)
            offsets = [TopicPartition("bills", 0, offset)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PROCESS_PATIENCE)
            if commits:
                producer.commit_transaction(PROCESS_PATIENCE)
            else:
                producer.abort_transaction(PROCESS_PATIENCE)
        (committed,) = consumer.committed([TopicPartition("bills", 0)], PROCESS_PATIENCE)
    assert committed.offset == 7


def test_quorum_is_not_listed_where_zookeeper_elects_the_controller(cluster):
    with Wire(cluster.bootstrap.partition(",")[0]) as wire:
        keys = {row.api_key for row in wire.ask(ApiVersionsRequest(), 0).api_keys}
        assert {DESCRIBE_QUORUM, DESCRIBE_CLUSTER} & keys == {DESCRIBE_CLUSTER}
        with pytest.raises(ConnectionError, match="closed by the broker"):
            wire.ask(DescribeQuorumRequest(), 2)


def test_topics_are_made_by_the_controller_alone(cluster):
    elsewhere = next(broker for broker in cluster.brokers.values() if broker is not controller(cluster))
    topic = CreateTopicsRequest.Topic(name="late", num_partitions=1, replication_factor=1)
    answer = ask(elsewhere, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    assert [each.error_code for each in answer.topics] == [41]


def test_topic_is_made_for_whoever_asks_for_it(cluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    errors = []
    producer.produce("sudden", b"x", on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(PROCESS_PATIENCE) == 0
    assert errors == [None]


def test_factor_above_the_number_of_brokers_is_refused(cluster):
    with pytest.raises(KafkaException, match="replication factor 4: 3 brokers alive"):
        create_topic(cluster, "wide", 1, 4)


@pytest.mark.parametrize(
    "request_of_a_stranger",
    [
        LeaderAndIsrRequest(controller_id=9, controller_epoch=10_000),
        UpdateMetadataRequest(controller_id=9, controller_epoch=10_000),
        StopReplicaRequest(controller_id=9, controller_epoch=10_000),
        ControlledShutdownRequest(broker_id=9, broker_epoch=1),
        AlterPartitionRequest(broker_id=9, broker_epoch=1),
        AllocateProducerIdsRequest(broker_id=9, broker_epoch=1),
        FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1000, replica_state=FetchRequest.ReplicaState(replica_id=9, replica_epoch=5)
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_brokers_say_is_believed_of_brokers_only(cluster, request_of_a_stranger):
    assert ask(controller(cluster), request_of_a_stranger).error_code == 31


def test_broker_that_registered_anew_since_is_not_believed(cluster):
    asked = controller(cluster)
    with Wire(asked.address) as wire:
        prove(wire, secret_of(cluster.zookeeper), 1, asked.broker_id)
        assert wire.ask(AlterPartitionRequest(broker_id=1, broker_epoch=1), 3).error_code == 77
        assert wire.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1), 0).error_code == 77

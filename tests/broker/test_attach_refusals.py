"""What would write to attached directories is refused, at once, with the code that Kafka has for somebody who may only read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from milepost.broker.dispatch import served_apis
from milepost.broker.kinds.attached import NOT_SERVED, AttachedBroker
from milepost.errors import InvalidArgument
from milepost.log.log import Log
from milepost.protocol.apis import BY_NAME
from milepost.protocol.message import Message
from milepost.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterReplicaLogDirsRequest,
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    UpdateFeaturesRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition as Name
from tests.broker.attaching import SECONDS, attached
from tests.broker.wire import Wire
from tests.golden_fixture import Golden

TOPIC, CLUSTER, TRANSACTION = 29, 31, 53
WHY = "the directories are attached for reading: nothing can be written to this broker"


@pytest.fixture
def visits(golden: Golden) -> Iterator[AttachedBroker]:
    with attached(golden("page_visits/kafka-4.3.0") / "logdir") as broker:
        yield broker


# librdkafka.


@pytest.mark.parametrize("acks", ["all", "1"])
def test_record_of_a_producer_is_reported_as_refused(visits, acks):
    producer = Producer({"bootstrap.servers": visits.bootstrap_servers, "acks": acks, "log_level": 0})
    reported: list[KafkaError] = []
    producer.produce("page_visits", b"x", partition=1, on_delivery=lambda error, message: reported.append(error))
    assert producer.flush(SECONDS) == 0
    assert [error.code() for error in reported] == [TOPIC]


def test_idempotent_producer_gets_no_id(visits):
    producer = Producer({"bootstrap.servers": visits.bootstrap_servers, "enable.idempotence": True, "log_level": 0})

    def wait() -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            producer.poll(0.1)

    assert code_of(wait) == CLUSTER


def code_of(task: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        task()
    code: int = caught.value.args[0].code()
    return code


def test_transactional_producer_gets_no_id(visits):
    producer = Producer({"bootstrap.servers": visits.bootstrap_servers, "transactional.id": "t", "log_level": 0})
    assert code_of(lambda: producer.init_transactions(SECONDS)) == TRANSACTION


def test_topics_and_settings_stay_as_they_are(visits):
    admin = AdminClient({"bootstrap.servers": visits.bootstrap_servers})
    change = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "page_visits", incremental_configs=[change])
    assert code_of(admin.create_topics([NewTopic("new", 1, 1)])["new"].result) == TOPIC
    assert code_of(admin.delete_topics(["page_visits"])["page_visits"].result) == TOPIC
    assert code_of(admin.create_partitions([NewPartitions("page_visits", 9)])["page_visits"].result) == TOPIC
    assert code_of(admin.incremental_alter_configs([resource])[resource].result) == TOPIC
    records = admin.delete_records([TopicPartition("page_visits", 0, 5)])
    assert [code_of(future.result) for future in records.values()] == [TOPIC]
    assert list(admin.list_topics(timeout=SECONDS).topics) == ["page_visits"]


def test_topic_that_is_not_there_is_not_made(visits):
    producer = Producer({"bootstrap.servers": visits.bootstrap_servers, "topic.metadata.propagation.max.ms": 0, "log_level": 0})
    reported: list[KafkaError] = []
    producer.produce("new", b"x", on_delivery=lambda error, message: reported.append(error))
    assert producer.flush(SECONDS) == 0
    assert [error.code() for error in reported] == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert list(visits.cluster.topics) == ["page_visits"]


# Every request that writes, in every version.


def produced(acks: int) -> ProduceRequest:
    batch = memoryview(build_batch([Record(0, 1, None, b"x")]))
    Topic = ProduceRequest.TopicData
    topic = Topic(name="page_visits", partition_data=[Topic.PartitionData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[topic])


def requests(version: int) -> dict[str, Message]:
    """One of each API that writes and has this version; what a version has no field for is left out."""
    Delete, Grow, Dirs = DeleteRecordsRequest.Topic, CreatePartitionsRequest.Topic, AlterReplicaLogDirsRequest.Dir
    Add, Commit, Quotas = AddPartitionsToTxnRequest, TxnOffsetCommitRequest.Topic, AlterClientQuotasRequest.Entry
    resource, incremental = AlterConfigsRequest.Resource, IncrementalAlterConfigsRequest.Resource
    return {
        "Produce": produced(-1),
        "CreateTopics": CreateTopicsRequest(
            topics=[CreateTopicsRequest.Topic(name="new", num_partitions=1, replication_factor=1)]
        ),
        "DeleteTopics": DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="page_visits")])
        if version >= 6
        else DeleteTopicsRequest(topic_names=["page_visits"]),
        "DeleteRecords": DeleteRecordsRequest(
            topics=[Delete(name="page_visits", partitions=[Delete.Partition(partition_index=0, offset=1)])]
        ),
        "CreatePartitions": CreatePartitionsRequest(topics=[Grow(name="page_visits", count=9)]),
        "AlterConfigs": AlterConfigsRequest(resources=[resource(resource_type=2, resource_name="page_visits")]),
        "IncrementalAlterConfigs": IncrementalAlterConfigsRequest(resources=[incremental(resource_type=4, resource_name="0")]),
        "AlterClientQuotas": AlterClientQuotasRequest(
            entries=[Quotas(entity=[Quotas.Entity(entity_type="user", entity_name="u")], ops=[])]
        ),
        "AlterReplicaLogDirs": AlterReplicaLogDirsRequest(
            dirs=[Dirs(path="/data", topics=[Dirs.Topic(name="page_visits", partitions=[0])])]
        ),
        "UpdateFeatures": UpdateFeaturesRequest(),
        "InitProducerId": InitProducerIdRequest(transactional_id=None if version % 2 else "t"),
        "AddPartitionsToTxn": Add(
            transactions=[
                Add.Transaction(transactional_id="t", topics=[Add.Transaction.Topic(name="page_visits", partitions=[0])])
            ]
        )
        if version >= 4
        else Add(
            v3_and_below_transactional_id="t", v3_and_below_topics=[Add.V3AndBelowTopic(name="page_visits", partitions=[0])]
        ),
        "AddOffsetsToTxn": AddOffsetsToTxnRequest(transactional_id="t", group_id="g"),
        "EndTxn": EndTxnRequest(transactional_id="t"),
        "TxnOffsetCommit": TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            topics=[Commit(name="page_visits", partitions=[Commit.Partition(partition_index=0, committed_offset=1)])],
        ),
    }


EXPECTED = {
    "Produce": {TOPIC},
    "CreateTopics": {TOPIC},
    "DeleteTopics": {TOPIC},
    "DeleteRecords": {TOPIC},
    "CreatePartitions": {TOPIC},
    "AlterConfigs": {TOPIC},
    "IncrementalAlterConfigs": {CLUSTER},
    "AlterClientQuotas": {CLUSTER},
    "AlterReplicaLogDirs": {CLUSTER},
    "UpdateFeatures": {CLUSTER},
    "InitProducerId": {CLUSTER, TRANSACTION},
    "AddPartitionsToTxn": {TRANSACTION, CLUSTER},
    "AddOffsetsToTxn": {TRANSACTION},
    "EndTxn": {TRANSACTION},
    "TxnOffsetCommit": {TRANSACTION},
}


def codes_in(answer: Any) -> set[int]:
    """Every error code in an answer, wherever it stands."""
    found: set[int] = set()
    if isinstance(answer, Message):
        for name in answer.__slots__:
            value = getattr(answer, name)
            found |= {value} - {0} if name.endswith("error_code") else codes_in(value)
    elif isinstance(answer, list):
        found = set().union(*map(codes_in, answer))
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_request_that_writes_is_refused_in_every_version(visits, name):
    first, last = BY_NAME[name].served
    found: set[int] = set()
    with Wire(visits.bootstrap_servers) as wire:
        for version in range(first, last + 1):
            if name == "Produce" and version >= 13:
                continue  # by topic id, below
            codes = codes_in(wire.ask(requests(version)[name], version))
            assert len(codes) == 1, (version, codes)
            found |= codes
    assert found == EXPECTED[name]


def test_reason_is_in_the_answer_where_there_is_room_for_it(visits):
    with Wire(visits.bootstrap_servers) as wire:
        request = produced(1)
        request.topic_data[0].topic_id = visits.cluster.topics["page_visits"].topic_id
        (partition,) = wire.ask(request, 13).responses[0].partition_responses
        assert (partition.error_code, partition.base_offset, partition.error_message) == (TOPIC, -1, WHY)
        assert wire.ask(requests(7)["CreateTopics"], 7).topics[0].error_message == WHY


def test_no_produce_comes_as_far_as_a_log_however_many_are_alike(visits, monkeypatch):
    reached = []
    monkeypatch.setattr(Log, "append_as_leader", lambda *given, **named: reached.append(given))
    with Wire(visits.bootstrap_servers) as wire:
        answers = [wire.ask(produced(acks), 9).responses[0].partition_responses[0] for acks in (1, 1, -1, -1)]
    assert [(answer.error_code, answer.error_message) for answer in answers] == [(TOPIC, WHY)] * 4
    assert not reached


def test_record_without_acknowledgement_ends_the_connection(visits):
    with Wire(visits.bootstrap_servers) as wire, pytest.raises(ConnectionError):
        wire.ask(produced(0), 9)


def test_what_an_attached_broker_lists_is_what_a_broker_alone_serves_but_for_a_few(visits):
    with Wire(visits.bootstrap_servers) as wire:
        listed = {row.api_key for row in wire.ask(ApiVersionsRequest(), 0).api_keys}
    assert listed == {api.key for api in served_apis().values() if api.name not in NOT_SERVED}


def test_log_itself_takes_nothing_either(visits):
    with pytest.raises(InvalidArgument, match="opened for reading"):
        visits.logs.logs[Name("page_visits", 0)].append([Record(value=b"x")])

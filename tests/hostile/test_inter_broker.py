"""What only brokers send, from a client: N-39. On a single node it is answered with 31, in every version that there is."""

from __future__ import annotations

import struct

import pytest
from confluent_kafka import Producer

from milepost.broker.inter_broker import KEYS
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.protocol import frames, generated
from milepost.protocol.apis import APIS, BY_KEY
from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.cluster.processes import free_port
from tests.fuzz.driven_broker import error_codes
from tests.hostile.besieged import HEALTHY_TOPIC, NOW
from tests.hostile.test_bodies import filled
from tests.waiting import PROCESS_PATIENCE

# Kafka's keys; those without a schema here are KRaft's own.
CONTROLLER_AND_BROKERS = {4: (0, 7), 5: (0, 4), 6: (0, 8), 7: (0, 3), 56: (0, 3), 58: (0, 0), 67: (0, 0)}
SHARE_GROUP_STATE = {83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1)}
MATRIX = [
    (key, version)
    for key, (first, last) in {**CONTROLLER_AND_BROKERS, **SHARE_GROUP_STATE}.items()
    for version in range(first, last + 1)
]
KRAFT = [52, 53, 54, 59, 62, 63, 70, 73, 80, 82]


@pytest.mark.parametrize(("key", "version"), MATRIX)
def test_inter_broker_request_is_refused(broker, key, version):
    message = filled(generated.class_named(BY_KEY[key].name + "Request"), version, 2, False)
    with broker.wire() as wire:
        codes = [code for _, code in error_codes(wire.ask(message, version))]
    assert codes and set(codes) == {31}


def test_the_matrix_is_complete():
    served_to_brokers = {api.key for api in APIS if api.family == "brokers"} | {67, 83, 84, 85, 86, 87}
    assert {key for key, _ in MATRIX} == served_to_brokers == KEYS - {24}
    assert {key: BY_KEY[key].known for key in served_to_brokers} == {**CONTROLLER_AND_BROKERS, **SHARE_GROUP_STATE}


def test_none_of_them_is_listed(broker):
    with broker.wire() as wire:
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        listed = {row.api_key for row in wire.ask(asked, 4).api_keys}
    assert not listed & {key for key, _ in MATRIX}
    assert not listed & set(KRAFT)


@pytest.mark.parametrize("key", KRAFT)
def test_what_kraft_nodes_send_is_closed_on(broker, key):
    """As by a Kafka broker, on whose listeners these are not enabled."""
    with broker.connect() as stranger:
        assert stranger.send_frame(struct.pack(">hhih", key, 0, 7, -1) + bytes(100)).is_closed_by_the_broker


@pytest.mark.parametrize("key", [4, 6])
def test_body_of_a_refused_request_is_not_looked_at(broker, key):
    """Thirty megabytes that say they are partitions cost their bytes, and no more."""
    before = broker.measure().memory
    with broker.connect() as stranger:
        stranger.send_frame(struct.pack(">hhih", key, 0, 7, -1) + struct.pack(">iii", 0, 0, 5_000_000) + bytes(30 << 20))
        assert frames.decode_response(key, 0, stranger.read_frame())[1].error_code == 31
    assert broker.measure().memory < before + (100 << 20)


@pytest.mark.parametrize("version", [4, 5])
def test_partitions_are_not_added_for_others(broker, version):
    """AddPartitionsToTxn is a client's up to version 3, and then a broker's."""
    transaction = AddPartitionsToTxnRequest.Transaction(transactional_id="t", producer_id=1, verify_only=True)
    with broker.wire() as wire:
        answer = wire.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
    assert (answer.error_code, answer.results_by_transaction) == (31, [])


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_of_a_replica_that_is_none(broker, version):
    """By the field, and from version 15 by the tagged struct; before version 7 there is no error but the partitions'."""
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchRequest.Topic(topic=HEALTHY_TOPIC, partitions=[part])] if version < 13 else []
    fields = {"replica_id": 1} if version < 15 else {"replica_state": FetchRequest.ReplicaState(replica_id=1, replica_epoch=5)}
    with broker.wire() as wire:
        answer = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=topics, **fields), version)
    if version >= 7:
        assert (answer.error_code, answer.responses) == (31, [])
    else:
        assert [(each.error_code, len(each.records)) for each in answer.responses[0].partitions] == [(31, 0)]


@pytest.mark.parametrize("replica_id", [-2, 0, 1, 32767])
def test_offsets_for_a_replica_are_those_of_the_log(broker, replica_id):
    """A tool (-2) sees the end of the log; one that says it is a replica sees what a consumer sees."""
    topic = ListOffsetsRequest.Topic
    asked = [topic(name=HEALTHY_TOPIC, partitions=[topic.Partition(partition_index=0, timestamp=-2)])]
    with broker.wire() as wire:
        found = wire.ask(ListOffsetsRequest(replica_id=replica_id, isolation_level=1, topics=asked), 7).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (0, 0)
        asked[0].partitions[0].timestamp = -1
        found = wire.ask(ListOffsetsRequest(replica_id=replica_id, isolation_level=1, topics=asked), 7).topics[0].partitions[0]
        assert found.error_code == 0 and found.offset > 0


@pytest.mark.parametrize("client_id", ["__admin_client", "AddPartitionsManager-client-0", "0", "broker-0-txn-marker-sender"])
def test_client_id_grants_nothing(broker, client_id):
    """A tombstone in __consumer_offsets would lose a group's offsets at the next start; a marker there, a transaction's."""
    with broker.wire() as wire:
        internal = ("__consumer_offsets", "__transaction_state")
        made = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in internal]), 11).topics
        assert [topic.error_code for topic in made] == [0, 0]
    with Wire(broker.address, client_id) as wire:
        for topic in internal:
            tombstone = build_batch([Record(0, NOW, b"\0\1\0\7readers\0\1t\0\0\0\0", None)], base_offset=0)
            control = end_transaction_batch(
                EndTransactionMarker(ControlType.COMMIT, 0), offset=0, timestamp=NOW, producer_id=1, producer_epoch=0
            )
            for records in (tombstone, control):
                part = ProduceRequest.TopicData.PartitionData(index=0, records=memoryview(records))
                request = ProduceRequest(
                    acks=-1, timeout_ms=60_000, topic_data=[ProduceRequest.TopicData(name=topic, partition_data=[part])]
                )
                for version in (3, 9, 12):
                    answer = wire.ask(request, version)
                    assert answer.responses[0].partition_responses[0].error_code == 17
        asked = AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnRequest.Transaction(transactional_id="t", producer_id=1, verify_only=True)]
        )
        assert wire.ask(asked, 4).error_code == 31


@pytest.mark.parametrize("replica_id", [0, 1, 32767])
def test_replica_id_shows_no_more_than_a_consumer_sees(broker, replica_id):
    """A transaction is open: it is behind what consumers of committed data see."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"hides-{replica_id}", "log_level": 0})
    producer.init_transactions(PROCESS_PATIENCE)
    producer.begin_transaction()
    topic = f"hidden-{replica_id}"
    producer.produce(topic, b"not yet", partition=0)
    assert producer.flush(PROCESS_PATIENCE) == 0
    asked = [ListOffsetsRequest.Topic(name=topic, partitions=[ListOffsetsRequest.Topic.Partition(timestamp=-1)])]
    with broker.wire() as wire:
        ends = [
            wire.ask(ListOffsetsRequest(replica_id=each, isolation_level=1, topics=asked), 7).topics[0].partitions[0].offset
            for each in (-1, replica_id)
        ]
    producer.abort_transaction(PROCESS_PATIENCE)
    assert ends == [0, 0]


def test_listener_of_a_control_plane_opens_nothing(tmp_path):
    """Of a broker that is alone, where there is no controller but itself."""
    control = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:{control}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "control.plane.listener.name": "CONTROL",
        "log.dir": str(tmp_path),
    }
    with Life(AloneBroker(settings)), Wire(f"127.0.0.1:{control}") as wire:
        asked = AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnRequest.Transaction(transactional_id="t", producer_id=1, verify_only=True)]
        )
        assert wire.ask(asked, 4).error_code == 31


@pytest.mark.parametrize("replica_id", [-2, 0, 1])
def test_epochs_for_a_replica_are_those_of_the_log(broker, replica_id):
    topic = OffsetForLeaderEpochRequest.Topic
    asked = [topic(topic=HEALTHY_TOPIC, partitions=[topic.Partition(partition=0, leader_epoch=0)])]
    with broker.wire() as wire:
        found = wire.ask(OffsetForLeaderEpochRequest(replica_id=replica_id, topics=asked), 4).topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch) == (0, 0)

"""Produce, ListOffsets, Metadata and ApiVersions, request by request."""

from __future__ import annotations

import struct

import pytest

from milepost.codec.compression import Codec
from milepost.protocol import frames
from milepost.protocol.apis import BY_KEY
from milepost.protocol.messages import (
    ApiVersionsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from milepost.record.batch import RecordBatch
from tests.broker.data import NOW, batch, fetch, produce, values
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, delete, wanted
from tests.broker.wire import Wire

# ApiVersions.


def test_api_versions_lists_only_what_has_a_handler_and_produce_from_0(wire, broker):
    listed = {
        row.api_key: (row.min_version, row.max_version)
        for row in wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1.0"), 3).api_keys
    }
    assert listed[0] == (0, 13) and listed[1] == (4, 18) and listed[3] == (0, 13)
    assert set(listed) == set(broker.dispatcher.served)
    assert 17 not in listed and 71 not in listed


def test_api_versions_of_the_future_is_answered_in_version_0_with_what_there_is(wire):
    wire.socket.sendall(struct.pack(">ihhih4s", 14, 18, 99, 7, 4, b"wire"))
    correlation_id, answer = frames.decode_response(18, 0, wire.read_frame())
    assert (correlation_id, answer.error_code) == (7, 35)
    assert (18, 0, 4) in {(row.api_key, row.min_version, row.max_version) for row in answer.api_keys}


def test_a_software_name_with_odd_characters_is_refused(wire):
    assert wire.ask(ApiVersionsRequest(client_software_name="a b", client_software_version="1"), 3).error_code == 42


@pytest.mark.parametrize(("key", "version"), [(0, 2), (1, 3), (999, 0), (17, 1), (3, 99), (-1, 0)])
def test_what_is_not_served_closes_the_connection(broker, key, version):
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(struct.pack(">ihhih4s", 14, key, version, 7, 4, b"wire"))
        with pytest.raises(ConnectionError):
            wire.read_frame()


def test_a_null_client_id_is_fine(broker):
    with Wire(broker.bootstrap_servers, client_id=None) as wire:
        assert wire.ask(MetadataRequest(topics=[]), 12).cluster_id == broker.cluster.cluster_id


# Metadata.


def test_metadata_version_0_asks_for_all_topics_with_an_empty_list_and_later_ones_with_null(wire, topic):
    assert [found.name for found in wire.ask(MetadataRequest(topics=[]), 0).topics] == ["t"]
    assert wire.ask(MetadataRequest(topics=[]), 1).topics == []
    assert [found.name for found in wire.ask(MetadataRequest(topics=None), 12).topics] == ["t"]


def test_metadata_by_topic_id(wire, topic, broker):
    topic_id = broker.cluster.topics["t"].topic_id
    wanted = [MetadataRequest.Topic(topic_id=topic_id, name=None), MetadataRequest.Topic(topic_id=b"x" * 16, name=None)]
    found = wire.ask(MetadataRequest(topics=wanted), 12).topics
    assert [(topic.name, topic.error_code) for topic in found] == [("t", 0), (None, 100)]


@pytest.mark.parametrize(("name", "code"), [("missing", 3), ("", 17), ("..", 17), ("a/b", 17), ("x" * 250, 17), ("\u0430", 17)])
def test_metadata_creates_nothing_when_it_may_not(wire, broker, name, code):
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=False)
    assert wire.ask(request, 9).topics[0].error_code == code
    assert name not in broker.cluster.topics


@pytest.mark.parametrize("name", ["", ".", "..", "../../x", "a/b", "x" * 250, "new\nline"])
def test_a_name_that_is_no_topic_is_never_created(wire, broker, name):
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=name)], allow_auto_topic_creation=True)
    assert wire.ask(request, 9).topics[0].error_code == 17
    assert broker.cluster.topics == {}


# Produce.


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_appended_and_its_offset_answered_in_every_version(wire, topic, version):
    assert produce(wire, batch(b"a", b"b"), version=version).base_offset == 0
    second = produce(wire, batch(b"c"), version=version)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert values(fetch(wire, 0).records) == [b"a", b"b", b"c"]


def test_produce_13_names_topics_by_id(wire, topic, broker):
    for topic_id, code in ((broker.cluster.topics["t"].topic_id, 0), (b"y" * 16, 100)):
        part = ProduceRequest.TopicData.PartitionData(index=0, records=batch(b"a"))
        request = ProduceRequest(
            acks=-1, timeout_ms=1, topic_data=[ProduceRequest.TopicData(topic_id=topic_id, partition_data=[part])]
        )
        assert wire.ask(request, 13).responses[0].partition_responses[0].error_code == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, 87),
        (b"", 87),
        (b"x" * 60, 87),
        (batch(b"a") + batch(b"b"), 87),
        (batch(b"a")[:-1], 87),
        (batch(b"a")[:-1] + b"!", 2),
        (batch(b"x" * 1_100_000), 10),
        (batch(b"a")[:16] + b"\1" + batch(b"a")[17:], 87),
        (batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), 48),
    ],
    ids=["null", "empty", "short", "two batches", "cut", "wrong CRC", "too large", "magic 1", "transactional without an id"],
)
def test_records_that_cannot_be_appended(wire, topic, broker, data, code):
    assert produce(wire, data).error_code == code
    assert broker.replicas.partitions[next(iter(broker.replicas.partitions))].log.end_offset == 0


def test_acks_other_than_minus_1_0_1_are_refused(wire, topic):
    assert produce(wire, batch(b"a"), acks=2).error_code == 21


def test_a_partition_that_is_not_there(wire, topic):
    assert produce(wire, batch(b"a"), partition=7).error_code == 3
    assert produce(wire, batch(b"a"), topic="other").error_code == 3


def test_acks_0_is_never_answered_and_an_error_closes_the_connection(wire, topic, broker):
    def send(data):
        part = ProduceRequest.TopicData.PartitionData(index=0, records=data)
        request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[ProduceRequest.TopicData(name="t", partition_data=[part])])
        wire.socket.sendall(frames.encode_request(0, 9, 1, "wire", request))

    send(batch(b"a"))
    assert values(fetch(wire, 0).records) == [b"a"]
    send(batch(b"a")[:-1] + b"!")
    with pytest.raises(ConnectionError):
        wire.read_frame()


def test_zstd_needs_produce_7(wire, topic):
    data = batch(b"a", codec=Codec.ZSTD)
    assert produce(wire, data, version=6).error_code == 76
    assert produce(wire, data, version=7).error_code == 0


def test_a_repeated_batch_gets_its_first_offset_again_and_a_gap_is_refused(wire, topic):
    def numbered(sequence):
        return batch(b"a", producer_id=4, producer_epoch=0, base_sequence=sequence)

    assert [produce(wire, numbered(sequence)).base_offset for sequence in (0, 1, 2)] == [0, 1, 2]
    assert produce(wire, numbered(1)).base_offset == 1
    assert produce(wire, numbered(5)).error_code == 45


def test_clients_may_not_write_to_internal_topics(wire, broker):
    on_loop(broker, lambda: broker.offsets_topic.ensure())
    assert produce(wire, batch(b"a"), topic="__consumer_offsets").error_code == 17


# ListOffsets.


def list_offset(wire: Wire, timestamp: int, version: int = 7, **fields):
    part = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name="t", partitions=[part])], **fields)
    return wire.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_special_value_and_by_time_in_every_version(wire, topic, version):
    produce(wire, batch(b"a", b"b", b"c"))
    assert list_offset(wire, -2, version).offset == 0
    assert list_offset(wire, -1, version).offset == 3
    found = list_offset(wire, NOW + 1, version)
    assert (found.offset, found.timestamp) == (1, NOW + 1)
    assert list_offset(wire, NOW + 100, version).offset == -1


def test_the_offset_of_the_largest_timestamp(wire, topic):
    produce(wire, batch(b"a", b"b"))
    found = list_offset(wire, -3)
    assert (found.offset, found.timestamp) == (1, NOW + 1)


def test_latest_for_read_committed_is_the_last_stable_offset(wire, topic, broker):
    produce(wire, batch(b"a"))
    partition = next(iter(broker.replicas.partitions.values()))
    open_transaction = batch(b"b", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)

    def append() -> None:
        """The coordinator has confirmed the transaction."""
        guard = partition.log.start_verification(9, 0, 0)
        partition.append(open_transaction, guard=guard)

    on_loop(broker, append)
    assert list_offset(wire, -1, isolation_level=1).offset == 1
    assert list_offset(wire, -1, isolation_level=0).offset == 2


# All together.


@pytest.mark.parametrize("mode", ["inline", "pooled"])
def test_both_channel_modes_serve_the_same(brokers, mode):
    broker = brokers.start({"request.channel.mode": mode})
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
        assert [produce(wire, batch(b"%d" % number)).base_offset for number in range(20)] == list(range(20))
        assert values(fetch(wire, 0).records) == [b"%d" % number for number in range(20)]


def test_records_survive_a_restart_and_so_do_topics_and_ids(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True), 4)
        produce(wire, batch(b"a"))
    topic_id, cluster_id = broker.cluster.topics["t"].topic_id, broker.cluster.cluster_id
    brokers.stop(broker)
    again = brokers.start()
    with Wire(again.bootstrap_servers) as wire:
        assert values(fetch(wire, 0).records) == [b"a"]
    assert (again.cluster.topics["t"].topic_id, again.cluster.cluster_id) == (topic_id, cluster_id)


def test_every_api_that_is_served_has_a_handler_with_its_key(broker):
    for key, api in broker.dispatcher.served.items():
        assert BY_KEY[key] is api
        assert callable(broker.dispatcher.handler_of(api))


def test_the_stored_batch_is_the_sent_one_but_for_offset_and_epoch(wire, topic):
    sent = batch(b"a", b"b", codec=Codec.LZ4)
    produce(wire, batch(b"before"))
    produce(wire, sent)
    stored = bytes(fetch(wire, 1).records)
    assert stored[16:] == sent[16:]
    assert RecordBatch(stored).base_offset == 1


# The short way of produce requests that look like the last one.


@pytest.mark.parametrize("version", [3, 4, 5, 7, 8, 9, 11, 12, 13])
def test_requests_that_look_alike_are_answered_alike_whichever_way_they_take(wire, topic, broker, version):
    topic_id = broker.cluster.topics["t"].topic_id
    answers = []
    for data in (
        batch(b"a"),
        batch(b"b", b"c"),
        batch(b"x" * 300),
        batch(b"d")[:-1] + b"!",
        batch(b"e"),
        batch(b"f", codec=Codec.LZ4),
    ):
        part = ProduceRequest.TopicData.PartitionData(index=0, records=data)
        named = {"topic_id": topic_id} if version >= 13 else {"name": "t"}
        request = ProduceRequest(acks=-1, timeout_ms=5, topic_data=[ProduceRequest.TopicData(partition_data=[part], **named)])
        answers.append(wire.ask(request, version).responses[0].partition_responses[0])
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 1), (0, 3), (2, -1), (0, 4), (0, 5)]
    assert values(fetch(wire, 0).records) == [b"a", b"b", b"c", b"x" * 300, b"e", b"f"]


def test_a_topic_that_was_deleted_and_made_again_is_not_taken_for_the_old_one(wire, topic):
    assert produce(wire, batch(b"a")).error_code == produce(wire, batch(b"b")).error_code == 0
    delete(wire, "t")
    assert produce(wire, batch(b"c")).error_code == 3
    create(wire, wanted("t"))
    assert produce(wire, batch(b"d")).base_offset == 0

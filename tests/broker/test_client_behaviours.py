"""Behaviours of clients that broke other Kafka-compatible brokers, 1 to 30: versions, producers, transactions, fetches.

The number of each is in its name; 31 to 50 (groups, offsets, topics, limits) are in `test_client_behaviours_more`. Of SASL (6 to 9)
there is nothing yet; a broker that does not serve it must not list it.
"""

from __future__ import annotations

import struct

import pytest

from milepost.broker.broker import Broker
from milepost.protocol import frames
from milepost.protocol.apis import BY_KEY
from milepost.protocol.messages import (
    ApiVersionsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    MetadataRequest,
)
from tests.broker.conftest import Brokers
from tests.broker.talking import (
    SMALL,
    TOPIC,
    Transactional,
    batch,
    commit,
    committed,
    fetch,
    fetch_request,
    listed,
    offset_at,
    produce,
    produce_request,
    values,
)
from tests.broker.topics import create, metadata, wanted
from tests.broker.wire import Wire

READ_COMMITTED = 1


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    """With small internal topics: most of the tests make them."""
    return brokers.start(SMALL)


@pytest.fixture
def topic(wire: Wire) -> bytes:
    """Its id."""
    (topic_id,) = create(wire, wanted(TOPIC))
    return topic_id


# Versions and the first request.


def test_01_produce_is_listed_from_0_or_old_librdkafka_does_not_compress(wire):
    assert listed(wire)[0] == (0, 13)


def of_the_future(wire: Wire) -> tuple[int, ApiVersionsRequest]:
    wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    return frames.decode_response(18, 0, wire.read_frame())


def test_02_api_versions_of_the_future_is_answered_in_version_0_with_35(wire):
    correlation_id, answer = of_the_future(wire)
    assert (correlation_id, answer.error_code) == (7, 35)
    assert (18, 0, 4) in [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys]


def test_03_api_versions_of_the_future_leaves_the_connection_open_for_another_try(wire):
    for _ in range(3):
        of_the_future(wire)
    assert listed(wire)[18] == (0, 4)


@pytest.mark.parametrize("version", [3, 4])
def test_04_api_versions_3_has_an_old_header_and_a_compact_array(wire, version):
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    wire.socket.sendall(frames.encode_request(18, version, 0x01020304, None, request))
    frame = wire.read_frame()
    # Correlation id, no tagged fields; error code 0; count + 1 in one byte.
    assert frame[:6] == b"\1\2\3\4\0\0"
    assert frame[6] == len(listed(wire)) + 1


@pytest.mark.parametrize("version", [0, 12])
def test_05_null_client_id(broker, version):
    with Wire(broker.bootstrap_servers, client_id=None) as wire:
        assert [node.node_id for node in wire.ask(MetadataRequest(topics=[]), version).brokers] == [0]


@pytest.mark.parametrize("item", [6, 7, 8, 9])
def test_06_to_09_sasl_is_not_listed_while_nobody_would_check_a_password(wire, item):
    assert not {17, 36} & set(listed(wire)), item


# Idempotent producers.


@pytest.mark.parametrize("version", range(6))
def test_10_producer_id_for_a_producer_without_transactions(wire, version):
    given = [wire.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(2)]
    assert [(answer.error_code, answer.producer_epoch) for answer in given] == [(0, 0), (0, 0)]
    assert 0 <= given[0].producer_id < given[1].producer_id


def numbered(sequence: int, *written: bytes, producer_id: int = 7) -> bytes:
    return batch(*written, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def test_11_each_of_the_last_five_batches_may_be_repeated_and_is_written_once(wire, topic):
    for sequence in range(8):
        assert produce(wire, numbered(sequence, b"v")).base_offset == sequence
    for sequence in range(3, 8):
        repeated = produce(wire, numbered(sequence, b"v"))
        assert (repeated.error_code, repeated.base_offset) == (0, sequence)
    assert produce(wire, numbered(9, b"v")).error_code == 45
    assert offset_at(wire, -1).offset == 8


def test_12_batches_in_flight_together_are_appended_in_their_order(wire, topic):
    requests = [
        frames.encode_request(0, 9, number, "x", produce_request(numbered(number, b"%d" % number))) for number in range(20)
    ]
    wire.socket.sendall(b"".join(requests))
    answers = [frames.decode_response(0, 9, wire.read_frame()) for _ in requests]
    found = [(number, answer.responses[0].partition_responses[0].base_offset) for number, answer in answers]
    assert found == [(number, number) for number in range(20)]
    assert values(fetch(wire).records) == [b"%d" % number for number in range(20)]


def test_13_producer_that_the_broker_has_forgotten_goes_on_where_it_is(wire, topic):
    """Its state expired while it was idle: what it sends next is not out of order."""
    assert produce(wire, numbered(41, b"first that is known")).error_code == 0
    assert produce(wire, numbered(42, b"next")).error_code == 0


def test_14_sequence_goes_on_at_0_behind_the_largest(wire, topic):
    assert produce(wire, numbered(2**31 - 2, b"a")).base_offset == 0
    assert produce(wire, numbered(2**31 - 1, b"b", b"c", b"d")).base_offset == 1
    assert produce(wire, numbered(1, b"too early")).error_code == 45
    assert produce(wire, numbered(2, b"e")).base_offset == 4
    assert produce(wire, numbered(2**31 - 1, b"b", b"c", b"d")).base_offset == 1


# Transactions, and who reads what of them.


def test_15_aborted_ranges_are_for_read_committed_only(wire, topic):
    producer = Transactional(wire, "t")
    producer.write(b"aborted")
    assert producer.end(committed=False) == 0
    assert produce(wire, batch(b"kept")).error_code == 0
    everything = fetch(wire, isolation_level=0)
    assert everything.aborted_transactions is None
    assert values(everything.records) == [b"aborted", b"kept"]
    assert len(fetch(wire, isolation_level=READ_COMMITTED).aborted_transactions) == 1


def test_16_aborted_list_is_sorted_by_first_offset(wire, topic):
    first, second, third = (Transactional(wire, name) for name in "abc")
    offsets = {producer.producer_id: producer.write(b"v") for producer in (first, second, third)}
    for producer in (third, first, second):
        assert producer.end(committed=False) == 0
    found = fetch(wire, isolation_level=READ_COMMITTED).aborted_transactions
    assert [(row.producer_id, row.first_offset) for row in found] == sorted(offsets.items(), key=lambda pair: pair[1])


def test_17_last_stable_offset_is_the_first_that_is_not_stable(wire, topic):
    nothing = fetch(wire, isolation_level=READ_COMMITTED)
    assert (nothing.error_code, nothing.last_stable_offset, bytes(nothing.records)) == (0, 0, b"")
    produce(wire, batch(b"stable"))
    assert Transactional(wire, "t").write(b"open") == 1
    found = fetch(wire, isolation_level=READ_COMMITTED)
    assert (found.last_stable_offset, found.high_watermark, values(found.records)) == (1, 2, [b"stable"])
    at_it = fetch(wire, 1, isolation_level=READ_COMMITTED)
    assert (at_it.error_code, bytes(at_it.records)) == (0, b"")


def test_18_read_committed_ends_at_the_last_stable_offset_until_the_marker_is_there(wire, topic):
    producer = Transactional(wire, "t")
    producer.write(b"in a transaction")
    produce(wire, batch(b"behind it"))
    assert values(fetch(wire, isolation_level=READ_COMMITTED).records) == []
    assert values(fetch(wire, isolation_level=0).records) == [b"in a transaction", b"behind it"]
    assert offset_at(wire, -1, isolation=READ_COMMITTED).offset == 0
    assert producer.end(committed=True) == 0
    assert values(fetch(wire, isolation_level=READ_COMMITTED).records) == [b"in a transaction", b"behind it"]


@pytest.mark.parametrize(("is_committed", "offset"), [(True, 5), (False, 3)])
def test_19_offsets_of_a_transaction_are_unstable_until_it_ends_and_not_longer(wire, topic, is_committed, offset):
    assert commit(wire, "g", 3) == 0
    producer = Transactional(wire, "t")
    producer.commit_offset("g", 5)
    assert (committed(wire, "g", stable=True).error_code, committed(wire, "g").committed_offset) == (88, 3)
    assert producer.end(committed=is_committed) == 0
    found = committed(wire, "g", stable=True)
    assert (found.error_code, found.committed_offset) == (0, offset)


@pytest.mark.parametrize("version", range(6))
def test_20_end_of_a_transaction_that_is_none_is_an_error_with_a_name(wire, topic, version):
    def end(name: str, producer_id: int, epoch: int) -> int:
        request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
        return wire.ask(request, version).error_code

    assert end("nobody", 5, 0) == 49
    producer = Transactional(wire, "t")
    assert end("t", producer.producer_id + 1, 0) == 49
    assert end("t", producer.producer_id, 7) in (47, 90)
    assert end("t", producer.producer_id, producer.epoch) == 48


def test_21_transaction_timeout_above_the_limit(wire):
    assert [Transactional(wire, "t", timeout_ms=timeout).error for timeout in (900_001, 0, -1, 900_000)] == [50, 50, 50, 0]


# Fetch.


@pytest.mark.parametrize("version", range(4, 13))
def test_22_offset_inside_a_batch_gets_the_whole_batch(wire, topic, version):
    produce(wire, batch(b"a", b"b", b"c"))
    assert values(fetch(wire, 1, version=version).records) == [b"a", b"b", b"c"]


def test_23_fetch_that_runs_out_of_time_is_empty_and_no_error(wire, topic):
    found = fetch(wire, max_wait_ms=20, min_bytes=1000)
    assert (found.error_code, bytes(found.records)) == (0, b"")


def test_24_no_preferred_replica_where_there_is_one_replica(wire, topic):
    produce(wire, batch(b"v"))
    for rack in ("", "r1"):
        assert fetch(wire, rack_id=rack).preferred_read_replica == -1


def open_session(wire: Wire) -> int:
    answer = wire.ask(fetch_request(session_id=0, session_epoch=0), 11)
    assert answer.error_code == 0 and answer.session_id > 0
    return answer.session_id


def test_25_session_id_is_in_every_answer_of_the_session_also_in_empty_ones(wire, topic):
    session = open_session(wire)
    for epoch in (1, 2, 3):
        answer = wire.ask(FetchRequest(session_id=session, session_epoch=epoch, max_wait_ms=0, max_bytes=1 << 20), 11)
        assert (answer.error_code, answer.session_id, answer.responses) == (0, session, [])


def test_26_session_whose_client_never_forgets_a_partition_goes_on(wire, topic):
    """Its topic is deleted: the partition is an error in each answer, the session stays, and a new topic can be added to it."""
    session = open_session(wire)
    assert wire.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 5).responses[0].error_code == 0
    create(wire, wanted("other"))
    produce(wire, batch(b"v"), topic="other")
    request = fetch_request(topic="other", session_id=session, session_epoch=1)
    for epoch in (1, 2):
        request.session_epoch = epoch
        answer = wire.ask(request, 11)
        found = {each.topic: each.partitions[0].error_code for each in answer.responses}
        assert (answer.error_code, answer.session_id, found) == (0, session, {TOPIC: 3, "other": 0})


def test_27_versions_with_topic_ids_are_listed_together_and_ids_are_not_zero(wire, topic):
    versions = listed(wire)
    assert versions[1][1] >= 13 and versions[0][1] >= 13 and versions[8][1] >= 10 and versions[3][1] >= 12
    for version in (10, 11, 12, 13):
        (found,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)]), version).topics
        assert found.topic_id == topic != bytes(16)


def test_28_fetch_is_listed_up_to_12_at_least_and_all_of_it_is_served(wire, topic):
    first, last = listed(wire)[1]
    assert (first, last) == (4, 18)
    for version in range(first, 13):
        assert fetch(wire, version=version).error_code == 0


def test_29_leader_epoch_is_known_is_the_same_everywhere_and_never_goes_back(brokers):
    broker = brokers.start()
    seen = []
    for _ in range(3):
        with Wire(broker.bootstrap_servers) as wire:
            if not seen:
                create(wire, wanted(TOPIC))
            produce(wire, batch(b"v"))
            epoch = metadata(wire, TOPIC)[0].partitions[0].leader_epoch
            assert offset_at(wire, -1).leader_epoch == epoch >= 0
            part = FetchRequest.Topic.Partition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1000)
            request = FetchRequest(max_bytes=1000, topics=[FetchRequest.Topic(topic=TOPIC, partitions=[part])])
            assert wire.ask(request, 12).responses[0].partitions[0].error_code == 0
            seen.append(epoch)
        brokers.stop(broker)
        broker = brokers.start()
    assert seen == sorted(seen)


def test_30_metadata_is_listed_as_far_as_kafka_lists_it_and_all_of_it_is_served(wire, topic):
    assert listed(wire)[3] == BY_KEY[3].known == (0, 13)
    for version in range(14):
        answer = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)]), version)
        assert [(found.name, found.error_code) for found in answer.topics] == [(TOPIC, 0)]

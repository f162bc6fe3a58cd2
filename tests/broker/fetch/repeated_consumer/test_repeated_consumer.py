"""Consumers that fetch again and again are answered alike, whether their fetches are known or each is the first of its kind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from milepost.broker.authorizer import Access
from milepost.broker.broker import Broker
from milepost.broker.fetch import partition_read
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.log.log import Log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from milepost.security.acls import Operation
from tests.broker.fetch.readers import FAR_AWAY, PARTITIONS, Reader, at, named, offsets
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, delete, produce, wanted
from tests.broker.wire import Wire
from tests.waiting import until


@pytest.mark.parametrize("version", range(4, 19))
def test_records_follow_each_other_in_every_version(way, version, connection, wire):
    reader = Reader(connection, version=version).warm(0)
    for offset in range(5):
        produce(wire, "t", [b"v%d" % offset])
        assert offsets(reader.ask(at(0, offset))[0]) == [offset]


@pytest.mark.parametrize("version", range(7, 19))
def test_session_goes_on_in_every_version(way, version, connection, wire):
    reader = Reader(connection, version=version, in_session=True)
    assert reader.ask(*(at(number, 0) for number in range(PARTITIONS))).keys() == {0, 1, 2, 3}
    assert reader.ask() == {}
    for offset in range(5):
        produce(wire, "t", [b"v"], partition=2)
        found = reader.ask(at(2, offset))
        assert found.keys() == {2}
        assert offsets(found[2]) == [offset]
        assert (found[2].high_watermark, found[2].last_stable_offset, found[2].log_start_offset) == (offset + 1, offset + 1, 0)
    assert reader.ask(at(2, 5)) == {}


def test_full_request_names_its_partitions_in_any_order(way, connection, wire):
    for number in range(PARTITIONS):
        produce(wire, "t", [b"v", b"w"], partition=number)
    reader = Reader(connection).warm(0, 1, 2, 3)
    for order in ([3, 2, 1, 0], [1], [0, 3], [2, 0, 1]):
        reader.send(*(at(number, 1) for number in order))
        topics = reader.answer().responses
        assert [part.partition_index for part in topics[0].partitions] == order
        assert [offsets(part) for part in topics[0].partitions] == [[0, 1]] * len(order)


def test_what_was_read_is_read_again(way, reader, wire):
    for offset in range(10):
        produce(wire, "t", [b"v%d" % offset])
    reader.warm(0)
    for start in (9, 0, 9, 9, 4, 4, 0):
        assert offsets(reader.ask(at(0, start))[0]) == list(range(start, 10))


def test_partition_that_is_named_twice_counts_once_as_it_was_named_last(way, reader, wire):
    produce(wire, "t", [b"v"])
    produce(wire, "t", [b"w"])
    reader.warm(0)
    reader.send(at(0, 0), at(0, 1))
    (part,) = reader.answer().responses[0].partitions
    assert offsets(part) == [1]
    assert offsets(reader.ask(at(0, 0))[0]) == [0, 1]


def test_partition_that_was_not_named_before(way, connection, wire):
    reader = Reader(connection).warm(0)
    produce(wire, "t", [b"v"], partition=3)
    assert reader.ask(at(0, 0), at(3, 0)).keys() == {0, 3}
    assert offsets(reader.ask(at(3, 0), at(0, 0))[3]) == [0]


# Limits.


def test_first_batch_is_whole_and_the_rest_within_the_limits(way, reader, wire):
    for number in range(PARTITIONS):
        for _ in range(3):
            produce(wire, "t", [b"v" * 1000], partition=number)
    (size,) = {len(part.records) for part in reader.warm(0, 1, 2, 3).ask(at(0, 2), at(1, 2), at(2, 2), at(3, 2)).values()}
    found = reader.ask(at(0, 0, 1), at(1, 0, 1), at(2, 0, size), at(3, 0, 2 * size + 1))
    assert [len(found[number].records) for number in range(PARTITIONS)] == [size, 1, size, 2 * size + 1]
    whole = Reader(reader.wire, max_bytes=2 * size + 5).warm(0, 1, 2, 3)
    found = whole.ask(*(at(number, 0) for number in range(PARTITIONS)))
    assert [len(found[number].records) for number in range(PARTITIONS)] == [2 * size + 5, 0, 0, 0]


def test_answer_is_no_larger_than_the_broker_allows(way, brokers):
    broker = brokers.start({"fetch.max.bytes": "2048"})
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as connection:
        create(wire, wanted("t", 1))
        for _ in range(5):
            produce(wire, "t", [b"v" * 900])
        reader = Reader(connection).warm(0)
        assert len(reader.ask(at(0, 0))[0].records) == 2048


@pytest.mark.parametrize("size", [100, partition_read.SMALL - 100, partition_read.SMALL + 100, 300_000])
def test_records_of_any_size_are_what_was_produced(way, reader, wire, size):
    values = [os.urandom(size) for _ in range(3)]
    reader.warm(0)
    for offset, value in enumerate(values):
        produce(wire, "t", [value])
        part = reader.ask(at(0, offset))[0]
        assert offsets(part) == [offset]
        assert value in bytes(part.records)


# Waiting.


def test_fetch_waits_for_records(way, broker, reader, wire):
    reader.fields["max_wait_ms"] = 50_000
    reader.warm(0, 1)
    for offset in range(3):
        reader.send(at(0, offset), at(1, 0))
        until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
        produce(wire, "t", [b"v"])
        assert offsets(reader.answer_of(0)) == [offset]
    assert on_loop(broker, lambda: broker.replicas.purgatory.watchers) == {}


def test_bytes_of_all_partitions_count_towards_the_least(way, broker, reader, wire):
    produce(wire, "t", [b"v"])
    size = len(reader.warm(0, 1).ask(at(0, 0), at(1, 0))[0].records)
    waiting = Reader(reader.wire, in_session=reader.in_session, max_wait_ms=50_000, min_bytes=3 * size).warm(0, 1)
    waiting.send(at(0, 0), at(1, 0))
    for _ in range(2):
        until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
        produce(wire, "t", [b"v"], partition=1)
    found = named(waiting.answer())
    assert [len(found[number].records) for number in (0, 1)] == [size, 2 * size]


def test_fetch_that_brings_nothing_is_answered_when_its_time_is_over(way, reader, wire):
    produce(wire, "t", [b"v"])
    reader.fields["max_wait_ms"] = 20
    reader.warm(0)
    for _ in range(3):
        found = reader.ask(at(0, 1))
        assert [(part.error_code, part.high_watermark, len(part.records)) for part in found.values()] in ([(0, 1, 0)], [])


def test_answers_of_a_client_that_went_while_it_waited_are_dropped(way, broker, reader, wire):
    reader.fields["max_wait_ms"] = 50_000
    reader.warm(0)
    reader.send(at(0, 0))
    until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
    reader.wire.close()
    until(lambda: on_loop(broker, lambda: known(broker)) == [])
    produce(wire, "t", [b"v"])
    assert on_loop(broker, lambda: broker.replicas.purgatory.watchers) == {}
    assert broker.replicas.topic_metrics.of("t").bytes_out == 0


# Topics that go and come.


@pytest.mark.parametrize(("version", "error_code"), [(12, 3), (16, 100)])
def test_topic_that_is_gone_is_unknown(way, version, error_code, connection, wire):
    reader = Reader(connection, version=version).warm(0)
    assert reader.ask(at(0, 0))[0].error_code == 0
    delete(wire, "t")
    assert [reader.ask(at(0, 0))[0].error_code for _ in range(3)] == [error_code] * 3


@pytest.mark.parametrize("in_session", [True, False])
def test_topic_that_was_made_again_is_another_by_its_id_and_the_same_by_its_name(way, in_session, connection, wire):
    produce(wire, "t", [b"old", b"old"])
    with Wire(connection._address) as other:
        by_name = Reader(connection, version=12, in_session=in_session).warm(0)
        by_id = Reader(other, in_session=in_session).warm(0)
        for reader in (by_name, by_id):
            assert offsets(reader.ask(at(0, 0))[0]) == [0, 1]
        delete(wire, "t")
        create(wire, wanted("t", PARTITIONS))
        produce(wire, "t", [b"new"])
        assert b"new" in bytes(by_name.ask(at(0, 0))[0].records)
        assert [by_id.ask(at(0, 0))[0].error_code for _ in range(2)] == [100, 100]


# What is counted, and what is known.


def test_fetches_are_counted(way, broker, connection, wire):
    produce(wire, "t", [b"v"])
    reader = Reader(connection).warm(0, 1)
    size = 0
    for _ in range(10):
        size += len(reader.ask(at(0, 0), at(1, 0))[0].records)
    metrics = broker.replicas.topic_metrics.of("t")
    assert (metrics.fetch_requests, metrics.failed_fetch_requests, metrics.bytes_out) == (24, 0, size)
    meter = broker.request_metrics.meter("Fetch", 16, "FetchConsumer")
    assert on_loop(broker, lambda: meter.requests) == 12
    errors = meter.errors + type(meter.errors)({0: meter.successes})
    assert errors == {0: 12 + 20, 1: 4}


def known(broker: Broker) -> list[bool]:
    """Of each connection, whether there is something that its fetches are compared with."""
    channels = [channel for processor in broker.server.processors for channel in processor.channels.values()]
    return [channel.state["fetch"] is not None for channel in channels if "fetch" in channel.state]


def test_what_many_partitions_or_long_names_would_take_is_not_kept(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers, client_id="c" * 2000) as stranger:
        create(wire, wanted("t", 101))
        reader = Reader(wire)
        reader.ask(*(at(number, 0) for number in range(101)))
        assert on_loop(broker, lambda: known(broker)) == [False]
        reader.ask(*(at(number, 0) for number in range(100)))
        assert on_loop(broker, lambda: known(broker)) == [True]
        Reader(stranger).ask(at(0, 0))
        assert on_loop(broker, lambda: known(broker)) == [True, False]


class Rules:
    """Some topics may not be read."""

    allows_everything = False

    def __init__(self) -> None:
        self.generation = 1
        self.denied: set[str] = set()

    def denies(self, access: Access, context: object) -> str | None:
        return "not for you" if access.operation is Operation.READ and access.name in self.denied else None

    def note_denial(self, access, requester) -> None:
        """The answers say it."""


@pytest.fixture
def rules(tmp_path) -> Iterator[tuple[Rules, Wire]]:
    """A broker that asks them of each topic of a fetch."""

    rules = Rules()
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    with Life(AloneBroker(settings, authorizer=rules)) as broker, Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"), wanted("secret"))
        yield rules, wire


def test_rules_that_changed_are_asked_again(way, rules):
    authorizer, wire = rules
    reader = Reader(wire, version=12).warm(0)
    taken = way.taken
    assert reader.ask(at(0, 0))[0].error_code == 0
    assert way.taken == taken + way.is_repeated
    authorizer.generation, authorizer.denied = 2, {"t"}
    assert [reader.ask(at(0, 0))[0].error_code for _ in range(2)] == [29, 29]
    authorizer.generation, authorizer.denied = 3, set()
    assert [reader.ask(at(0, 0))[0].error_code for _ in range(2)] == [0, 0]
    assert way.taken == taken + 3 * way.is_repeated


def test_topic_that_is_denied_is_so_each_time(way, rules):
    authorizer, wire = rules
    authorizer.denied = {"secret"}
    reader = Reader(wire, version=12)
    for topics in (["t", "secret"], ["t"], ["t"], ["secret"], ["t", "secret"], ["t"], ["t"]):
        parts = [FetchRequest.Topic(topic=topic, partitions=[at(0, 0)]) for topic in topics]
        wire.send(FetchRequest(topics=parts, session_epoch=-1, **reader.fields), reader.version)
        found = {topic.topic: topic.partitions[0].error_code for topic in reader.answer().responses}
        assert found == {topic: 29 if topic == "secret" else 0 for topic in topics}


def test_read_of_the_log_happens_once_for_a_reader_that_keeps_up(way, reader, wire, monkeypatch):
    """It goes on where its last read ended."""
    reads = []
    read = Log.read
    monkeypatch.setattr(Log, "read", lambda self, *given, **named: reads.append(self) or read(self, *given, **named))
    reader.warm(0)
    before = len(reads)
    for offset in range(5):
        produce(wire, "t", [b"v"])
        assert offsets(reader.ask(at(0, offset))[0]) == [offset]
    assert len(reads) - before == (1 if way.is_repeated or reader.in_session else 5)


def test_time_that_a_fetch_waits_is_not_its_handlers(way, broker, connection):
    reader = Reader(connection, max_wait_ms=20).warm(0)
    for _ in range(3):
        assert offsets(reader.ask(at(0, 0))[0]) == []
    meter = broker.request_metrics.meter("Fetch", 16, "FetchConsumer")
    on_loop(broker, meter.settle)
    assert meter.groups[1].times["RemoteTimeMs"].total > 0


def test_answers_carry_the_number_of_their_request(way, connection, wire):
    produce(wire, "t", [b"v"])
    reader = Reader(connection).warm(0)
    connection._correlation_id = -100
    for offset in (0, FAR_AWAY):
        reader.send(at(0, offset))
        assert frames.decode_response(1, 16, connection.read_frame())[0] == connection._correlation_id < 0


def test_open_transaction_holds_records_back_and_is_named_once_it_is_aborted(way, broker, reader, wire):
    reader.fields["isolation_level"] = 1
    reader.warm(0)
    produce(wire, "t", [b"v"])
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    batch = build_batch([Record(0, 1, b"k", b"open")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    broker.logs.verifies_transactions = False
    on_loop(broker, lambda: broker.replicas.partition_of("t", 0).append(batch))
    for offset, expected in ((1, []), (0, [0]), (1, []), (2, [])):
        part = reader.ask(at(0, offset)).get(0)
        assert part is None or (offsets(part), part.last_stable_offset, part.high_watermark) == (expected, 1, 2)
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    end = end_transaction_batch(marker, offset=0, timestamp=1, producer_id=1, producer_epoch=0)
    on_loop(broker, lambda: broker.replicas.partition_of("t", 0).append(end, AppendOrigin.COORDINATOR))
    for _ in range(3):
        part = reader.ask(at(0, 1))[0]
        assert [(each.producer_id, each.first_offset) for each in part.aborted_transactions] == [(1, 1)]
        assert (offsets(part), part.last_stable_offset) == ([1, 2], 3)

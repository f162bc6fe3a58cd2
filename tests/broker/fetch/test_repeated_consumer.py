"""Consumers that fetch again and again are answered alike, whether their fetches are known or each is the first of its kind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from milepost.broker.authorizer import Access
from milepost.broker.broker import Broker
from milepost.broker.fetch import partition_read
from milepost.broker.fetch.consumer import Consumer
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.log.log import Log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.protocol import frames
from milepost.protocol.consumer_fetch_frames import ConsumerFetchFrame
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteRecordsRequest, FetchRequest
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from milepost.security.acls import Operation
from milepost.segment.file_records import FileRecords
from tests.broker.attaching import attached
from tests.broker.fetch.readers import FAR_AWAY, Reader, at, named, offsets
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, delete, produce, wanted
from tests.broker.wire import Wire
from tests.golden_fixture import Golden
from tests.waiting import until

PARTITIONS = 4


@pytest.fixture
def broker(brokers) -> Broker:
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", PARTITIONS))
    return broker


@pytest.fixture
def connection(broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture(params=["session", "sessionless"])
def reader(request: pytest.FixtureRequest, connection) -> Reader:
    return Reader(connection, in_session=request.param == "session")


def delete_records(wire: Wire, partition: int, offset: int) -> None:
    topic = DeleteRecordsRequest.Topic
    part = topic.Partition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[topic(name="t", partitions=[part])], timeout_ms=60_000)
    assert wire.ask(request, 2).topics[0].partitions[0].error_code == 0


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


@pytest.mark.parametrize(("opened", "continued"), [(12, 16), (12, 18), (13, 12), (18, 11)])
def test_session_by_name_is_not_gone_on_with_by_id(opened, continued, connection, wire):
    """Nor the other way round: a client learns the id of a topic late, when the broker has just come back."""
    produce(wire, "t", [b"v"])
    reader = Reader(connection, version=opened, in_session=True).warm(0)
    reader.version = continued
    for parts in ([], [at(0, 0)], []):
        reader.send(*parts)
        assert (reader.answer().error_code, reader.session_epoch) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 3)
        reader.session_epoch = 2
    reader.session_epoch = 0
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    assert reader.ask(at(0, 1)) == {}


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


# Errors.


def test_offset_that_is_not_there_is_told_with_those_that_are(way, reader, wire):
    produce(wire, "t", [b"v", b"w"])
    reader.warm(0)
    part = reader.ask(at(0, 3))[0]
    assert (part.error_code, part.high_watermark, part.last_stable_offset, part.log_start_offset) == (1, 2, 2, 0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0, 1]


def test_log_start_that_moved_is_told(way, reader, wire):
    for _ in range(4):
        produce(wire, "t", [b"v"])
    reader.warm(0)
    assert offsets(reader.ask(at(0, 3))[0]) == [3]
    delete_records(wire, 0, 2)
    part = reader.ask(at(0, 2))[0]
    assert (offsets(part), part.log_start_offset) == ([2, 3], 2)
    delete_records(wire, 0, 4)
    assert [(part.error_code, part.log_start_offset) for part in reader.ask(at(0, 2)).values()] == [(1, 4)]
    assert [(part.error_code, part.log_start_offset) for part in reader.ask(at(0, 3)).values()] == [(1, 4)]


def test_leader_epoch_of_the_past_is_fenced_and_of_the_future_unknown(way, broker, reader, wire):
    produce(wire, "t", [b"v"])
    reader.warm(0)
    assert offsets(reader.ask(at(0, 0, current_leader_epoch=0))[0]) == [0]
    assert reader.ask(at(0, 0, current_leader_epoch=1))[0].error_code == 75
    partition = broker.replicas.partition_of("t", 0)
    on_loop(broker, lambda: setattr(partition, "leader_epoch", 1))
    assert reader.ask(at(0, 0, current_leader_epoch=0))[0].error_code == 74
    assert offsets(reader.ask(at(0, 0, current_leader_epoch=1))[0]) == [0]


def test_read_that_fails_is_told_of_its_partition(way, reader, wire, monkeypatch):
    for number in (0, 1):
        produce(wire, "t", [b"v"], partition=number)
    reader.warm(0, 1)
    assert reader.ask(at(0, 0), at(1, 0)).keys() == {0, 1}

    def fails(self: FileRecords, position: int, size: int) -> bytes:
        if "t-0" in self.path:
            raise OSError(5, "Input/output error")
        return read(self, position, size)

    read = FileRecords.read
    with monkeypatch.context() as patch:
        patch.setattr(FileRecords, "read", fails)
        found = reader.ask(at(0, 0), at(1, 0))
        assert [(found[number].error_code, offsets(found[number])) for number in (0, 1)] == [(56, []), (0, [0])]
    assert offsets(reader.ask(at(0, 0))[0]) == [0]


@pytest.mark.parametrize("waits", [False, True])
def test_records_that_cannot_be_sent_end_that_connection_and_no_other(way, broker, reader, wire, monkeypatch, waits):
    """They go from the file to the socket when the answer has begun, so there is nobody left to tell."""
    reader.fields["max_wait_ms"] = 50_000
    reader.warm(0)
    produce(wire, "t", [b"small"])
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    large = b"v" * (2 * partition_read.SMALL)

    def fails(self: object, target: int, fd: int, position: int, size: int) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(type(broker.logs.disk), "sendfile", fails)
        if waits:
            reader.send(at(0, 1))
        produce(wire, "t", [large])
        if not waits:
            reader.send(at(0, 1))
        with pytest.raises(ConnectionError):
            reader.answer()
    assert offsets(Reader(wire).ask(at(0, 1))[0]) == [1]


def test_directory_that_failed_is_told_of(way, broker, reader, wire):
    produce(wire, "t", [b"v"])
    reader.warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    log = broker.replicas.partition_of("t", 0).log
    on_loop(broker, lambda: setattr(log, "is_failed", True))
    assert reader.ask(at(0, 0))[0].error_code == 56
    on_loop(broker, lambda: setattr(log, "is_failed", False))


def test_error_of_ours_ends_the_connection_and_not_the_broker(way, reader, wire, monkeypatch, caplog):
    produce(wire, "t", [b"v"])
    reader.warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    with monkeypatch.context() as patch:
        patch.setattr(Consumer, "count_bytes", lambda self, partition, size: [][0])
        with pytest.raises(ConnectionError):
            reader.ask(at(0, 0))
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage().startswith("Fetch 16 from ")
    caplog.clear()
    assert produce(wire, "t", [b"v"]) == 1


def test_error_of_ours_while_a_fetch_waits_ends_the_connection(way, broker, reader, wire, monkeypatch, caplog):
    reader.fields["max_wait_ms"] = 50_000
    reader.warm(0)
    reader.send(at(0, 0))
    until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
    with monkeypatch.context() as patch:
        patch.setattr(Consumer, "count_bytes", lambda self, partition, size: [][0])
        produce(wire, "t", [b"v"])
        with pytest.raises(ConnectionError):
            reader.answer()
    assert [record.getMessage()[:14] for record in caplog.records if record.exc_info] == ["Fetch 16 from "]
    caplog.clear()


def test_request_that_repeats_itself_without_end_is_not_read_in_one_go(way, reader, wire, monkeypatch):
    produce(wire, "t", [b"v"])
    reader.warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    sizes = []
    read, make = ConsumerFetchFrame.read, ConsumerFetchFrame.__init__
    monkeypatch.setattr(ConsumerFetchFrame, "read", lambda self, frame: sizes.append(len(frame)) or read(self, frame))
    monkeypatch.setattr(
        ConsumerFetchFrame, "__init__", lambda self, version, frame: sizes.append(len(frame)) or make(self, version, frame)
    )
    for _ in range(2):
        answer = reader.ask(*[at(0, 0)] * 2000)
        assert offsets(answer[0]) == [0]
    assert max(sizes, default=0) <= 32 << 10


def test_partition_that_another_broker_may_lead_now_is_refused(way, broker, reader, wire):
    produce(wire, "t", [b"v"])
    reader.fields["max_wait_ms"] = 50_000
    reader.warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]

    def suspend() -> None:
        partition = broker.replicas.partition_of("t", 0)
        partition.has_one_replica = False
        partition.suspend()

    on_loop(broker, suspend)
    assert [reader.ask(at(0, offset))[0].error_code for offset in (1, 0)] == [6, 6]


def test_client_is_sent_to_a_nearer_replica_each_time(way, brokers, monkeypatch):
    nearer = [-1]
    monkeypatch.setattr(Broker, "nearer_replica", lambda self, partition, rack, offset: nearer[0] if rack == "r" else -1)
    broker = brokers.start({"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
    for in_session in (True, False):
        with Wire(broker.bootstrap_servers) as wire:
            reader = Reader(wire, in_session=in_session, rack_id="r", max_wait_ms=50_000).warm(0)
            nearer[0] = -1
            produce(wire, "t", [b"v"])
            assert reader.ask(at(0, 0))[0].preferred_read_replica == -1
            nearer[0] = 7
            found = [reader.ask(at(0, 0)) for _ in range(2)]
            assert [(part[0].preferred_read_replica, part[0].error_code, offsets(part[0])) for part in found] == [(7, 0, [])] * 2


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


# Sessions.


def test_epoch_that_is_not_the_next_is_refused_and_changes_nothing(way, connection, wire):
    produce(wire, "t", [b"v"])
    reader = Reader(connection, in_session=True).warm(0)
    reader.ask(at(0, FAR_AWAY))
    for wrong in (-1, 1, 5, 1 << 30):
        reader.wire.send(reader.request(at(0, 0), session_epoch=reader.session_epoch + wrong), reader.version)
        assert reader.answer().error_code == 71
    assert offsets(reader.ask(at(0, 0))[0]) == [0]


def test_session_that_was_closed_is_not_found(way, connection, wire):
    reader = Reader(connection, in_session=True).warm(0)
    reader.ask(at(0, FAR_AWAY))
    with Wire(connection._address) as other:
        closing = FetchRequest(session_id=reader.session_id, session_epoch=-1, max_bytes=1 << 20)
        assert other.ask(closing, 16).session_id == 0
    reader.send(at(0, 0))
    assert reader.answer().error_code == 70


def test_session_of_another_connection_cannot_be_opened_anew_by_id_0(way, connection, wire):
    """The connection that opens a session is not taken for one that goes on with it."""
    Reader(connection, in_session=True).warm(0).ask(at(0, FAR_AWAY))
    opening = Reader(connection, in_session=True)
    opening.ask(at(0, 0))
    opening.session_id = 0
    opening.send(at(0, 0))
    assert opening.answer().error_code == 70


def test_client_without_a_session_may_ask_for_one_at_any_time(way, connection, wire):
    produce(wire, "t", [b"v"])
    reader = Reader(connection).warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    reader.session_epoch = 5
    reader.send(at(0, 0))
    assert reader.answer().error_code == 70
    reader.in_session, reader.session_epoch = True, 0
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    assert reader.session_id != 0
    assert reader.ask(at(0, 1)) == {}


def test_session_whose_place_another_took_is_not_found(way, connection, wire):
    reader = Reader(connection, in_session=True).warm(0)
    reader.ask(at(0, FAR_AWAY))
    old, reader.session_epoch = reader.session_id, 0
    reader.ask(at(0, FAR_AWAY))
    assert reader.session_id != old
    reader.session_id = old
    reader.send(at(0, 0))
    assert reader.answer().error_code == 70


def test_session_that_goes_on_on_another_connection_has_what_was_changed_there(way, connection, wire):
    for number in range(2):
        produce(wire, "t", [b"v"], partition=number)
    first = Reader(connection, in_session=True).warm(0)
    first.ask(at(0, 0))
    with Wire(connection._address) as other:
        second = Reader(other, in_session=True)
        second.session_id, second.session_epoch = first.session_id, first.session_epoch
        assert second.ask(at(1, 0)).keys() == {0, 1}
        first.session_epoch = second.session_epoch
        assert first.ask(at(0, 1), at(1, 0)).keys() == {1}
        second.session_epoch = first.session_epoch
        assert second.ask(at(1, 0)).keys() == {1}


def test_partition_that_another_connection_forgot_is_taken_in_again(way, connection, wire):
    for number in range(2):
        produce(wire, "t", [b"v"], partition=number)
    first = Reader(connection, in_session=True).warm(0, 1)
    assert first.ask(at(0, 0), at(1, 0)).keys() == {0, 1}
    with Wire(connection._address) as other:
        second = Reader(other, in_session=True)
        second.session_id, second.session_epoch = first.session_id, first.session_epoch
        forgotten = FetchRequest.ForgottenTopicsData(topic_id=first.topic_id, partitions=[1])
        assert second.ask(at(0, 0), forgotten_topics_data=[forgotten]).keys() == {0}
        first.session_epoch = second.session_epoch
    assert first.ask(at(0, 0), at(1, 0)).keys() == {0, 1}


def test_partition_that_is_forgotten_is_answered_no_more(way, connection, wire):
    for number in range(2):
        produce(wire, "t", [b"v"], partition=number)
    reader = Reader(connection, in_session=True).warm(0, 1)
    assert reader.ask(at(0, 0), at(1, 0)).keys() == {0, 1}
    forgotten = FetchRequest.ForgottenTopicsData(topic_id=reader.topic_id, partitions=[1])
    for _ in range(3):
        assert reader.ask(at(0, 0), forgotten_topics_data=[forgotten]).keys() == {0}
    assert reader.ask(at(0, 0), at(1, 0), forgotten_topics_data=[forgotten]).keys() == {0}
    for _ in range(2):
        produce(wire, "t", [b"v"], partition=1)
        assert reader.ask(at(0, 0)).keys() == {0}
    assert reader.ask(at(1, 0)).keys() == {0, 1}


def test_served_partitions_go_to_the_end_of_their_session(way, connection, wire):
    for number in range(3):
        for _ in range(2):
            produce(wire, "t", [b"v" * 100], partition=number)
    reader = Reader(connection, in_session=True, max_bytes=1)
    reader.ask(*(at(number, FAR_AWAY) for number in range(3)))
    reader.ask(*(at(number, FAR_AWAY) for number in range(3)))
    served = []
    for found in [reader.ask(*(at(number, 0) for number in range(3))), *(reader.ask() for _ in range(5))]:
        served += [number for number, part in found.items() if part.records]
    assert served == [0, 1, 2, 0, 1, 2]


# Damage.


def test_file_that_somebody_cut_is_damaged_not_the_connection(way, broker, reader, wire):
    produce(wire, "t", [b"v" * 100])
    reader.warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    log = broker.replicas.partition_of("t", 0).log
    with open(log.segments.active.log.path, "r+b") as file:
        file.truncate(50)
    assert reader.ask(at(0, 0))[0].error_code == 2


def test_damaged_batch_of_an_attached_directory_is_told_and_the_rest_read(way, golden: Golden):
    case = golden("unclean/kafka-3.9.1-badcrc-before")
    with (
        attached(case / "logdir") as broker,
        Wire(broker.bootstrap_servers) as wire,
        Wire(broker.bootstrap_servers) as connection,
    ):
        topic = next(name.topic for name in on_loop(broker, lambda: list(broker.replicas.partitions)))
        reader = Reader(connection, topic).warm(0)
        assert [reader.ask(at(0, offset))[0].error_code for offset in (114, 115, 118, 119)] == [0, 2, 2, 0]
        assert offsets(reader.ask(at(0, 119))[0])[0] <= 119
        assert wire


@pytest.mark.parametrize("in_session", [True, False])
def test_aborted_transactions_of_an_attached_directory_are_named(way, in_session, golden: Golden):
    with attached(golden("transactions/kafka-4.3.0") / "logdir") as broker, Wire(broker.bootstrap_servers) as connection:
        logs = on_loop(broker, lambda: {name: partition.log for name, partition in broker.replicas.partitions.items()})
        name, log = next((name, log) for name, log in logs.items() if log.read(log.start_offset, isolation="committed").aborted)
        expected = [
            (each.first_offset, each.producer_id)
            for each in on_loop(broker, lambda: log.read(log.start_offset, isolation="committed")).aborted or []
        ]
        committed = Reader(connection, name.topic, in_session=in_session, isolation_level=1).warm(name.partition)
        for _ in range(3):
            part = committed.ask(at(name.partition, log.start_offset))[name.partition]
            assert [(each.first_offset, each.producer_id) for each in part.aborted_transactions] == sorted(expected)
        uncommitted = Reader(connection, name.topic, in_session=in_session).warm(name.partition)
        part = uncommitted.ask(at(name.partition, log.start_offset))[name.partition]
        assert part.aborted_transactions is None


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

"""Repeated fetches of a consumer that cannot be answered as the last one was: errors, damage, partitions that moved."""

from __future__ import annotations

import pytest

from milepost.broker.broker import Broker
from milepost.broker.fetch import partition_read
from milepost.broker.fetch.consumer import Consumer
from milepost.protocol.consumer_fetch_frames import ConsumerFetchFrame
from milepost.protocol.messages import DeleteRecordsRequest
from milepost.segment.file_records import FileRecords
from tests.broker.attaching import attached
from tests.broker.fetch.readers import Reader, at, offsets
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire
from tests.golden_fixture import Golden
from tests.waiting import until


def delete_records(wire: Wire, partition: int, offset: int) -> None:
    topic = DeleteRecordsRequest.Topic
    part = topic.Partition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[topic(name="t", partitions=[part])], timeout_ms=60_000)
    assert wire.ask(request, 2).topics[0].partitions[0].error_code == 0


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

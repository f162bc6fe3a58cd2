"""Topics are made, grown and deleted in slices: others are served meanwhile, requests take turns, no end in between leaves half of it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from milepost.cluster.change_log import ChangeLog
from milepost.errors import KafkaStorage
from milepost.log.manager import LogManager
from milepost.protocol import frames
from milepost.protocol.messages import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from tests.broker.settings import GROUP, alter
from tests.broker.topics import create, delete, metadata, produce, wanted
from tests.broker.wire import Wire
from tests.hostile.besieged import ABORT
from tests.waiting import until

MANY = 400
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
def broker(brokers) -> Broker:
    return brokers.start()


@pytest.fixture
def wire(broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def other(broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def saves(monkeypatch) -> list[int]:
    """How many changes were written at a time."""
    found: list[int] = []
    append = ChangeLog.append

    def counted(log: ChangeLog, changes: list) -> None:
        found.append(len(changes))
        append(log, changes)

    monkeypatch.setattr(ChangeLog, "append", counted)
    return found


def creation(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[wanted(name, partitions) for name in names], timeout_ms=60_000)


def growth(name: str, total: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name=name, count=total, assignments=None)], timeout_ms=60_000
    )


def deletion(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name) for name in names], timeout_ms=60_000)


def read(wire: Wire, key: int, version: int):
    frame = wire.read_frame()
    return frames.decode_response(key, version, frame)[1]


def turns_of(other: Wire, wire: Wire) -> int:
    """How often another client is answered before this one is."""
    turns = 0
    wire.socket.setblocking(False)
    try:
        while True:
            try:
                wire.socket.recv(1, socket.MSG_PEEK)
                return turns
            except BlockingIOError:
                assert other.ask(HELLO, 3).error_code == 0
                turns += 1
    finally:
        wire.socket.setblocking(True)


def partition_count(wire: Wire, name: str) -> int:
    (topic,) = metadata(wire, name)
    return len(topic.partitions)


# Slices.


def test_others_are_served_while_partitions_are_made_added_and_taken_away(wire, other):
    for request, version in ((creation("t", partitions=MANY), 7), (growth("t", 2 * MANY), 3), (deletion("t"), 6)):
        wire.send(request, version)
        assert turns_of(other, wire) > 10
        wire.read_frame()


def test_topic_is_whole_when_its_creation_is_answered(wire, broker):
    create(wire, wanted("t", MANY))
    (topic,) = metadata(wire, "t")
    assert {part.leader_id for part in topic.partitions} == {broker.node_id}
    assert [part.partition_index for part in topic.partitions] == list(range(MANY))


@pytest.mark.parametrize("count", [1, 300])
def test_one_request_is_written_down_at_once(wire, saves, count):
    names = [f"topic-{number}" for number in range(count)]
    assert {topic.error_code for topic in wire.ask(creation(*names), 7).topics} == {0}
    assert saves == [count]
    saves.clear()
    resource = IncrementalAlterConfigsRequest.Resource
    change = [resource.Config(name="retention.ms", config_operation=0, value="5000")]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=2, resource_name=name, configs=change) for name in names]
    )
    assert {response.error_code for response in wire.ask(request, 1).responses} == {0}
    assert saves == [count]
    assert {response.error_code for response in wire.ask(request, 1).responses} == {0}
    assert saves == [count], "nothing has changed"
    saves.clear()
    assert {topic.error_code for topic in wire.ask(deletion(*names), 6).responses} == {0}
    assert saves == [count, count]


def test_topics_that_clients_ask_for_are_written_down_together(wire, saves):
    names = [f"topic-{number}" for number in range(100)]
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names], allow_auto_topic_creation=True)
    topics = wire.ask(asked, 12).topics
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in topics] == [(name, 0, 1) for name in names]
    assert saves == [100]


def test_settings_of_groups_are_written_down_together(wire, saves):
    resource = IncrementalAlterConfigsRequest.Resource
    change = [resource.Config(name="consumer.session.timeout.ms", config_operation=0, value="50000")]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=32, resource_name=f"nobody-{number}", configs=change) for number in range(200)]
    )
    assert {response.error_code for response in wire.ask(request, 1).responses} == {0}
    assert saves == [200]


def test_settings_of_so_many_groups_are_kept_and_no_more(wire, broker, monkeypatch):
    monkeypatch.setattr("milepost.broker.topology.alone_configs.MOST_GROUPS", 3)
    session = "consumer.session.timeout.ms"
    assert [alter(wire, GROUP, f"group-{number}", (session, 0, "50000"))[0] for number in range(4)] == [0, 0, 0, 44]
    assert alter(wire, GROUP, "group-1", (session, 0, "51000"))[0] == 0
    assert alter(wire, GROUP, "group-1", (session, 1, None))[0] == 0
    assert alter(wire, GROUP, "group-3", (session, 0, "50000"))[0] == 0


# Requests that meet.


def test_topic_that_is_being_made_exists_for_others_that_want_to_make_it(wire, other):
    wire.send(creation("t", partitions=MANY), 7)
    other.send(creation("t", partitions=3), 7)
    codes = [read(each, 19, 7).topics[0].error_code for each in (wire, other)]
    assert sorted(codes) == [0, 36]
    assert partition_count(wire, "t") == (MANY if codes[0] == 0 else 3)


def test_topic_that_is_being_deleted_can_be_made_again_when_it_is_gone(wire, other):
    create(wire, wanted("t", MANY))
    wire.send(deletion("t"), 6)
    assert other.ask(HELLO, 3).error_code == 0  # it has begun
    assert other.ask(creation("t", partitions=2), 7).topics[0].error_code == 0
    assert read(wire, 20, 6).responses[0].error_code == 0
    assert partition_count(wire, "t") == 2
    assert produce(wire, "t", [b"a"], 1) == 0


def test_topic_that_grows_and_is_deleted_at_once_is_gone(wire, other):
    create(wire, wanted("t", 2))
    wire.send(growth("t", MANY), 3)
    assert other.ask(HELLO, 3).error_code == 0
    delete(other, "t")
    assert read(wire, 37, 3).results[0].error_code == 0
    assert metadata(wire, "t")[0].error_code == 3


def test_changes_of_one_setting_after_the_other_are_both_made(wire, other):
    create(wire, wanted("t", MANY))
    resource = IncrementalAlterConfigsRequest.Resource
    for each, name in ((wire, "retention.ms"), (other, "segment.ms")):
        change = resource.Config(name=name, config_operation=0, value="77000")
        each.send(IncrementalAlterConfigsRequest(resources=[resource(resource_type=2, resource_name="t", configs=[change])]), 1)
    assert [read(each, 44, 1).responses[0].error_code for each in (wire, other)] == [0, 0]
    # On a broker that has only this to say about it.
    described = {"retention.ms": "77000", "segment.ms": "77000"}
    assert create_config(wire, "t") == described


def create_config(wire: Wire, name: str) -> dict[str, str]:
    from tests.broker.settings import configs

    return {key: found[0] for key, found in configs(wire, 2, name, "retention.ms", "segment.ms").items()}


# Ends in between.


def test_request_whose_client_goes_is_done_to_the_end(wire, other, broker):
    for request, version, count in ((creation("t", partitions=MANY), 7, MANY), (growth("t", 2 * MANY), 3, 2 * MANY)):
        wire.send(request, version)
        assert other.ask(HELLO, 3).error_code == 0
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        wire.reconnect()
        until(lambda count=count: len(broker.logs.logs) == count)
    wire.send(deletion("t"), 6)
    assert other.ask(HELLO, 3).error_code == 0
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    wire.reconnect()
    until(lambda: not broker.logs.logs)
    create(wire, wanted("t", 1))


def ended_after(monkeypatch, method: str, calls: int, error: Exception) -> None:
    """The log manager does so many of these, and then no more."""
    do, left = getattr(LogManager, method), [calls]

    def counted(*arguments, **named):
        if not left[0]:
            raise error
        left[0] -= 1
        return do(*arguments, **named)

    monkeypatch.setattr(LogManager, method, counted)


@pytest.mark.parametrize("calls", [0, 1, 7])
def test_start_makes_the_partitions_that_a_creation_did_not_come_to(brokers, monkeypatch, calls):
    broker = brokers.start()
    with monkeypatch.context() as context:
        ended_after(context, "create", calls, KafkaStorage("no directory takes it"))
        with Wire(broker.bootstrap_servers) as wire:
            assert wire.ask(creation("t", partitions=10), 7).topics[0].error_code == 56
            (topic,) = metadata(wire, "t")
            assert sum(part.leader_id >= 0 for part in topic.partitions) == calls
        brokers.stop(broker)
    with Wire(brokers.start().bootstrap_servers) as wire:
        (topic,) = metadata(wire, "t")
        assert [part.leader_id for part in topic.partitions] == [broker.node_id] * 10


@pytest.mark.parametrize("calls", [0, 1, 7])
def test_start_takes_away_what_a_deletion_did_not_come_to(brokers, monkeypatch, calls, caplog):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t", 10), wanted("other"))
        for number in range(10):
            produce(wire, "t", [b"a"], number)
        with monkeypatch.context() as context:
            ended_after(context, "delete", calls, RuntimeError("a bug"))
            wire.send(deletion("t"), 6)
            with pytest.raises(ConnectionError):
                wire.read_frame()
            caplog.clear()
            wire.reconnect()
            assert metadata(wire, "t")[0].error_code == 3
            assert wire.ask(creation("t"), 7).topics[0].error_code == 36
        directory = broker.logs.directories[0].path
        brokers.stop(broker)
    assert sum(name.startswith("t-") and "delete" not in name for name in os.listdir(directory)) == 10 - calls
    with Wire(brokers.start().bootstrap_servers) as wire:
        assert [topic.name for topic in metadata(wire)] == ["other"]
        create(wire, wanted("t", 1))
        assert produce(wire, "t", [b"b"]) == 0


def test_requests_of_a_hundred_bytes_that_make_ten_thousand_partitions_are_small():
    """The request that stopped everybody for seconds."""
    frame = frames.encode_request(19, 7, 1, "", creation("t", partitions=10_000))
    assert struct.unpack(">i", frame[:4])[0] < 60

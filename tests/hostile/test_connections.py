"""Connections that cost more than they give: N-04, N-15 to N-17, and everything that goes away half way."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

import pytest

from milepost.net.acceptor import KEEP_ALIVE
from milepost.net.slow_peers import FRAME_SECONDS, STUCK_SECONDS
from milepost.protocol import frames
from milepost.protocol.messages import ApiVersionsRequest, FetchRequest, MetadataRequest, ProduceRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.fuzz.driven_broker import DrivenBroker, Link
from tests.hostile.besieged import HEALTHY_TOPIC, NOW, fetch, produce
from tests.waiting import until

both_modes = pytest.mark.parametrize("broker", ["inline", "pooled"], indirect=True)
METADATA = frames.encode_request(3, 12, 7, "hostile", MetadataRequest(topics=[]))
BATCH = build_batch([Record(0, NOW, b"k", b"v" * 50), Record(1, NOW, b"k", b"w" * 50)], base_offset=0)


def produce_frame(topic: str) -> bytes:
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=0, records=memoryview(BATCH))
    return frames.encode_request(
        0, 9, 7, "hostile", ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data(name=topic, partition_data=[part])])
    )


def fetch_frame(topic: str, max_wait_ms: int = 0, min_bytes: int = 1, offset: int = 0) -> bytes:
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic=topic, partitions=[part])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=1 << 24, topics=topics)
    return frames.encode_request(1, 11, 7, "hostile", request)


# Bytes that come, and bytes that do not.


@both_modes
def test_every_cut_of_a_produce_and_a_fetch(broker):
    """Two writes with a pause between them, at every byte of both requests."""
    topic = f"cut-{broker.port}"
    with broker.connect() as stranger:
        stranger.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 12)
        stranger.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = produce_frame(topic)
        for number, cut in enumerate(range(1, len(sent))):
            stranger.send_bytes(sent[:cut])
            time.sleep(0.001)
            stranger.send_bytes(sent[cut:])
            answer = frames.decode_response(0, 9, stranger.read_frame())[1].responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 2 * number)
        asked = fetch_frame(topic)
        for cut in range(1, len(asked)):
            stranger.send_bytes(asked[:cut])
            time.sleep(0.001)
            stranger.send_bytes(asked[cut:])
            found = frames.decode_response(1, 11, stranger.read_frame())[1].responses[0].partitions[0]
            assert found.error_code == 0
            assert sum(batch.record_count for batch in iter_batches(bytes(found.records))) == 2 * (len(sent) - 1)


@both_modes
def test_pipelined_requests_are_answered_in_order_whatever_they_are(broker):
    """A fetch that waits holds back those behind it, and answers come in the order of the requests."""
    topic = f"order-{broker.port}"
    with broker.connect() as stranger:
        stranger.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 12)
        kinds = [(3, 12), (0, 9), (1, 11), (18, 3)] * 50
        versions = frames.encode_request(18, 3, 7, "x", ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        parts = {3: METADATA, 0: produce_frame(topic), 1: fetch_frame(topic, max_wait_ms=5, min_bytes=1 << 20), 18: versions}
        # Each with a correlation id of its own.
        stranger.send_bytes(
            b"".join(parts[key][:8] + struct.pack(">i", number) + parts[key][12:] for number, (key, _) in enumerate(kinds))
        )
        offsets = []
        for number, (key, version) in enumerate(kinds):
            correlation_id, answer = frames.decode_response(key, version, stranger.read_frame())
            assert correlation_id == number
            if key == 0:
                offsets.append(answer.responses[0].partition_responses[0].base_offset)
        assert offsets == list(range(0, 100, 2))


@both_modes
def test_thousand_peers_that_announce_a_lot_and_send_nothing(broker):
    before = broker.measure()
    with contextlib.ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(broker.connect()).send_bytes(struct.pack(">i", 100 << 20))
        broker.healthy.get_on(20)
        until(lambda: broker.measure().sockets >= before.sockets + 1000)
        assert broker.measure().memory < before.memory + (64 << 20)


def test_peers_that_send_half_of_a_large_frame(broker):
    """What is held is what was sent, and it is given back when they go."""
    before = broker.measure()
    half = bytes(1 << 20)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(broker.connect()).send_bytes(struct.pack(">i", 100 << 20) + half)
        broker.healthy.get_on(20)
        assert broker.measure().memory < before.memory + (100 << 20)


@both_modes
def test_peers_that_send_a_byte_at_a_time(broker):
    frame = METADATA
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(broker.connect()) for _ in range(500)]
        for position in range(3):
            for stranger in strangers:
                stranger.send_bytes(frame[position : position + 1])
            broker.healthy.get_on(5)
        for stranger in strangers:
            stranger.send_bytes(frame[3:])
            assert stranger.read_frame()[:4] == frame[8:12]


def test_frame_deadline(tmp_path):
    """64 KB a second, looked at every 30 seconds, of what comes and not of what is announced; a slow frame before costs nothing."""
    driven = DrivenBroker(tmp_path / "data")
    try:
        slow, large, announced, steady, idle = (Link(driven) for _ in range(5))
        slow.send(struct.pack(">i", 1000))
        large.send(struct.pack(">i", 100 << 20) + b"x")
        announced.send(struct.pack(">i", 100 << 20) + b"x")
        steady.send(METADATA[:9])
        for _ in range(29):
            slow.send(b"\0")  # a byte now and then buys no time
            large.send(bytes(70 << 10))
            driven.pass_time(1)
            steady.send(METADATA[9:] + METADATA[:9])
        driven.pass_time(1.5)
        assert FRAME_SECONDS == 30
        assert [link.is_open for link in (slow, large, announced, steady, idle)] == [False, True, False, True, True]
        for _ in range(31):
            driven.pass_time(1)
            steady.send(METADATA[9:] + METADATA[:9])
        assert [link.is_open for link in (large, steady, idle)] == [False, True, True]
        for _ in range(60):
            assert steady.frame() is not None
    finally:
        driven.stop()


# Answers that nobody takes.


@both_modes
def test_peer_that_never_reads(broker):
    """It is no longer read once its answers wait: what it costs is bounded, and it stops itself."""
    before = broker.measure()
    listing = frames.encode_request(
        18, 3, 7, "x", ApiVersionsRequest(client_software_name="a", client_software_version="1")
    )  # 20 bytes, answered with 300
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(broker.connect(receive_buffer=4096)) for _ in range(20)]
        for stranger in strangers:
            stranger.socket.setblocking(False)

        def are_stuck() -> bool:
            stuck = 0
            for stranger in strangers:
                try:
                    stranger.socket.send(listing * 1000)
                except BlockingIOError:
                    stuck += 1
            return stuck == len(strangers)

        until(are_stuck, "the broker does not read on without being read", pause=0.01)
        broker.healthy.get_on(10)
        assert broker.measure().memory < before.memory + 20 * (4 << 20)


def test_peer_that_never_reads_is_closed_in_the_end(tmp_path):
    driven = DrivenBroker(tmp_path / "data")
    try:
        link = Link(driven)
        request = frames.encode_request(18, 0, 7, "x", ApiVersionsRequest())
        while not link.channel.out_bytes:
            link._mine.send(request * 20)
            driven.settle()
        for _ in range(int(STUCK_SECONDS)):
            driven.pass_time(1)
        assert link.is_open
        driven.pass_time(2)
        assert not link.is_open
    finally:
        driven.stop()


@both_modes
def test_large_answers_that_are_not_read_to_the_end(broker):
    """A fetch of some megabytes, a few bytes of which are read before the peer is gone: with a farewell, or with a reset."""
    topic = f"large-{broker.port}"
    with broker.connect() as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 12)
        for _ in range(8):
            assert produce(wire, topic, build_batch([Record(0, NOW, None, bytes(900_000))], base_offset=0)).error_code == 0
    for number in range(40):
        stranger = broker.connect(receive_buffer=4096)
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 24)
        topics = [FetchRequest.Topic(topic=topic, partitions=[part])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 24, topics=topics)
        stranger.send_bytes(frames.encode_request(1, 11, 7, "hostile", request))
        assert stranger.socket.recv(50)
        stranger.abort() if number % 2 else stranger.close()


# Peers that go away.


@both_modes
def test_peers_that_reset(broker):
    """At every point: after connecting, in a frame, while they wait, with answers on the way."""
    waiting = fetch_frame(HEALTHY_TOPIC, max_wait_ms=20_000, min_bytes=1 << 30, offset=0)
    for data in (b"", METADATA[:2], METADATA[:-1], METADATA, METADATA * 100, waiting, waiting + METADATA * 3):
        for _ in range(20):
            stranger = broker.connect()
            stranger.send_bytes(data)
            stranger.abort()
    broker.healthy.get_on(20)


@both_modes
def test_peers_that_hang_up_while_they_wait_cost_no_work(broker):
    """A socket that is gone is reported ready for ever; one that is closed is not."""
    waiting = fetch_frame(f"quiet-{broker.port}", max_wait_ms=20_000, min_bytes=1)
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(broker.wire())
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=f"quiet-{broker.port}")]), 12)
        before = broker.measure().sockets
        strangers = [stack.enter_context(broker.connect()).send_bytes(waiting) for _ in range(50)]
        until(lambda: broker.measure().sockets >= before + 50)
        broker.healthy.get_on(10)
        for stranger in strangers:
            stranger.abort()
        until(lambda: broker.measure().sockets <= before)


@both_modes
def test_half_closed_peer_gets_its_answers(broker):
    """`shutdown` of the sending side after the last request, as netcat does."""
    with broker.connect() as stranger:
        stranger.send_bytes(METADATA * 5)
        stranger.socket.shutdown(socket.SHUT_WR)
        for _ in range(5):
            assert stranger.read_frame()[:4] == METADATA[8:12]
        assert stranger.is_closed_by_the_broker


def test_half_open_peer(tmp_path):
    """A peer that is gone without a word is asked after 60 seconds, every 10 seconds, 6 times."""
    driven = DrivenBroker(tmp_path / "data")
    try:
        with socket.create_connection(driven.broker.server.acceptors[0].address) as client:
            until(lambda: driven.settle() or len(driven.broker.server.processors[0].channels) == 2)
            accepted = list(driven.broker.server.processors[0].channels.values())[-1].sock
            assert accepted.getpeername() == client.getsockname()
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert {option: accepted.getsockopt(socket.IPPROTO_TCP, option) for option, _ in KEEP_ALIVE} == {
                socket.TCP_KEEPIDLE: 60,
                socket.TCP_KEEPINTVL: 10,
                socket.TCP_KEEPCNT: 6,
            }
    finally:
        driven.stop()


def test_what_was_appended_before_the_peer_went_is_there(broker):
    """A reset right behind a produce request: appended or not, but whole, and the offsets go on."""
    topic = "gone"
    with broker.wire() as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]), 12)
        for _ in range(50):
            stranger = broker.connect()
            stranger.send_bytes(produce_frame(topic))
            stranger.abort()
        broker.healthy.get_on(5)
        answered = produce(wire, topic, BATCH)
        assert answered.error_code == 0 and answered.base_offset % 2 == 0
        found = fetch(wire, topic, 0)
        batches = list(iter_batches(bytes(found.records)))
        assert all(batch.is_valid() for batch in batches)
        offsets = [batch.base_offset for batch in batches]
        assert offsets == list(range(0, 2 * len(offsets), 2)) and answered.base_offset in offsets

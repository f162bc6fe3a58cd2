"""Frames out of bytes as they come, over a pair of sockets and a small receive buffer."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from milepost.errors import MalformedMessage
from milepost.net.frame_input import KEPT_AS_COPY, MOST_LENT, FrameInput, ReceiveBuffers
from tests.net.input_memory import input_memory

BUFFER = 64 << 10
MOST = 1 << 20


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Peer:
    """One connection: what is sent here arrives there."""

    def __init__(self, buffers: ReceiveBuffers):
        self.socket, received = socket.socketpair()
        for each in (self.socket, received):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
        self.input = FrameInput(received, "peer", buffers)

    def frames(self, data: bytes) -> list[bytes]:
        """Everything that comes out after `data` was sent and received in one go."""
        self.socket.sendall(data)
        assert self.input.receive() > 0
        frames = []
        while (frame := self.input.next_frame(MOST)) is not None:
            frames.append(bytes(frame))
        self.input.keep_rest()
        return frames

    def close(self) -> None:
        self.socket.close()
        self.input.sock.close()


@pytest.fixture
def buffers() -> ReceiveBuffers:
    return ReceiveBuffers(BUFFER)


@pytest.fixture
def peer(buffers) -> Iterator[Peer]:
    peer = Peer(buffers)
    yield peer
    peer.close()


def test_frames_that_come_together_go_one_by_one(peer):
    assert peer.frames(framed(b"one") + framed(b"two")) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("received", "has_frame"),
    [
        (framed(b"one"), True),
        (framed(b"one")[:-1], False),
        (framed(b"one")[:3], False),
        (struct.pack(">i", MOST), False),
        (struct.pack(">i", MOST + 1), True),  # `next_frame` refuses it
        (struct.pack(">i", -1), True),
    ],
)
def test_what_next_frame_has_something_to_say_about_is_a_frame(peer, received, has_frame):
    peer.socket.sendall(received)
    peer.input.receive()
    assert peer.input.has_frame(MOST) is has_frame
    assert not peer.input.has_input


def test_frame_whose_size_comes_in_pieces(peer):
    assert peer.frames(b"\0\0") == []
    assert peer.frames(b"\0\3on") == []
    assert peer.frames(b"e" + framed(b"two")) == [b"one", b"two"]


def test_short_rest_is_kept_as_a_copy_and_the_receive_buffer_is_free_for_others(buffers, peer):
    other = Peer(buffers)
    assert peer.frames(framed(b"one" * 10)[:-1]) == []
    assert other.frames(framed(b"x" * 1000)) == [b"x" * 1000]
    assert input_memory(peer.input) == 33
    assert peer.frames(b"e") == [b"one" * 10]
    other.close()


def test_long_rest_stays_where_it_was_received(buffers, peer):
    body = random.Random(1).randbytes(BUFFER // 2)
    first = buffers.current
    assert peer.frames(framed(b"before") + framed(body)[:KEPT_AS_COPY]) == [b"before"]
    assert buffers.current is not first, "the connection keeps the buffer"
    assert input_memory(peer.input) == 0, "which is not its own"
    assert peer.frames(framed(body)[KEPT_AS_COPY:] + framed(b"behind")) == [body, b"behind"]
    assert peer.input.has_input is False
    assert buffers.lend() is not None
    assert buffers.current is first, "and gave it back"


def test_frame_larger_than_the_buffer_gets_memory_as_it_comes(peer):
    body = random.Random(2).randbytes(3 * BUFFER)
    frame, sent = framed(body), 0
    while len(frame) - sent > 20_000:
        assert peer.frames(frame[sent : sent + 20_000]) == []
        sent += 20_000
        assert input_memory(peer.input) <= 2 * sent
    assert peer.frames(frame[sent:]) == [body]
    assert input_memory(peer.input) == 0


def test_more_connections_in_the_middle_of_a_frame_than_there_are_buffers(buffers):
    peers = [Peer(buffers) for _ in range(MOST_LENT + 3)]
    bodies = [random.Random(number).randbytes(KEPT_AS_COPY + 5000) for number in range(len(peers))]
    for peer, body in zip(peers, bodies, strict=True):
        assert peer.frames(framed(body)[: KEPT_AS_COPY + 100]) == []
    assert sum(input_memory(peer.input) > 0 for peer in peers) == 3
    for peer, body in zip(peers, bodies, strict=True):
        assert peer.frames(framed(body)[KEPT_AS_COPY + 100 :]) == [body]
        peer.close()


def test_connection_that_ends_in_the_middle_of_a_frame_gives_its_buffer_back(buffers):
    for _ in range(3 * MOST_LENT):
        peer = Peer(buffers)
        assert peer.frames(framed(bytes(BUFFER // 2))[: 2 * KEPT_AS_COPY]) == []
        assert input_memory(peer.input) == 0
        peer.input.drop_input()
        peer.close()


def test_frames_behind_one_that_is_answered_later_are_still_there(peer):
    peer.socket.sendall(framed(b"one") + framed(b"two"))
    peer.input.receive()
    assert peer.input.next_frame(MOST) == b"one"
    peer.input.keep_rest()
    assert peer.input.has_input
    peer.input.resume_input()
    assert peer.input.next_frame(MOST) == b"two"


@pytest.mark.parametrize("is_frame_kept", [False, True])
def test_frames_that_wait_for_their_turn_can_be_written_to_like_those_just_received(peer, is_frame_kept):
    peer.socket.sendall(framed(b"one") + framed(b"two"))
    peer.input.receive()
    peer.input.next_frame(MOST)
    if is_frame_kept:
        peer.input.keep_frame()
    else:
        peer.input.keep_rest()
        peer.input.resume_input()
    view, at, end = peer.input.waiting_input
    assert (view[at:end], view.readonly) == (framed(b"two"), False)


def test_frames_that_somebody_else_took_do_not_come_again(peer):
    peer.socket.sendall(framed(b"one") + framed(b"two"))
    peer.input.receive()
    view, at, end = peer.input.waiting_input
    assert bytes(view[at:end]) == framed(b"one") + framed(b"two")
    peer.input.skip_input(at + 7)
    assert peer.input.next_frame(MOST) == b"two"


@pytest.mark.parametrize("size", [0, -1, MOST + 1])
def test_size_that_cannot_be_is_refused(peer, size):
    with pytest.raises(MalformedMessage, match=f"a frame of {size} bytes was announced; allowed are 1 to 1048576"):
        peer.frames(struct.pack(">i", size))


@pytest.mark.parametrize("seed", range(5))
def test_random_frames_in_random_pieces_come_out_as_they_went_in(peer, seed):
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice([1, 50, 3000, 20_000, 70_000, 150_000])) for _ in range(60)]
    stream, received = b"".join(map(framed, bodies)), []
    while stream:
        size = rng.choice([1, 3, 1000, 30_000, 60_000])
        received += peer.frames(stream[:size])
        stream = stream[size:]
        # What did not fit into the buffer is still in the socket.
        while len(received) < len(bodies) and not stream:
            received += peer.frames(b"")
    assert received == bodies


@pytest.mark.parametrize("behind", [b"", framed(b"two")[:5], framed(b"b" * 20_000)[:-1], framed(b"two") + framed(b"three")])
@pytest.mark.parametrize("size", [3, 30_000, 50_000, 150_000])
def test_frame_that_is_kept_stays_as_it_is_while_more_is_received(peer, buffers, size, behind):
    other = Peer(buffers)
    stream = framed(b"a" * size) + behind
    frame = None
    while frame is None:
        peer.socket.sendall(stream[:20_000])
        stream = stream[20_000:]
        peer.input.receive()
        frame = peer.input.next_frame(MOST)
        if frame is None:
            peer.input.keep_rest()
    peer.input.keep_frame()
    peer.input.keep_rest()
    for _ in range(3):
        assert other.frames(framed(b"x" * 60_000)) == [b"x" * 60_000]
    if peer.input.has_input:
        peer.input.resume_input()
    received = []
    while stream or not received:
        received += peer.frames(stream[:20_000] + (b"" if stream[20_000:] else framed(b"last")))
        stream = stream[20_000:]
    assert frame == b"a" * size
    other.close()

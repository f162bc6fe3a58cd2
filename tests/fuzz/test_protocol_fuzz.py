"""Real frames with damage, and random bytes: the one documented error comes, soon, or a message that can be written again."""

from __future__ import annotations

import contextlib
import functools
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.errors import MalformedMessage, UnsupportedVersion
from milepost.protocol import frames, generated
from milepost.protocol.connection import FrameReader
from milepost.protocol.headers import read_request_header
from tests.fuzz.coverage_guided import needs_atheris, run_target
from tests.golden_wire_fixture import WireMessage, all_messages
from tests.protocol.random_messages import every_message, random_message

EXAMPLES = settings(max_examples=300)
# Values that lengths, counts and tags turn on.
CORNERS = [0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]
FLOATS = {48, 49}  # client quotas: NaN is not equal to itself


@functools.cache
def recorded() -> list[WireMessage]:
    """The shortest recorded message of each kind, API and version."""
    best: dict[tuple[str, int, int], WireMessage] = {}
    for message in all_messages():
        place = (message.kind, message.api_key, message.body_version)
        if place not in best or len(message.frame) < len(best[place].frame):
            best[place] = message
    return list(best.values())


def decode_and_encode(key: int, version: int, kind: str, data: bytes, start: int = 0) -> Any:
    """The message in `data`, or None when it was refused; anything but the documented error fails the test."""
    decoder = (generated.request_decoder if kind == "request" else generated.response_decoder)(key, version)
    encoder = (generated.request_encoder if kind == "request" else generated.response_encoder)(key, version)
    try:
        message, end = decoder(data, start)
    except MalformedMessage as error:
        assert f" {kind} {version}: " in str(error)
        return None
    assert start <= end <= len(data)
    pieces: list[Any] = []
    encoder(message, pieces.append)
    again = b"".join(pieces)
    assert key in FLOATS or decoder(again, 0) == (message, len(again))
    return message


def test_recorded_frames_with_one_byte_at_a_corner_value():
    rng = random.Random(1)
    for message in recorded():
        body = message.frame[message.body_start :]
        for position in range(len(body)) if len(body) <= 24 else rng.sample(range(len(body)), 24):
            damaged = bytearray(body)
            damaged[position] = rng.choice(CORNERS)
            decode_and_encode(message.api_key, message.body_version, message.kind, bytes(damaged))


def test_recorded_frames_cut_at_every_place_near_the_end_and_some_others():
    rng = random.Random(2)
    for message in recorded():
        body = message.frame[message.body_start :]
        cuts = {*range(max(0, len(body) - 6), len(body)), *(rng.randrange(len(body)) for _ in range(6) if body)}
        for cut in cuts:
            assert decode_and_encode(message.api_key, message.body_version, message.kind, body[:cut]) is None


def test_recorded_frames_spliced_with_each_other():
    rng = random.Random(3)
    pool = recorded()
    for message in pool:
        body, other = message.frame[message.body_start :], rng.choice(pool).frame
        cut, start, length = rng.randrange(len(body) + 1), rng.randrange(len(other)), rng.randrange(40)
        spliced = body[:cut] + other[start : start + length] + body[cut:]
        decode_and_encode(message.api_key, message.body_version, message.kind, spliced)


def test_random_messages_of_every_kind_with_damage():
    rng = random.Random(4)
    for key, version, kind in every_message():
        pieces: list[Any] = []
        encoder = generated.request_encoder if kind == "request" else generated.response_encoder
        encoder(key, version)(random_message(key, version, kind, rng), pieces.append)
        body = bytearray(b"".join(pieces))
        for _ in range(4):
            damaged = bytearray(body)
            for _ in range(rng.choice((1, 1, 2, 5))):
                if damaged:
                    damaged[rng.randrange(len(damaged))] = rng.choice([*CORNERS, rng.randrange(256)])
            decode_and_encode(key, version, kind, bytes(damaged))


@EXAMPLES
@given(place=st.sampled_from(list(every_message())), data=st.binary(max_size=120))
def test_random_bodies(place, data):
    decode_and_encode(*place, data)


@EXAMPLES
@given(
    data=st.binary(max_size=80),
    key=st.integers(-2, 100),
    version=st.integers(-1, 20),
    client_id=st.sampled_from([b"\xff\xff", b"\0\0", b"\0\2me", b"\xff\xfe", b"\x7f\xff", b"\0\1\xff"]),
)
def test_random_requests(data, key, version, client_id):
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(4) + client_id + data
    try:
        header = read_request_header(frame)
        body, left = frames.decode_request(header, frame)
    except (MalformedMessage, UnsupportedVersion) as error:
        assert str(error)
        return
    assert body is not None
    assert 0 <= left < len(frame)


@EXAMPLES
@given(pieces=st.lists(st.binary(max_size=30), max_size=8))
def test_random_streams(pieces):
    reader = FrameReader(max_size=64)
    for piece in pieces:
        try:
            assert all(1 <= len(frame) <= 64 for frame in reader.feed(piece))
        except MalformedMessage:
            return
    assert len(reader._partial) <= sum(map(len, pieces))


@pytest.mark.parametrize("filling", [b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff"], ids=bytes.hex)
def test_quarter_megabyte_of_one_byte_is_done_with_soon(filling):
    data = filling * (1 << 18)
    for key, version, kind in every_message():
        decoder = (generated.request_decoder if kind == "request" else generated.response_decoder)(key, version)
        start = time.thread_time()
        with contextlib.suppress(MalformedMessage):
            decoder(data, 0)
        assert time.thread_time() - start < 2, (key, version, kind)


@needs_atheris
def test_coverage_guided_run(tmp_path):
    run_target("fuzz_protocol", tmp_path, "-atheris_runs=2500", "-max_len=200", "-rss_limit_mb=512")

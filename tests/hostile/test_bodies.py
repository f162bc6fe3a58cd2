"""Bodies that lie about what follows, repeat themselves, or hold nothing: N-08 to N-14."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost.broker.dispatch import served_apis
from milepost.protocol import frames, generated
from milepost.protocol.messages import MetadataRequest
from milepost.protocol.schema import Field
from tests.fuzz.broker_run import served_versions, started
from tests.fuzz.driven_broker import DrivenBroker, error_codes
from tests.fuzz.hostile_requests import Requests

METADATA, FIND_COORDINATOR, API_VERSIONS = 3, 10, 18


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def flexible(key: int, version: int, body: bytes, tags: bytes = b"\0") -> bytes:
    return struct.pack(">hhih", key, version, 7, -1) + tags + body


def tagged(*tags: int) -> bytes:
    return varint(len(tags)) + b"".join(varint(tag) + b"\0" for tag in tags)


# Metadata 12 with no topics, up to its own tagged fields.
NO_TOPICS = b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("frame", "is_answered"),
    [
        (flexible(METADATA, 12, NO_TOPICS + b"\0", tags=tagged(*range(64))), True),
        (flexible(METADATA, 12, NO_TOPICS + b"\0", tags=tagged(*range(65))), False),
        (flexible(METADATA, 12, NO_TOPICS + tagged(*range(1024))), True),
        (flexible(METADATA, 12, NO_TOPICS + tagged(*range(1025))), False),
        (flexible(METADATA, 12, NO_TOPICS + varint(2**31 - 1) + bytes(100)), False),
        (flexible(METADATA, 12, NO_TOPICS + varint(1_000_000) + bytes(2_000_000)), False),
        (flexible(METADATA, 12, NO_TOPICS + tagged(5, 4)), False),
        (flexible(METADATA, 12, NO_TOPICS + tagged(5, 5)), False),
        (flexible(METADATA, 12, NO_TOPICS + b"\1\0\x7f"), False),
    ],
    ids=["64 of header", "65 of header", "1024", "1025", "2^31", "a million", "falling", "twice", "longer than the frame"],
)
def test_tagged_fields(broker, frame, is_answered):
    with broker.connect() as stranger:
        stranger.send_frame(frame)
        if is_answered:
            assert frames.decode_response(METADATA, 12, stranger.read_frame())[0] == 7
        else:
            assert stranger.is_closed_by_the_broker


@pytest.mark.parametrize(
    "frame",
    [
        flexible(METADATA, 12, varint(2**31) + bytes(50)),
        flexible(METADATA, 12, varint(2**32 - 1)),
        struct.pack(">hhihi", METADATA, 4, 7, -1, 2**31 - 1),
        struct.pack(">hhihi", METADATA, 4, 7, -1, 1000) + bytes(1000),
        flexible(FIND_COORDINATOR, 4, b"\0" + varint(100_002) + b"\1" * 100_001 + b"\0"),
    ],
    ids=["2^31 compact", "2^32 compact", "2^31", "more than fit", "100,001 of one byte"],
)
def test_arrays_that_announce_more_than_there_is(broker, frame):
    before = broker.measure().memory
    with broker.connect() as stranger:
        assert stranger.send_frame(frame).is_closed_by_the_broker
    assert broker.measure().memory < before + (16 << 20)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhihi", METADATA, 4, 7, -1, -2) + bytes(20),
        struct.pack(">hhihi", METADATA, 4, 7, -1, -(2**31)) + bytes(20),
        struct.pack(">hhihih", METADATA, 4, 7, -1, 1, -1) + bytes(20),
        struct.pack(">hhihh", FIND_COORDINATOR, 0, 7, -1, -1) + bytes(20),
        struct.pack(">hhihh", FIND_COORDINATOR, 0, 7, -1, -32768) + bytes(20),
        flexible(FIND_COORDINATOR, 4, b"\0\0\0"),
    ],
    ids=["-2 elements", "-2^31 elements", "null in an array", "null string", "string of -32768", "null array"],
)
def test_counts_and_nulls_that_are_not_allowed(broker, frame):
    with broker.connect() as stranger:
        assert stranger.send_frame(frame).is_closed_by_the_broker


def test_varint_without_end(broker):
    """A megabyte of 0xFF: given up at the fifth byte, not after a megabyte of arithmetic."""
    for _ in range(20):
        with broker.connect() as stranger:
            assert stranger.send_frame(flexible(METADATA, 12, b"\xff" * (1 << 20))).is_closed_by_the_broker


@pytest.mark.parametrize("fifth", [0x10, 0x1F, 0x7F, 0x80, 0xFF])
def test_varint_with_bits_above_32(broker, fifth):
    with broker.connect() as stranger:
        assert stranger.send_frame(
            flexible(METADATA, 12, b"\x81\x80\x80\x80" + bytes([fifth]) + bytes(9))
        ).is_closed_by_the_broker


def test_bytes_behind_the_body(broker):
    """Kafka does not look at them, and some clients send them."""
    with broker.connect() as stranger:
        for extra in (b"\0", b"\xff" * 100, bytes(100_000)):
            stranger.send_frame(frames.encode_request(METADATA, 12, 7, None, MetadataRequest(topics=[]))[4:] + extra)
            assert frames.decode_response(METADATA, 12, stranger.read_frame())[0] == 7


# Every API, in the process: what it answers to nothing, and to the same thing twice.


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[DrivenBroker]:
    driven = started(tmp_path / "data", 1, Requests(1))
    yield driven
    driven.judge_health()
    driven.stop()


def filled(cls: type[Any], version: int, times: int, is_null: bool) -> Any:
    """A message whose arrays have so many equal elements, and whose nullable fields are null or not."""

    def value(field: Field) -> Any:
        if is_null and field.is_nullable_in(version):
            return None
        if field.array:
            return [element(field) for _ in range(times)]
        return element(field)

    def element(field: Field) -> Any:
        if field.struct is not None:
            return filled(getattr(cls, field.struct.class_name), version, times, is_null)
        if field.type == "string":
            return "plain"
        return {"bytes": b"", "records": b"", "uuid": bytes(16), "bool": False, "float64": 1.0}.get(field.type, 0)

    return cls(**{field.name: value(field) for field in cls._schema.fields if field.exists_in(version) and field.tag is None})


@pytest.mark.parametrize("is_null", [False, True], ids=["empty", "null"])
def test_every_api_with_empty_lists(driven, is_null):
    for key, version in served_versions():
        message = filled(generated.class_named(served_apis()[key].name + "Request"), version, 0, is_null)
        answer = driven.feed(frames.encode_request(key, version, 7, "empty", message)[4:])
        # A produce request of acks 0 and nothing in it is fine, and is not answered.
        assert answer is not None or (key == 0 and driven.connection.is_open), (key, version)


def test_every_api_with_repeats(driven):
    for key, version in served_versions():
        message = filled(generated.class_named(served_apis()[key].name + "Request"), version, 3, False)
        answer = driven.feed(frames.encode_request(key, version, 7, "repeats", message)[4:])
        if answer is None:
            assert key == 0, (key, version)  # acks 0 and records that are none: closed on
            continue
        assert all(code != -1 for _, code in error_codes(answer))


def test_what_grows_with_every_repeat_is_answered_once_or_refused(driven):
    """A few bytes of the request may not be answered with thousands, again and again."""
    for key in (1, 2, 3, 9, 15, 32, 61, 65, 69):
        api = served_apis()[key]
        for version in api.served:
            cls = generated.class_named(api.name + "Request")
            message = filled(cls, version, 1, False)
            for field in cls._schema.fields:
                found = getattr(message, field.name)
                if field.exists_in(version) and field.array and found:
                    setattr(message, field.name, found * 5_000)
            frame = frames.encode_request(key, version, 7, "repeats", message)[4:]
            answer = driven.feed(frame)
            assert answer is not None
            assert len(frames.encode_response(key, version, 7, answer)) < 20 * len(frame), (key, version)

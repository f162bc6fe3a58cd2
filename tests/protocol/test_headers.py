"""Request and response headers, sound and hostile."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument, MalformedMessage
from milepost.protocol.apis import BY_NAME
from milepost.protocol.headers import read_request_header, read_response_header, request_header, response_header


@pytest.mark.parametrize(
    ("name", "version", "client_id", "expected"),
    [
        ("Produce", 7, "kcat", "0000 0007 0000002a 0004 6b636174"),
        ("Produce", 9, "kcat", "0000 0009 0000002a 0004 6b636174 00"),
        ("Produce", 9, None, "0000 0009 0000002a ffff 00"),
        ("Produce", 9, "", "0000 0009 0000002a 0000 00"),
        ("ControlledShutdown", 1, "1", "0007 0001 0000002a 0001 31"),
    ],
)
def test_request_header_there_and_back(name, version, client_id, expected):
    header = request_header(BY_NAME[name].key, version, 42, client_id)
    assert header == bytes.fromhex(expected)
    read = read_request_header(header + b"body")
    assert (read.api_key, read.api_version, read.correlation_id, read.client_id) == (BY_NAME[name].key, version, 42, client_id)
    assert read.body == len(header)


def test_header_without_client_id():
    header = request_header(BY_NAME["ControlledShutdown"].key, 0, 42, "ignored")
    assert header.hex() == "000700000000002a"
    assert read_request_header(header + bytes(4)).body == 8


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("", "request header is cut, at byte 0 of 0"),
        ("0003 000c 00000001", "request header is cut, at byte 0 of 8"),
        ("0003 000c 00000001 fffe", "request header has length -2, at byte 10 of 10"),
        ("0003 000c 00000001 7fff 61", "request header says 32767 bytes, 1 are left, at byte 10 of 11"),
        ("0003 000c 00000001 0001 ff 00", "request header is not UTF-8 (invalid start byte behind 0 bytes), at byte 10 of 12"),
        ("0003 000c 00000001 ffff", "request header is cut, at byte 10 of 10"),
        ("0003 000c 00000001 ffff 41", "request header has more than 64 tagged fields, at byte 10 of 11"),
        ("0003 000c 00000001 ffff ffffffff0f", "request header has more than 64 tagged fields, at byte 10 of 15"),
        (
            "0003 000c 00000001 ffff 02 00",
            "request header says 2 tagged fields of at least 2 bytes, 1 bytes are left, at byte 10 of 12",
        ),
        ("0003 000c 00000001 ffff 02 0100 0100", "request header has tag 1 behind tag 1; tags rise, at byte 10 of 15"),
    ],
)
def test_damaged_request_header(header, sentence):
    with pytest.raises(MalformedMessage) as caught:
        read_request_header(bytes.fromhex(header))
    assert str(caught.value) == sentence


def test_tagged_fields_of_a_header_are_skipped():
    frame = bytes.fromhex("0003 000c 00000001 ffff 02 0003aabbcc 0500") + b"body"
    assert frame[read_request_header(frame).body :] == b"body"
    frame = bytes.fromhex("00000001 01 0003aabbcc") + b"body"
    assert read_response_header(frame, BY_NAME["Metadata"].key, 12) == (1, 10)


@pytest.mark.parametrize("start", ["0012 0063", "7fff 0000", "ffff ffff", "0003 0063", "0003 ffff"])
def test_unknown_api_or_version_is_read_as_far_as_the_client_id(start):
    read = read_request_header(bytes.fromhex(f"{start} 00000007 0002 6869 ff ff"))
    assert (read.correlation_id, read.client_id, read.body) == (7, "hi", 12)


def test_long_client_id_is_kept_in_part():
    frame = bytes.fromhex("0003 0001 00000001 2710") + b"x" * 10_000
    read = read_request_header(frame)
    assert read.client_id == "x" * 255
    assert read.body == 10_010


def test_client_id_too_long_to_send():
    with pytest.raises(InvalidArgument, match="client id has 32768 bytes, 32767 are allowed"):
        request_header(BY_NAME["Produce"].key, 9, 1, "x" * 32_768)


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [("Produce", 8, "0000002a"), ("Produce", 9, "0000002a00"), ("ApiVersions", 4, "0000002a"), ("SaslHandshake", 1, "0000002a")],
)
def test_response_header_there_and_back(name, version, expected):
    header = response_header(BY_NAME[name].key, version, 42)
    assert header.hex() == expected
    assert read_response_header(header, BY_NAME[name].key, version) == (42, len(header))


@pytest.mark.parametrize("header", ["", "000000", "00000001", "00000001 41"])
def test_damaged_response_header(header):
    with pytest.raises(MalformedMessage, match=r"^response header "):
        read_response_header(bytes.fromhex(header), BY_NAME["Produce"].key, 9)

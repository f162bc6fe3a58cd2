"""Whole frames, joined and in pieces."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument, MalformedMessage, UnsupportedVersion
from milepost.protocol import frames
from milepost.protocol.apis import APIS, BY_KEY
from milepost.protocol.headers import read_request_header
from milepost.protocol.messages import FetchResponse, HeartbeatRequest, HeartbeatResponse

FETCH, HEARTBEAT = 1, 12


def fetched(*records: object) -> FetchResponse:
    partitions = [FetchResponse.Response.Partition(partition_index=index, records=each) for index, each in enumerate(records)]
    return FetchResponse(responses=[FetchResponse.Response(topic="t", partitions=partitions)])


def test_request_there_and_back():
    frame = frames.encode_request(HEARTBEAT, 4, 7, "me", HeartbeatRequest(group_id="g", generation_id=3, member_id="m"))
    assert frame.hex() == "00000017" + "000c0004" + "00000007" + "00026d65" + "00" + "0267" + "00000003" + "026d" + "00" + "00"
    header = read_request_header(frame[4:])
    assert frames.decode_request(header, frame[4:]) == (HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), 0)


def test_bytes_behind_a_request_are_counted():
    frame = frames.encode_request(HEARTBEAT, 4, 7, "me", HeartbeatRequest())[4:] + b"rest"
    assert frames.decode_request(read_request_header(frame), frame)[1] == 4


def test_response_there_and_back():
    frame = frames.encode_response(HEARTBEAT, 4, 7, HeartbeatResponse(error_code=27))
    assert frame.hex() == "0000000c" + "0000000700" + "00000000001b00"
    assert frames.decode_response(HEARTBEAT, 4, frame[4:]) == (7, HeartbeatResponse(error_code=27))


def test_pieces_of_a_response_join_to_the_frame_and_hold_the_records_themselves():
    batch, other = memoryview(b"x" * 1000), bytearray(b"y" * 500)
    pieces = frames.gather_response(FETCH, 11, 7, fetched(batch, other))
    assert len(pieces) == 4  # sizes and headers up to the batch, the batch, up to the other, the other
    assert pieces[1] is batch
    assert pieces[3] is other
    assert b"".join(pieces) == frames.encode_response(FETCH, 11, 7, fetched(b"x" * 1000, b"y" * 500))


def test_pieces_of_a_response_without_records_are_one():
    assert frames.gather_response(FETCH, 12, 7, fetched(b"")) == [frames.encode_response(FETCH, 12, 7, fetched(b""))]


def test_stretch_of_a_file_counts_with_its_length():
    class Stretch:
        def __len__(self) -> int:
            return 1 << 20

    pieces = frames.gather_response(FETCH, 11, 7, fetched(Stretch()))
    assert int.from_bytes(pieces[0][:4], "big") == sum(map(len, pieces)) - 4


def test_frame_too_large_for_its_size():
    class Huge:
        def __len__(self) -> int:
            return 1 << 30

    with pytest.raises(InvalidArgument, match=r"a frame of 2147\d{6} bytes does not fit its size, which ends at 2147483647"):
        frames.gather_response(FETCH, 11, 7, fetched(Huge(), Huge()))


def test_what_there_is_no_schema_for():
    header = read_request_header(bytes.fromhex("0012006300000007ffff"))
    with pytest.raises(UnsupportedVersion, match=r"ApiVersions \(key 18\) has versions 0 to 4 here, not 99"):
        frames.decode_request(header, b"")
    with pytest.raises(UnsupportedVersion):
        frames.encode_response(62, 0, 1, None)
    with pytest.raises(MalformedMessage):
        frames.decode_response(HEARTBEAT, 4, b"")


def test_every_api_key_there_is_none_for_and_every_version_there_is_none_for_is_unsupported():
    def asked(key: int, version: int) -> str:
        frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes.fromhex("00000007 ffff 00")
        with pytest.raises(UnsupportedVersion) as caught:
            frames.decode_request(read_request_header(frame), frame)
        return str(caught.value)

    for key in set(range(-32768, 32768)) - set(BY_KEY):
        assert asked(key, 0) == f"there is no API with key {key} here"
    for api in APIS:
        for version in (-1, -32768, api.known[1] + 1, 32767):
            assert asked(api.key, version).endswith(f"here, not {version}")

"""Bodies that are damaged, hostile or odd: the sentence that comes, and what does not happen before it comes."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from milepost.errors import InvalidRequest, MalformedMessage, UnsupportedVersion
from milepost.protocol import generated
from milepost.protocol.apis import APIS
from milepost.protocol.messages import FetchRequest, ListTransactionsResponse, MetadataRequest, ProduceRequest

METADATA, PRODUCE, FETCH = 3, 0, 1


def refusal(key: int, version: int, body: str | bytes, kind: str = "request") -> str:
    decoder = generated.request_decoder if kind == "request" else generated.response_decoder
    data = bytes.fromhex(body) if isinstance(body, str) else body
    with pytest.raises(MalformedMessage) as caught:
        decoder(key, version)(data, 0)
    return str(caught.value)


# A Produce 9 request: transactional_id null, acks -1, timeout 30000, one topic "t", one partition 0, records of 3 bytes.
PRODUCE_9 = "00 ffff 00007530 02 0274 02 00000000 04616263 00 00 00"


def test_sound_body():
    body, end = generated.request_decoder(PRODUCE, 9)(bytes.fromhex(PRODUCE_9), 0)
    assert end == 22
    assert body == ProduceRequest(
        acks=-1,
        timeout_ms=30000,
        topic_data=[
            ProduceRequest.TopicData(
                name="t", partition_data=[ProduceRequest.TopicData.PartitionData(index=0, records=memoryview(b"abc"))]
            )
        ],
    )


def test_records_are_a_view_of_the_frame():
    frame = bytearray.fromhex(PRODUCE_9)
    body, _ = generated.request_decoder(PRODUCE, 9)(frame, 0)
    records = body.topic_data[0].partition_data[0].records
    frame[16] = ord("X")
    assert bytes(records) == b"Xbc"


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_will_do_and_the_body_may_start_anywhere(buffer):
    body, end = generated.request_decoder(PRODUCE, 9)(buffer(b"12345" + bytes.fromhex(PRODUCE_9)), 5)
    assert end == 27
    assert body.topic_data[0].name == "t"


@pytest.mark.parametrize("cut", range(21))
def test_body_cut_anywhere_says_that_it_is_cut_or_what_is_left(cut):
    sentence = refusal(PRODUCE, 9, bytes.fromhex(PRODUCE_9)[:cut])
    assert sentence.startswith("Produce request 9: ")
    assert sentence.endswith(f" of {cut}")


@pytest.mark.parametrize(
    ("key", "version", "body", "sentence"),
    [
        # Lengths of strings and bytes
        (PRODUCE, 9, "05 6162", "Produce request 9: transactional_id says 4 bytes, 2 are left, at byte 1 of 3"),
        (PRODUCE, 7, "fffe", "Produce request 7: transactional_id has length -2, at byte 2 of 2"),
        (PRODUCE, 7, "7fff", "Produce request 7: transactional_id says 32767 bytes, 0 are left, at byte 2 of 2"),
        (
            PRODUCE,
            9,
            "02 ff",
            "Produce request 9: transactional_id is not UTF-8 (invalid start byte behind 0 bytes), at byte 1 of 2",
        ),
        (
            PRODUCE,
            9,
            "818002",
            "Produce request 9: transactional_id is a string of 32768 bytes, 32767 are allowed, at byte 1 of 3",
        ),
        (
            PRODUCE,
            9,
            "00 ffff 00007530 02 00 01 00 00",
            "Produce request 9: topic_data[].name is null, which this version does not allow, at byte 9 of 12",
        ),
        (
            PRODUCE,
            9,
            "00 ffff 00007530 02 0274 02 00000000 ffffffff0f 6162",
            "Produce request 9: topic_data[].partition_data[].records says 4294967294 bytes, 2 are left, at byte 20 of 22",
        ),
        # Counts
        (
            METADATA,
            12,
            "ffffffff0f",
            "Metadata request 12: topics says 4294967294 elements of at least 18 bytes, 0 bytes are left, at byte 5 of 5",
        ),
        (
            METADATA,
            4,
            "7fffffff 0000",
            "Metadata request 4: topics says 2147483647 elements of at least 2 bytes, 2 bytes are left, at byte 4 of 6",
        ),
        (METADATA, 4, "fffffffe 00", "Metadata request 4: topics has -2 elements, at byte 4 of 5"),
        (METADATA, 0, "ffffffff", "Metadata request 0: topics is null, which this version does not allow, at byte 4 of 4"),
        # Varints
        (
            METADATA,
            12,
            "ffffffffff01",
            "Metadata request 12: topics has a length that does not fit 32 bits in 5 bytes (the fifth is 0xff), at byte 1 of 6",
        ),
        (
            METADATA,
            12,
            "ffffffff10",
            "Metadata request 12: topics has a length that does not fit 32 bits in 5 bytes (the fifth is 0x10), at byte 1 of 5",
        ),
        (METADATA, 12, "ffff", "Metadata request 12: topics is cut, at byte 1 of 2"),
        # Tagged fields
        (
            METADATA,
            12,
            "01 01 01 02 00 00",
            "Metadata request 12: tags says 2 tagged fields of at least 2 bytes, 2 bytes are left, at byte 4 of 6",
        ),
        (
            METADATA,
            12,
            "01 01 01 8208" + "0000" * 1026,
            "Metadata request 12: tags has 1026 tagged fields, 1024 are allowed, at byte 4 of 2057",
        ),
        (METADATA, 12, "01 01 01 02 0500 0500", "Metadata request 12: tags has tag 5 behind tag 5; tags rise, at byte 4 of 8"),
        (METADATA, 12, "01 01 01 01 0509 00", "Metadata request 12: tags says 9 bytes, 1 are left, at byte 4 of 7"),
        # A known tagged field that is shorter than its size: cluster_id of Fetch 12
        (
            FETCH,
            12,
            "ffffffff" + "00" * 21 + "01 01 01" + "01 00 03 0261 00",
            "Fetch request 12: cluster_id ends at 33; its tagged field ends at 34, at byte 33 of 34",
        ),
        # A struct that may be null: the cursor of DescribeTopicPartitions
        (
            75,
            0,
            "01 00000000 02",
            "DescribeTopicPartitions request 0: cursor begins with 2; 1 says that a struct follows, -1 that it is null, at byte 6 of 6",
        ),
        # Numbers
        (METADATA, 12, "01 01", "Metadata request 12: allow_auto_topic_creation to tags is cut, at byte 1 of 2"),
        (METADATA, 12, "", "Metadata request 12: topics is cut, at byte 0 of 0"),
    ],
)
def test_damage_is_named_with_its_field_and_position(key, version, body, sentence):
    assert refusal(key, version, body) == sentence


def test_damage_in_a_response_is_named_too():
    assert refusal(12, 4, "00000000", "response") == "Heartbeat response 4: throttle_time_ms to tags is cut, at byte 0 of 4"


def test_refusal_is_an_invalid_request_on_the_wire():
    with pytest.raises(InvalidRequest) as caught:
        generated.request_decoder(METADATA, 12)(b"", 0)
    assert caught.value.code == 42
    assert caught.value.__cause__ is None


def test_unknown_api_and_version_are_sentences():
    with pytest.raises(UnsupportedVersion, match=r"^there is no API with key 999 here$") as caught:
        generated.request_decoder(999, 0)
    assert caught.value.code == 35
    with pytest.raises(UnsupportedVersion, match=r"^Produce \(key 0\) has versions 0 to 13 here, not 14$"):
        generated.request_decoder(PRODUCE, 14)
    with pytest.raises(UnsupportedVersion, match=r"not -1$"):
        generated.response_encoder(PRODUCE, -1)


def test_unknown_tagged_fields_are_kept_and_written_again():
    # An empty Metadata 12 request with tags 3 and 7, and its one topic with tag 200.
    frame = bytes.fromhex("02" + "00" * 16 + "0274 01 c801 02 abcd" + "01 01" + "02 03 00 07 03 010203")
    body, end = generated.request_decoder(METADATA, 12)(frame, 0)
    assert end == len(frame)
    assert body.unknown_tags.hex() == "03000703010203"
    assert body.topics[0].unknown_tags.hex() == "c80102abcd"
    pieces: list[bytes] = []
    generated.request_encoder(METADATA, 12)(body, pieces.append)
    assert b"".join(pieces) == frame


def test_unknown_tag_between_known_ones_is_written_in_its_place():
    # Fetch 15: cluster_id (tag 0) "c", replica_state (tag 1), unknown tag 9.
    tags = "03 00 02 0263 01 0d 00000005 0000000000000007 00 09 01 ff"
    frame = bytes.fromhex("00" * 21 + "01 01 01" + tags)
    body, end = generated.request_decoder(FETCH, 15)(frame, 0)
    assert end == len(frame)
    assert body.cluster_id == "c"
    assert body.replica_state == FetchRequest.ReplicaState(replica_id=5, replica_epoch=7)
    pieces: list[bytes] = []
    generated.request_encoder(FETCH, 15)(body, pieces.append)
    assert b"".join(pieces) == frame


def test_bytes_behind_the_body_are_left_to_the_caller():
    body, end = generated.request_decoder(METADATA, 12)(bytes.fromhex("01 01 01 00 abcdef"), 0)
    assert (body, end) == (MetadataRequest(topics=[], include_topic_authorized_operations=True), 4)


def test_request_of_more_elements_than_allowed_is_refused_before_they_are_made():
    # DescribeGroups 5: a hundred thousand and one empty group ids.
    count = 100_001
    frame = bytes([count + 1 & 0x7F | 0x80, (count + 1) >> 7 & 0x7F | 0x80, (count + 1) >> 14]) + bytes([1]) * count + bytes(2)
    assert refusal(15, 5, frame).startswith("DescribeGroups request 5: groups makes more elements than one message may have, ")
    allowed = count - 1
    frame = (
        bytes([allowed + 1 & 0x7F | 0x80, (allowed + 1) >> 7 & 0x7F | 0x80, (allowed + 1) >> 14])
        + bytes([1]) * allowed
        + bytes(2)
    )
    body, _ = generated.request_decoder(15, 5)(frame, 0)
    assert len(body.groups) == allowed


def test_elements_are_counted_over_the_whole_request():
    # Fetch 12: 400 topics of 300 partitions each are 120,400 elements; the counts are each small.
    partition = bytes(33)
    topic = bytes.fromhex("0174"[:2]) + bytes([0xAD, 0x02]) + partition * 300 + bytes(1)
    frame = bytes(25) + bytes([0x91, 0x03]) + topic * 400 + bytes.fromhex("010100")
    assert "makes more elements than one message may have" in refusal(FETCH, 12, frame)


def test_numbers_in_arrays_are_elements_too():
    # ElectLeaders 1: one topic, "", with its partitions; 4 bytes of the frame are an int of 32 and a result of some hundred more.
    def frame(count: int) -> bytes:
        return bytes(1) + struct.pack(">i", 1) + bytes(2) + struct.pack(">i", count) + bytes(4 * count) + bytes(4)

    assert "makes more elements than one message may have" in refusal(43, 1, frame(100_000))
    body, _ = generated.request_decoder(43, 1)(frame(99_999), 0)
    assert len(body.topic_partitions[0].partitions) == 99_999


def test_tagged_fields_that_nobody_knows_are_elements_too():
    # Metadata 12: topics without name, each with 100 empty tagged fields; they are walked one by one.
    def frame(count: int) -> bytes:
        topic = bytes(16) + b"\0" + bytes([100]) + b"".join(bytes([tag, 0]) for tag in range(100))
        return bytes([count + 1 & 0x7F | 0x80, count + 1 >> 7]) + topic * count + bytes(3)

    assert "makes more elements than one message may have" in refusal(METADATA, 12, frame(1000))
    body, _ = generated.request_decoder(METADATA, 12)(frame(900), 0)
    assert len(body.topics[899].unknown_tags) == 200


def test_answer_may_have_more_elements_than_a_request():
    states = [""] * 120_000
    pieces: list[bytes] = []
    generated.response_encoder(66, 2)(ListTransactionsResponse(unknown_state_filters=states), pieces.append)
    read, _ = generated.response_decoder(66, 2)(b"".join(pieces), 0)
    assert read.unknown_state_filters == states


def smallest(cls: Any, version: int) -> Any:
    """A message or struct in as few bytes as the version can do."""
    values: dict[str, Any] = {}
    for field in cls._schema.fields:
        if not field.exists_in(version) or field.tag is not None:
            continue
        if field.struct is not None and not field.array:
            nullable = field.is_nullable_in(version)
            values[field.name] = None if nullable else smallest(getattr(cls, field.struct.class_name), version)
        elif field.array:
            values[field.name] = []
        elif field.type in ("string", "bytes", "records"):
            values[field.name] = "" if field.type == "string" else b""
    return cls(**values)


def crowded(cls: Any, version: int, count: int) -> Iterator[Any]:
    """Messages that are as small as can be, but for one array of structs with `count` elements; one message for each array."""
    for field in cls._schema.fields:
        if not field.exists_in(version) or field.struct is None:
            continue
        inner = getattr(cls, field.struct.class_name)
        fillings = list(crowded(inner, version, count))
        fillings = [[filling] for filling in fillings] if field.array else fillings
        for filling in [*fillings, [smallest(inner, version)] * count] if field.array else fillings:
            message = smallest(cls, version)
            setattr(message, field.name, filling)
            yield message


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_memory_of_a_request_full_of_small_elements_stays_under_fifty_times_its_size(api):
    for version in {api.known[0], api.known[1]}:
        encode, decode = generated.request_encoder(api.key, version), generated.request_decoder(api.key, version)
        for message in crowded(generated.class_named(f"{api.name}Request"), version, 300):
            pieces: list[bytes] = []
            encode(message, pieces.append)
            frame = b"".join(pieces)
            tracemalloc.start()
            try:
                body, end = decode(frame, 0)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert (body, end) == (message, len(frame))
            assert peak <= 50 * len(frame)


def test_length_that_lies_allocates_nothing():
    frame = bytes.fromhex("00 ffff 00007530 02 0274 02 00000000 ffffffff07") + bytes(100)
    generated.request_decoder(PRODUCE, 9)
    tracemalloc.start()
    try:
        refusal(PRODUCE, 9, frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000


def test_megabyte_of_ff_is_refused_at_its_fifth_byte():
    frame = b"\xff" * (1 << 20)
    decoder = generated.request_decoder(METADATA, 12)
    start = time.thread_time()
    for _ in range(10):
        with pytest.raises(MalformedMessage):
            decoder(frame, 0)
    assert time.thread_time() - start < 0.5


def test_unknown_tags_of_a_large_frame_are_kept_in_linear_time():
    # FetchRequest knows tags 0 and 1: the first unknown one is 8 MB, a thousand follow.
    big = 8 << 20
    sizes = bytes([big & 0x7F | 0x80, big >> 7 & 0x7F | 0x80, big >> 14 & 0x7F | 0x80, big >> 21])
    rest = b"".join(bytes([0x80 | tag & 0x7F, tag >> 7, 0]) for tag in range(200, 1200))
    frame = bytes(25) + bytes.fromhex("010101") + bytes([0xE9, 0x07]) + bytes([5]) + sizes + bytes(big) + rest
    start = time.thread_time()
    body, end = generated.request_decoder(FETCH, 12)(frame, 0)
    assert time.thread_time() - start < 1
    assert end == len(frame)
    assert len(body.unknown_tags) == 5 + big + 3000

"""What is read and written by hand is what the encoder and the decoder of Fetch say, in every version."""

from __future__ import annotations

import random

import pytest

from milepost.protocol import frames, headers
from milepost.protocol.consumer_fetch_frames import KEY, Answered, ConsumerAnswerFrame, ConsumerFetchFrame, OtherFrame
from milepost.protocol.messages import FetchRequest, FetchResponse

VERSIONS = range(4, 19)
ID = bytes(range(16))
Topic, Part = FetchRequest.Topic, FetchRequest.Topic.Partition
Response = FetchResponse.Response


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    return request.param


def request(version: int, *topics: tuple[str, list[Part]], epoch: int = -1, **fields) -> memoryview:
    by_id = version >= 13
    named = [
        Topic(topic="" if by_id else name, topic_id=name.encode().ljust(16) if by_id else bytes(16), partitions=parts)
        for name, parts in topics
    ]
    session = {"session_id": 77, "session_epoch": epoch} if version >= 7 else {}
    body = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1000, topics=named, **session, **fields)
    return memoryview(frames.encode_request(KEY, version, 3, "client", body))[4:]


def part(version: int, index: int, offset: int, leader_epoch: int = -1, max_bytes: int = 100) -> Part:
    epoch = {"current_leader_epoch": leader_epoch} if version >= 9 else {}
    return Part(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **epoch)


def key(version: int, name: str) -> bytes:
    return name.encode().ljust(16) if version >= 13 else name.encode()


def test_request_that_names_others_at_other_offsets_is_read(version):
    frame = ConsumerFetchFrame(version, request(version, ("t", [part(version, 0, 5)]), epoch=3))
    epoch = 4 if version >= 9 else -1
    other = request(
        version, ("t", [part(version, 2, 1 << 40, epoch, 7), part(version, 0, 6)]), ("other", [part(version, 1, 0)]), epoch=9
    )
    assert frame.read(other) == (
        9 if version >= 7 else -1,
        [(key(version, "t"), 2, epoch, 1 << 40, 7), (key(version, "t"), 0, -1, 6, 100), (key(version, "other"), 1, -1, 0, 100)],
    )


def test_request_that_names_nothing_is_read(version):
    frame = ConsumerFetchFrame(version, request(version, ("t", [part(version, 0, 5)])))
    assert frame.read(request(version)) == (-1, [])


@pytest.mark.parametrize(
    "changed",
    [
        {"max_wait_ms": 501},
        {"min_bytes": 2},
        {"max_bytes": 1001},
        {"isolation_level": 1},
        {"session_id": 78},
        {"forgotten_topics_data": [FetchRequest.ForgottenTopicsData(topic="t", topic_id=ID, partitions=[1])]},
        {"rack_id": "r"},
    ],
)
def test_request_that_differs_elsewhere_is_another(changed):
    frame = ConsumerFetchFrame(12, request(12, ("t", [part(12, 0, 5)])))
    assert frame.read(request(12, ("t", [part(12, 0, 5)]))) is not None
    body = {"session_id": 77, "session_epoch": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1000, **changed}
    encoded = frames.encode_request(
        KEY, 12, 3, "client", FetchRequest(topics=[Topic(topic="t", partitions=[part(12, 0, 5)])], **body)
    )
    assert frame.read(memoryview(encoded)[4:]) is None


def test_request_of_another_client_or_version_or_api_is_another(version):
    mine = request(version, ("t", [part(version, 0, 5)]))
    frame = ConsumerFetchFrame(version, mine)
    other_client = bytes(mine).replace(b"client", b"cliend")
    other_version = bytes(mine[:3]) + bytes([version + 1]) + bytes(mine[4:])
    other_api = b"\0\2" + bytes(mine[2:])
    assert [frame.read(memoryview(each)) for each in (other_client, other_version, other_api)] == [None, None, None]


def test_request_that_is_cut_or_goes_on_is_another(version):
    whole = request(version, ("t", [part(version, 0, 5), part(version, 1, 5)]))
    frame = ConsumerFetchFrame(version, whole)
    assert frame.read(whole) is not None
    assert [frame.read(whole[:size]) for size in range(8, len(whole))] == [None] * (len(whole) - 8)
    assert frame.read(memoryview(bytes(whole) + b"\0")) is None


def test_request_with_null_instead_of_topics_or_partitions_is_another():
    for version in range(12, 19):
        nothing = bytes(request(version))
        frame = ConsumerFetchFrame(version, memoryview(nothing))
        at = len(nothing) - 4
        assert nothing[at] == 1
        assert frame.read(memoryview(nothing)) == (-1, [])
        assert frame.read(memoryview(nothing[:at] + b"\0" + nothing[at + 1 :])) is None


def test_request_for_so_many_partitions_that_their_number_takes_two_bytes_is_another(version):
    frame = ConsumerFetchFrame(version, request(version, ("t", [part(version, 0, 5)])))
    many = request(version, ("t", [part(version, number, 5) for number in range(200)]))
    assert (frame.read(many) is None) is (version >= 12)


def test_random_bytes_are_never_read_as_more_than_there_is(version):
    rng = random.Random(version)
    whole = request(version, ("t", [part(version, number, 5) for number in range(3)]))
    frame = ConsumerFetchFrame(version, whole)
    decoded = 0
    for _ in range(2000):
        changed = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(8, len(changed))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        found = frame.read(memoryview(changed))
        if found is not None and all(topic == key(version, "t") for topic, *_ in found[1]):
            body = frames.decode_request(headers.read_request_header(changed), changed)[0]
            expected = [
                (key(version, "t"), one.partition, one.current_leader_epoch, one.fetch_offset, one.partition_max_bytes)
                for each in body.topics
                for one in each.partitions
            ]
            assert found == (body.session_epoch if version >= 7 else -1, expected)
            decoded += 1
    assert decoded > 100


def test_tagged_fields_in_a_partition_are_not_passed_over():
    tagged = part(18, 0, 5)
    tagged.high_watermark = 3
    with pytest.raises(OtherFrame):
        ConsumerFetchFrame(18, request(18, ("t", [tagged])))


def answer(version: int, session_id: int, topics: list[tuple[str, list[Answered]]]) -> bytes:
    responses = [
        Response(
            topic="" if version >= 13 else name,
            topic_id=key(version, name) if version >= 13 else bytes(16),
            partitions=[
                Response.Partition(
                    partition_index=index,
                    high_watermark=offsets[0],
                    last_stable_offset=offsets[1],
                    log_start_offset=offsets[2],
                    aborted_transactions=None
                    if aborted is None
                    else [Response.Partition.AbortedTransaction(producer_id=row[0], first_offset=row[1]) for row in aborted],
                    records=records,
                )
                for index, offsets, aborted, records in partitions
            ],
        )
        for name, partitions in topics
    ]
    return frames.encode_response(KEY, version, 5, FetchResponse(session_id=session_id, responses=responses))


def written(version: int, session_id: int, topics: list[tuple[str, list[Answered]]]) -> list:
    named = [(key(version, name), partitions) for name, partitions in topics]
    return ConsumerAnswerFrame(version).write(b"\0\0\0\5", session_id, named)


class Stretch(bytearray):
    """Of a file: something with a length that is no bytes."""


def test_answer_is_what_the_encoder_writes(version):
    start = 4 if version >= 5 else -1
    topics: list[tuple[str, list[Answered]]] = [
        ("t", [(0, (9, 8, start), None, b"x" * 300), (7, (1 << 40, 0, start), [(5, 6), (7, 8)], b"")]),
        ("a" * 16, [(1, (0, 0, start), [], b"y")]),
    ]
    session_id = 77 if version >= 7 else 0
    assert written(version, session_id, topics) == [answer(version, session_id, topics)]
    assert written(version, session_id, []) == [answer(version, session_id, [])]


def test_records_that_are_a_stretch_of_a_file_stay_one(version):
    topics: list[tuple[str, list[Answered]]] = [("t", [(0, (9, 8, -1), None, b"x" * 300), (1, (9, 8, -1), None, b"")])]
    stretch = Stretch(b"x" * 300)
    pieces = written(version, 0, [("t", [(0, (9, 8, -1), None, stretch), (1, (9, 8, -1), None, b"")])])
    assert pieces[1] is stretch
    assert b"".join(pieces) == answer(version, 0, topics)

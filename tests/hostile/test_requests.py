"""Requests that ask for what cannot be: N-36 to N-38 and N-40."""

from __future__ import annotations

import contextlib
import re
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from milepost.broker.dispatch import served_apis
from milepost.protocol import frames, generated
from milepost.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    FetchRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from milepost.protocol.schema import Field
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.fuzz.driven_broker import error_codes
from tests.hostile.besieged import HEALTHY_TOPIC, NOW, fetch, produce

NO_TOPICS = [
    *("", ".", "..", "../../x", "a/b", "/etc/passwd", "a\\b", "a\0b", "\0", "a\nb", "a b", "x" * 250, "y" * 32767),
    *("é", "\uff41", "\u0430", "\u202etopic", "a:b", "a,b", "*", "~", "$HOME", "%2e%2e", "\x7f"),
]
GOOD_NAME = re.compile(r"[a-zA-Z0-9._-]{1,260}")


def named(cls: type[Any], version: int, name: str) -> Any:
    """A message with one element in each list, and the name in every place for text."""

    def value(field: Field) -> Any:
        return [element(field)] if field.array else element(field)

    def element(field: Field) -> Any:
        if field.struct is not None:
            return named(getattr(cls, field.struct.class_name), version, name)
        if field.type == "string":
            return name
        known = {"acks": 1, "session_timeout_ms": 10_000, "resource_type": 2, "num_partitions": 1, "replication_factor": 1}
        kinds = {"bytes": b"", "records": b"", "uuid": bytes(16), "bool": True, "float64": 1.0}
        return known.get(field.name, kinds.get(field.type, 0))

    fields = [field for field in cls._schema.fields if field.exists_in(version) and field.tag is None]
    return cls(**{field.name: value(field) for field in fields if field.name != "validate_only"})


def entries(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_names_that_are_no_topic(broker):
    """In every text of every API, as topic, as group, as transactional id: no file or directory comes of it."""
    around = broker.data.parent
    before = entries(around)
    with broker.wire("names") as wire:
        for key, api in served_apis().items():
            version = 3 if api.name == "AddPartitionsToTxn" else api.served[1]
            for name in NO_TOPICS:
                answer = wire.ask(named(generated.class_named(api.name + "Request"), version, name), version)
                assert all(code != -1 for _, code in error_codes(answer)), (key, name)
        for name in NO_TOPICS:
            (topic,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 12).topics
            assert (topic.error_code, topic.partitions) == (17, [])
        listed = {topic.name for topic in wire.ask(MetadataRequest(topics=None), 12).topics}
    assert not listed & set(NO_TOPICS)
    made = {path for path in entries(around) - before if path.partition("/")[0] != "data"}
    assert made == set()
    assert all(GOOD_NAME.fullmatch(path.name) for path in broker.data.iterdir())


def test_topics_that_are_made_by_asking_for_them_are_made_a_hundred_at_a_time(broker):
    """Ten thousand at once would keep everybody waiting; who asks again gets the next hundred."""
    with broker.wire() as wire:
        topics = [MetadataRequest.Topic(name=f"asked-{number}") for number in range(10_000)]
        for made in (100, 200):
            answered = wire.ask(MetadataRequest(topics=topics), 12).topics
            assert [topic.error_code for topic in answered] == [0] * made + [3] * (10_000 - made)


def test_names_that_differ_only_in_dots_and_underscores(broker):
    with broker.wire() as wire:
        topics = [CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1) for name in ("dots.a", "dots_a")]
        answers = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7).topics
        assert sorted(topic.error_code for topic in answers) == [0, 17]


@pytest.mark.parametrize(
    ("partitions", "factor", "configs", "code"),
    [
        (10**9, 1, {}, 44),
        (2**31 - 1, 1, {}, 44),
        (10_001, 1, {}, 44),
        (0, 1, {}, 37),
        (-2, 1, {}, 37),
        (-(2**31), 1, {}, 37),
        (1, 0, {}, 38),
        (1, 2, {}, 38),
        (1, 32767, {}, 38),
        (1, -2, {}, 38),
        (1, 1, {"segment.bytes": "-1"}, 40),
        (1, 1, {"segment.bytes": "9" * 400}, 40),
        (1, 1, {"segment.bytes": "nan"}, 40),
        (1, 1, {"no.such.setting": "1"}, 40),
        (1, 1, {"": ""}, 40),
        (1, 1, {"cleanup.policy": "a" * 10_000}, 40),
    ],
)
def test_topics_that_cannot_be(broker, partitions, factor, configs, code):
    topic = CreateTopicsRequest.Topic
    given = [topic.Config(name=name, value=value) for name, value in configs.items()]
    wanted = topic(name="absurd", num_partitions=partitions, replication_factor=factor, configs=given)
    with broker.wire() as wire:
        (answer,) = wire.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1000), 7).topics
        assert answer.error_code == code
        assert answer.error_message


def test_partitions_that_cannot_be(broker):
    with broker.wire() as wire:
        for count, code in ((10**9, 44), (2**31 - 1, 44), (0, 37), (-1, 37), (1, 37)):
            topic = CreatePartitionsRequest.Topic(name=HEALTHY_TOPIC, count=count, assignments=None)
            (result,) = wire.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 3).results
            assert result.error_code == code


# Fetch.


@pytest.mark.parametrize(
    ("offset", "code"), [(-1, 1), (-5, 1), (2**63 - 1, 1), (-(2**63), 1)], ids=["-1", "-5", "2^63-1", "-2^63"]
)
def test_offsets_that_cannot_be(broker, offset, code):
    with broker.wire() as wire:
        assert fetch(wire, HEALTHY_TOPIC, offset).error_code == code


@pytest.mark.parametrize("max_bytes", [0, 1, -1, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("min_bytes", [0, -1, 2**31 - 1])
def test_fetches_that_cannot_be(broker, max_bytes, min_bytes):
    """The first batch comes however small the limit is; below 0 it is none."""
    with broker.wire() as wire:
        found = fetch(wire, HEALTHY_TOPIC, 0, max_bytes=max_bytes, min_bytes=min_bytes)
        assert found.error_code == (0 if max_bytes >= 0 else 42)
        assert (0 < len(found.records) <= 1 << 20) == (max_bytes >= 0)


def test_fetches_that_wait_for_what_never_comes(broker):
    """2^31 bytes, or 2^31 milliseconds: they wait, nobody else does, and they are forgotten when they hang up."""
    with contextlib.ExitStack() as stack:
        for min_bytes, max_wait_ms in ((2**31 - 1, 2**31 - 1), (1, 2**31 - 1)):
            for _ in range(50):
                stranger = stack.enter_context(broker.connect())
                part = FetchRequest.Topic.Partition(partition=0, fetch_offset=10**6, partition_max_bytes=1 << 20)
                topics = [FetchRequest.Topic(topic=HEALTHY_TOPIC, partitions=[part] * 100)]
                request = FetchRequest(min_bytes=min_bytes, max_wait_ms=max_wait_ms, max_bytes=1 << 20, topics=topics)
                stranger.send_bytes(frames.encode_request(1, 11, 7, "waits", request))
        broker.healthy.get_on(20)


def test_one_partition_many_times_in_a_fetch_that_waits(broker):
    """Named twenty thousand times it is looked at once, now and whenever something arrives."""
    with broker.wire() as wire, broker.connect() as stranger:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="often")]), 12)
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchRequest.Topic(topic="often", partitions=[part] * 20_000)]
        request = FetchRequest(min_bytes=1 << 20, max_wait_ms=3_000, max_bytes=1 << 20, topics=topics)
        stranger.send_bytes(frames.encode_request(1, 11, 7, "waits", request))
        for number in range(100):
            answer = produce(wire, "often", build_batch([Record(0, NOW, b"k", b"v")], base_offset=0))
            assert answer.base_offset == number
        (topic,) = frames.decode_response(1, 11, stranger.read_frame())[1].responses
        assert len(topic.partitions) == 1


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [(1, 1, 70), (2**31 - 1, 5, 70), (-1, 1, 70), (-(2**31), 2**31 - 1, 70), (0, 1, 70), (0, -2, 70)],
)
def test_sessions_that_are_forged(broker, session_id, epoch, code):
    with broker.wire() as wire:
        request = FetchRequest(session_id=session_id, session_epoch=epoch, max_bytes=1 << 20)
        assert wire.ask(request, 11).error_code == code


def test_sessions_without_end(broker):
    """A thousand are kept. Who finds no place is served without one."""
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)
    request = FetchRequest(
        session_id=0,
        session_epoch=0,
        max_bytes=100,
        topics=[FetchRequest.Topic(topic=HEALTHY_TOPIC, partitions=[part])],
    )
    frame = frames.encode_request(1, 11, 7, "sessions", request)
    given = []
    with broker.connect() as stranger:
        sender = threading.Thread(target=stranger.send_bytes, args=(frame * 10_000,))
        sender.start()
        for _ in range(10_000):
            answer = frames.decode_response(1, 11, stranger.read_frame())[1]
            assert len(answer.responses[0].partitions[0].records) > 0
            given.append(answer.session_id)
        sender.join()
    assert len({number for number in given if number}) <= 1000
    assert given[-1] == 0


def test_partitions_that_nobody_has_are_kept_in_no_session(broker):
    """90,000 of them once, and then 52 bytes on each of 40 connections: each took a second."""
    parts = [FetchRequest.Topic.Partition(partition=number) for number in range(90_000)]
    asked = FetchRequest(session_epoch=0, max_bytes=100, topics=[FetchRequest.Topic(topic="nobody has it", partitions=parts)])
    before = broker.measure()
    with broker.wire() as wire:
        answer = wire.ask(asked, 11)
        assert (answer.error_code, answer.session_id) == (0, 0)
        assert {part.error_code for part in answer.responses[0].partitions} == {3}
    cpu_seconds = broker.measure().cpu_seconds
    for _ in range(40):
        with broker.wire() as wire:
            assert wire.ask(FetchRequest(session_id=1, session_epoch=1), 11).error_code == 70
    assert broker.measure().cpu_seconds - cpu_seconds < 2
    assert broker.measure().memory < before.memory + (64 << 20)


# Groups.


def join(wire: Wire, group: str, *, timeout: int = 60_000, member: str = "", metadata: bytes = b"", version: int = 5) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=timeout,
        rebalance_timeout_ms=timeout,
        member_id=member,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    )
    return wire.ask(request, version)


def commit(wire: Wire, group: str, *, metadata: str = "", generation: int = -1, member: str = "") -> int:
    part = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequest.Topic(name=HEALTHY_TOPIC, partitions=[part])],
    )
    return wire.ask(request, 7).topics[0].partitions[0].error_code


@pytest.mark.parametrize("timeout", [5999, 0, -1, 1_800_001, 2**31 - 1, -(2**31)])
def test_groups_that_cannot_be(broker, timeout):
    with broker.wire() as wire:
        assert join(wire, "absurd", timeout=timeout).error_code == 26


def test_commits_that_cannot_be(broker):
    with broker.wire() as wire:
        assert commit(wire, "commits", metadata="m" * 4096) == 0
        assert commit(wire, "commits", metadata="m" * 4097) == 12
        member = join(wire, "members").member_id
        joined = join(wire, "members", member=member)
        assert joined.error_code == 0
        assert commit(wire, "members", generation=joined.generation_id - 1, member=member) == 22
        assert commit(wire, "members", generation=joined.generation_id + 1, member=member) == 22
        assert commit(wire, "members", generation=joined.generation_id, member="somebody else") == 25
        request = OffsetFetchRequest(group_id="commits", topics=None)
        assert wire.ask(request, 7).topics[0].partitions[0].metadata == "m" * 4096


def test_members_without_end(broker):
    """Ten thousand who ask for a member id and never come back, and one who brings ten megabytes."""
    before = broker.measure().memory
    body = JoinGroupRequest(
        group_id="crowd",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    frame = frames.encode_request(11, 5, 7, "crowd", body)
    with broker.connect() as stranger:
        sender = threading.Thread(target=stranger.send_bytes, args=(frame * 10_000,))
        sender.start()
        answers = [frames.decode_response(11, 5, stranger.read_frame())[1].error_code for _ in range(10_000)]
        sender.join()
        assert set(answers) <= {79, 81}
    with broker.wire() as wire:
        member = join(wire, "large", metadata=bytes(10 << 20)).member_id
        assert join(wire, "large", member=member, metadata=bytes(10 << 20)).error_code in (0, 10, 42, 81)
    assert broker.measure().memory < before + (64 << 20)


def test_group_ids_that_are_odd(broker):
    """A group's id is any text but the empty one; it never becomes a path."""
    with broker.wire() as wire:
        for group in ("../../x", "a/b", "\0", "a\nb", "\u202e", "g" * 32767):
            assert commit(wire, group) == 0
        assert commit(wire, "") in (0, 24)
    assert not list(broker.data.glob("*x*/*")) or all(GOOD_NAME.fullmatch(path.name) for path in broker.data.iterdir())


def test_frame_of_a_hundred_thousand_elements_is_the_largest_that_is_read(broker):
    with broker.connect() as stranger:
        for count, is_answered in ((100_000, True), (100_001, False)):
            body = struct.pack(">i", count) + b"\0\1g" * count
            stranger.send_frame(struct.pack(">hhih", 15, 0, 7, -1) + body)
            if is_answered:
                assert len(frames.decode_response(15, 0, stranger.read_frame())[1].groups) == 1
            else:
                assert stranger.is_closed_by_the_broker

"""Frame, header and all bodies through the broker itself: hostile requests in every version served, and none gets the better of it.

The runs here are short and the same every time; those of `make trouble` are long, and new every time. A finding says its seed:
`python -c "from tests.fuzz.broker_run import *; one_broker(Path('/tmp/f'), SEED, Counts())"` repeats it.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.protocol import frames
from milepost.protocol.messages import MetadataRequest, ProduceRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.fuzz.broker_run import REQUESTS_TO_A_BROKER, run, served_versions, started
from tests.fuzz.coverage_guided import needs_atheris, run_target
from tests.fuzz.driven_broker import START_MS, DrivenBroker, Link
from tests.fuzz.hostile_batches import hostile_batch
from tests.fuzz.hostile_requests import LYING_LENGTHS, Requests, recordings

LONG_RUN = 250_000
# What an answer may cost beside the bytes of its request: a handler's own objects, modules imported on first use.
MEMORY_FOR_ANY = 1 << 19


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[DrivenBroker]:
    broker = started(tmp_path / "data", 1, Requests(1))
    yield broker
    broker.stop()


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_requests_of_every_version_are_answered_or_closed_on(tmp_path, seed):
    counts = run(tmp_path, seed, 8 * REQUESTS_TO_A_BROKER)
    # Most are answered: a run that closes on everything has tested the decoder alone.
    assert counts.answered > counts.requests / 2
    assert counts.closed > counts.requests / 10
    assert {0, 1, 3, 17, 25, 31, 42, 49, 87, 100} <= set(counts.codes)


def test_streams_of_random_bytes_end_their_connection_and_nothing_else(driven):
    rng = random.Random(5)
    for _ in range(10_000):
        link = Link(driven)
        for _ in range(rng.randrange(1, 4)):
            link.send(rng.choice((b"", b"\0\0\0\x0c", b"\0\0\0\x20")) + rng.randbytes(rng.randrange(1, 60)))
        link.close()
    driven.judge_health()
    assert len(driven.broker.server.processors[0].channels) == 1


def test_recorded_requests_cut_anywhere_are_answered_or_closed_on(driven):
    rng = random.Random(6)
    for key, version in served_versions():
        for body in recordings().get((key, version), [])[:2]:
            header = frames.headers.request_header(key, version, 7, "cut")
            for cut in sorted(rng.sample(range(len(body) + 1), min(6, len(body) + 1))):
                driven.feed(header + body[:cut])
    driven.judge_health()


def test_lengths_that_lie_allocate_nothing(driven):
    """An array of 2^31 elements, a string of 32 KB, tagged fields by the million: refused before anything is made of them."""
    requests = Requests(7)
    assert driven.broker.groups, "loaded, which takes memory too"
    for key, version in served_versions():
        frame = frames.encode_request(key, version, 9, "lie", requests.message(key, version))[4:]
        driven.feed(frame)
        for lie in LYING_LENGTHS:
            at = requests.rng.randrange(13, len(frame) + 1)
            hostile = frame[:at] + lie + frame[at + len(lie) :]
            tracemalloc.start()
            driven.feed(hostile)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MEMORY_FOR_ANY + 50 * len(hostile), (key, version, hostile.hex())
    driven.judge_health()


def test_frames_in_a_row_are_answered_in_order_up_to_the_first_that_is_not_one(driven):
    good = [frames.encode_request(3, 12, number, "row", MetadataRequest(topics=[])) for number in range(50)]
    link = Link(driven)
    link.send(b"".join(good[:30]) + struct.pack(">i", 9) + bytes(9) + b"".join(good[30:]))
    assert [int.from_bytes(link.answer()[:4], "big") for _ in range(30)] == list(range(30))
    assert link.answer() is None
    assert not link.is_open


def produce_frames(rng: random.Random, version: int, topic_id: bytes) -> list[bytes]:
    """Requests that are alike up to their records, as a producer sends them: some batches as they should be, some not."""
    data = ProduceRequest.TopicData
    bunch = []
    for number in range(rng.randrange(2, 30)):
        good = build_batch([Record(0, START_MS, b"k", b"v" * rng.randrange(50))], base_offset=0)
        records = good if rng.random() < 0.7 else hostile_batch(rng, -1, -1)
        part = data.PartitionData(index=0, records=records)
        named = {"topic_id": topic_id} if version >= 13 else {"name": "plain"}
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data(partition_data=[part], **named)])
        frame = frames.encode_request(0, version, number, "bunch", request)
        if rng.random() < 0.05:
            frame = frame[:4] + bytes(frame[4:-1]) + bytes([rng.randrange(256)])
        bunch.append(frame)
    return bunch


def produced(link: Link, version: int, count: int) -> list[tuple[int, int, int]]:
    """Correlation id, error code and offset of each answer, up to where the connection was closed."""
    found = []
    for _ in range(count):
        frame = link.answer()
        if frame is None:
            break
        correlation_id, answer = frames.decode_response(0, version, frame)
        part = answer.responses[0].partition_responses[0]
        found.append((correlation_id, part.error_code, part.base_offset))
    return found


def test_bunches_of_produce_requests_are_answered_as_if_each_had_come_alone(tmp_path):
    """In one write on one connection they take the short way where they can; each on a connection of its own none does."""
    requests = Requests(8)
    together = started(tmp_path / "together", 1, requests)
    alone = started(tmp_path / "alone", 1, Requests(8))
    try:
        for number in range(300):
            version = requests.rng.randrange(3, 14)
            topic_id = together.broker.cluster.topics["plain"].topic_id
            bunch = produce_frames(requests.rng, version, topic_id)
            link = Link(together)
            link.send(b"".join(bunch))
            found = produced(link, version, len(bunch))
            link.close()
            expected = []
            for frame in bunch:
                link = Link(alone)
                link.send(frame.replace(topic_id, alone.broker.cluster.topics["plain"].topic_id))
                one = produced(link, version, 1)
                link.close()
                if not one:
                    break
                expected += one
            assert found == expected, (number, version)
            together.judge_log(b"")
        together.judge_health()
    finally:
        together.stop()
        alone.stop()


@pytest.mark.trouble
@pytest.mark.parametrize("worker", range(4))
def test_long_run_of_hostile_requests(tmp_path, worker, record_property):
    seed = random.SystemRandom().randrange(10**6)
    counts = run(tmp_path, seed, LONG_RUN)
    record_property("counts", str(counts))
    print(f"seed {seed}: {counts}")


@pytest.mark.trouble
@needs_atheris
def test_long_coverage_guided_run(tmp_path):
    coverage_guided(tmp_path, 200_000)


@needs_atheris
def test_coverage_guided_run(tmp_path):
    coverage_guided(tmp_path, 2_000)


def coverage_guided(directory: Path, runs: int) -> None:
    corpus = directory / "corpus"
    corpus.mkdir()
    for (key, version), bodies in recordings().items():
        (corpus / f"{key}-{version}").write_bytes(struct.pack(">hh", key, version) + min(bodies, key=len))
    run_target("fuzz_broker", directory, corpus, f"-atheris_runs={runs}", "-max_len=1000", "-rss_limit_mb=1024")

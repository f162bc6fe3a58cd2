"""What an incremental answer says of a partition, and what it leaves out."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from milepost.broker.fetch.partition_read import FetchPartition, Result
from milepost.broker.fetch.session_cache import FetchSessions, Session
from milepost.clock import ManualClock
from milepost.log.reading import Isolation
from milepost.protocol.messages import FetchRequest

PART = FetchRequest.Topic.Partition(partition=0, fetch_offset=5)


@pytest.fixture
def session() -> Session:
    """One that has told of its only partition."""
    log: Any = SimpleNamespace(high_watermark=5, last_stable_offset=5, start_offset=0)

    def fetch_partition(topic: FetchRequest.Topic, part: FetchRequest.Topic.Partition, version: int) -> FetchPartition:
        return FetchPartition("t", bytes(16), part, is_by_id=False, partition=SimpleNamespace(log=log))  # type: ignore[arg-type]

    request = FetchRequest(session_epoch=0, topics=[FetchRequest.Topic(topic="t", partitions=[PART])])
    opened = FetchSessions(10, ManualClock(0), random.Random(1)).open(request, 12, fetch_partition)
    assert isinstance(opened, Session)
    assert told(opened, None)
    return opened


def told(session: Session, result: Result | None) -> bool:
    return bool(session.answer(session.partitions(), [result], Isolation.UNCOMMITTED).responses)


def result(**fields: Any) -> Result:
    return Result(partition_index=0, high_watermark=5, last_stable_offset=5, log_start_offset=0, **fields)


def test_partition_without_news_is_left_out(session):
    assert not told(session, None)
    assert not told(session, result(records=b""))


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"some"},
        {"error_code": 74},
        {"diverging_epoch": Result.DivergingEpoch(epoch=3, end_offset=4)},
    ],
    ids=["records", "an error", "an epoch from which the logs differ"],
)
def test_news_are_told_every_time(session, news):
    assert told(session, result(**news))
    assert told(session, result(**news))


def test_facts_are_told_again_to_a_follower_that_had_to_cut_its_log(session):
    assert told(session, result(diverging_epoch=Result.DivergingEpoch(epoch=3, end_offset=4)))
    assert told(session, None)
    assert not told(session, None)


def test_facts_are_told_once(session):
    session.partitions()[0].partition.log.high_watermark = 6
    assert told(session, None)
    assert not told(session, None)


class Cache:
    """A cache of three sessions and ten partitions, and clients of it that name partitions which are here, or nowhere."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.sessions = FetchSessions(3, self.clock, random.Random(1), 10)
        log: Any = SimpleNamespace(high_watermark=5, last_stable_offset=5, start_offset=0)
        self._partition: Any = SimpleNamespace(log=log)

    def fetch_partition(self, topic: FetchRequest.Topic, part: FetchRequest.Topic.Partition, version: int) -> FetchPartition:
        return FetchPartition(topic.topic, bytes(16), part, False, None if topic.topic == "nowhere" else self._partition)

    def fetch(
        self, session_id: int, epoch: int, *partitions: int, topic: str = "t", is_followers: bool = False
    ) -> tuple[int, int]:
        """The session in the answer, and the error."""
        parts = [FetchRequest.Topic.Partition(partition=number, fetch_offset=5) for number in partitions]
        topics = [FetchRequest.Topic(topic=topic, partitions=parts)] if parts else []
        request = FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)
        opened = self.sessions.open(request, 12, self.fetch_partition, is_followers=is_followers)
        if opened.error_code:
            return 0, opened.error_code
        partitions = opened.partitions()
        missing = [None if each.partition is not None else result(error_code=3) for each in partitions]
        return opened.answer(partitions, missing, Isolation.UNCOMMITTED).session_id, 0

    def new(self, *partitions: int, **fields: Any) -> int:
        return self.fetch(0, 0, *partitions, **fields)[0]


@pytest.fixture
def cache() -> Cache:
    return Cache()


def test_client_that_reconnects_goes_on_with_its_session(cache):
    session = cache.new(0, 1)
    assert session
    assert cache.fetch(session, 1) == (session, 0)
    assert cache.fetch(session, 2, 2) == (session, 0)
    assert cache.sessions.partition_count == 3


def test_partition_that_is_not_here_is_kept_in_no_session(cache):
    assert cache.new(*range(1000), topic="nowhere") == 0
    assert (len(cache.sessions), cache.sessions.partition_count) == (0, 0)


def test_session_that_names_a_partition_that_is_not_here_is_closed_and_its_client_told(cache):
    """By session id 0, after which a client names everything: what comes into being later is not forgotten."""
    session = cache.new(0)
    assert cache.fetch(session, 1, 0, topic="nowhere") == (0, 0)
    assert cache.fetch(session, 2) == (0, 70)
    assert cache.sessions.partition_count == 0


def test_followers_session_waits_for_partitions_that_are_not_here_yet(cache):
    assert cache.new(0, topic="nowhere", is_followers=True)


def test_partitions_of_all_sessions_are_bounded(cache):
    first, second = cache.new(*range(5)), cache.new(*range(5))
    assert first
    assert second
    assert cache.new(0) == 0
    assert cache.fetch(second, 1, 5) == (0, 0)
    assert (len(cache.sessions), cache.sessions.partition_count, cache.sessions.refusals) == (1, 5, 2)
    assert cache.new(0)


def test_session_that_was_idle_for_two_minutes_makes_room(cache):
    idle, used = cache.new(0), cache.new(0)
    cache.new(0)
    cache.clock.advance(120_001)
    assert cache.fetch(used, 1) == (used, 0)
    assert cache.new(0)
    assert cache.fetch(idle, 1) == (0, 70)
    assert cache.sessions.evictions == 1


def test_session_of_fewer_partitions_makes_room_once_it_is_two_minutes_old(cache):
    sessions = [cache.new(0), cache.new(0, 1), cache.new(0, 1, 2)]
    assert cache.new(*range(4)) == 0
    cache.clock.advance(120_001)
    for session in sessions:
        assert cache.fetch(session, 1) == (session, 0)
    assert cache.new() == 0
    assert cache.new(0, 1)
    assert [cache.fetch(session, 2)[1] for session in sessions] == [70, 0, 0]


def test_followers_take_the_places_of_consumers(cache):
    consumers = [cache.new(0), cache.new(0, 1), cache.new(0, 1, 2)]
    assert cache.new(0, is_followers=True)
    assert [cache.fetch(session, 1)[1] for session in consumers] == [70, 0, 0]
    assert cache.new(*range(5)) == 0

"""What an incremental answer says of a partition, and what it leaves out."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from milepost.broker.apis.fetch import Result, Wanted
from milepost.broker.fetch_sessions import FetchSessions, Session
from milepost.clock import ManualClock
from milepost.log.reading import Isolation
from milepost.protocol.messages import FetchRequest

PART = FetchRequest.Topic.Partition(partition=0, fetch_offset=5)


@pytest.fixture
def session() -> Session:
    """One that has told of its only partition."""
    log: Any = SimpleNamespace(high_watermark=5, last_stable_offset=5, start_offset=0)

    def want(topic: FetchRequest.Topic, part: FetchRequest.Topic.Partition, version: int) -> Wanted:
        return Wanted("t", bytes(16), part, is_by_id=False, partition=SimpleNamespace(log=log))  # type: ignore[arg-type]

    request = FetchRequest(session_epoch=0, topics=[FetchRequest.Topic(topic="t", partitions=[PART])])
    opened = FetchSessions(10, ManualClock(0), random.Random(1)).open(request, 12, want)
    assert isinstance(opened, Session)
    assert told(opened, None)
    return opened


def told(session: Session, result: Result | None) -> bool:
    return bool(session.answer(session.wanted(), [result], Isolation.UNCOMMITTED).responses)


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
    session.wanted()[0].partition.log.high_watermark = 6
    assert told(session, None)
    assert not told(session, None)

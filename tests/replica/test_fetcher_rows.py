"""A partition that moves alone is asked for in a row of requests made from each other."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import open_log
from milepost.protocol.messages import (
    FetchResponse,
)
from milepost.replica.fetch_session import FetchSession
from milepost.replica.following import Following
from milepost.topic_partition import TopicPartition
from tests.replica.fetching import NAME, TOPIC_ID, write


def test_second_request_names_only_what_changed(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.advance(2)
    first, second, third, *_ = pair.leader.asked
    assert (first.session_id, first.session_epoch, len(first.topics)) == (0, 0, 1)
    assert (second.session_id, second.session_epoch, len(second.topics)) == (7, 1, 1)
    assert (third.session_id, third.session_epoch, third.topics) == (7, 2, [])
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (2, 33)


@pytest.fixture
def looks(monkeypatch):
    """How often all partitions were looked at."""
    found: list[int] = []
    request = FetchSession.request

    def counted(self: FetchSession, wanted: Any, max_bytes: int) -> Any:
        found.append(len(wanted))
        return request(self, wanted, max_bytes)

    monkeypatch.setattr(FetchSession, "request", counted)
    return found


def test_partition_that_moves_alone_is_asked_for_in_a_row(pair, looks):
    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.leader_log.update_high_watermark(25)
    pair.follow(0, max_bytes=1)
    pair.advance(0.1)
    assert pair.equal()
    assert pair.log.high_watermark == 25
    # Each batch with a fetch of its own, and the last one waits. Nothing is known of the first two, and one begins the row.
    assert [request.topics[0].partitions[0].fetch_offset for request in pair.leader.asked] == list(range(27))
    assert [request.session_epoch for request in pair.leader.asked] == list(range(27))
    assert (pair.leader.repeated, len(looks)) == (25, 3)


def test_row_looks_up_after_a_while(pair, looks):
    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.follow(0, max_bytes=1)
    pair.fetcher._on_progress = lambda name, size: pair.clock.advance(30)
    pair.advance(0.1)
    assert pair.equal()
    assert 6 <= len(looks) <= 10


@pytest.mark.parametrize("news", ["comes", "goes", "waits"])
def test_row_ends_when_another_partition(pair, tmp_path, looks, news):
    """…comes, goes, or has to wait: the next request says so."""
    other, is_told = TopicPartition("t", 1), []
    log = open_log(str(tmp_path / "other/t-1"), "a")

    def progress(name: TopicPartition, size: int) -> None:
        if pair.log.end_offset == 10:
            pair.leader.fetch = lambda request: is_told.append(request) or FetchResponse(session_id=7)
            if news == "comes":
                pair.fetcher.add(other, Following(log, TOPIC_ID, 0))
            elif news == "goes":
                pair.fetcher.remove(NAME)
            else:
                pair.fetcher._delay(NAME)

    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.follow(0, max_bytes=1)
    pair.fetcher._on_progress = progress
    pair.advance(0.1)
    assert pair.log.end_offset == 10
    if news == "comes":
        assert [part.partition for part in is_told[0].topics[0].partitions] == [0, 1]
    else:
        assert not is_told
    pair.fetcher.close()
    log.close()


def test_row_that_the_leader_refuses_begins_anew(pair, looks):
    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.follow(0, max_bytes=1)
    pair.fetcher._on_progress = lambda name, size: pair.log.end_offset == 10 and pair.leader.refusals.append(70)
    pair.advance(0.7)
    assert pair.equal()
    assert [request.session_epoch for request in pair.leader.asked] == [*range(11), *range(17)]

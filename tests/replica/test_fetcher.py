"""A follower and its leader over real logs: bytes come as they are, histories that part are cut, refusals hold up one partition alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from milepost import open_log
from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.errors import BrokerUnavailable, OffsetOutOfRange
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.protocol import frames, headers
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.messages import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.replica.fetch_session import FetchSession
from milepost.replica.fetcher import Fetcher, FetcherSettings
from milepost.replica.following import Following
from milepost.replica.metadata import BrokerInfo
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.topic_partition import TopicPartition
from tests.simulation.turns import Turns

NAME = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
Part = FetchResponse.Response.Partition


class Leader:
    """A broker that serves Fetch, ListOffsets and OffsetForLeaderEpoch from one log, and notes what it is asked."""

    def __init__(self, log: Log, turns: Turns, epoch: int):
        self.log = log
        self.turns = turns
        self.epoch = epoch
        self.asked: list[Any] = []
        self.error = 0
        self.is_gone = False
        self.session_id = 7
        self.repeated = 0
        self.refusals: list[int] = []

    def send(
        self, broker: BrokerInfo, request: Any, version: int, on_answer: Callable[..., Any], on_failure: Any, **options: Any
    ) -> None:
        repeated = request if isinstance(request, RepeatedFetch) else None
        if repeated is not None:
            frame = repeated.encode(0, "test")[4:]
            request, _ = frames.decode_request(headers.read_request_header(frame), frame)
            self.repeated += 1
        self.asked.append(request)
        if self.is_gone:
            self.turns.post(lambda: on_failure(BrokerUnavailable("gone")))
            return
        kind = type(request).__name__
        response = {"FetchRequest": self.fetch, "ListOffsetsRequest": self.list_offsets}.get(kind, self.epochs)(request)
        has_records = kind == "FetchRequest" and response.responses and response.responses[0].partitions[0].records
        if repeated is not None:
            response = repeated.decode(memoryview(bytearray(frames.encode_response(1, version, 0, response)[4:])))
        if kind == "FetchRequest" and not has_records:
            self.turns.later(0.5, lambda: on_answer(response))
        else:
            self.turns.post(lambda: on_answer(response))

    def fetch(self, request: Any) -> FetchResponse:
        if self.refusals:
            return FetchResponse(error_code=self.refusals.pop())
        if request.topics:
            (self.position,) = request.topics[0].partitions
        if request.forgotten_topics_data:
            return FetchResponse(session_id=self.session_id)
        part = Part(
            partition_index=0,
            error_code=self.error,
            high_watermark=self.log.high_watermark,
            log_start_offset=self.log.start_offset,
            aborted_transactions=None,
        )
        if not self.error:
            self.answer(part)
        return FetchResponse(session_id=self.session_id, responses=[FetchResponse.Response(topic_id=TOPIC_ID, partitions=[part])])

    def answer(self, part: Any) -> None:
        asked = self.position
        if asked.current_leader_epoch != self.epoch:
            part.error_code = 74 if asked.current_leader_epoch < self.epoch else 75
            return
        if asked.last_fetched_epoch >= 0:
            epoch, end = self.log.epochs.end_offset_for(asked.last_fetched_epoch, self.log.end_offset)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                part.diverging_epoch = Part.DivergingEpoch(epoch=epoch, end_offset=end)
                return
        try:
            part.records = self.log.read(asked.fetch_offset, asked.partition_max_bytes, Isolation.LOG_END).data
        except OffsetOutOfRange:
            part.error_code = 1

    def list_offsets(self, request: Any) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        offset = self.log.start_offset if asked.timestamp == -2 else self.log.end_offset
        topic = ListOffsetsResponse.Topic
        return ListOffsetsResponse(topics=[topic(name="t", partitions=[topic.Partition(partition_index=0, offset=offset)])])

    def epochs(self, request: Any) -> OffsetForLeaderEpochResponse:
        (asked,) = request.topics[0].partitions
        epoch, end = self.log.epochs.end_offset_for(asked.leader_epoch, self.log.end_offset)
        topic = OffsetForLeaderEpochResponse.Topic
        return OffsetForLeaderEpochResponse(
            topics=[topic(topic="t", partitions=[topic.Partition(partition=0, leader_epoch=epoch, end_offset=end)])]
        )


class Pair:
    def __init__(self, tmp_path: Path):
        for name in ("leader", "follower"):
            (tmp_path / name).mkdir()
        self.turns, self.clock = Turns(), ManualClock(1_700_000_000_000)
        config = {"segment.bytes": 2000, "index.interval.bytes": 200}
        self.leader_log = open_log(str(tmp_path / "leader/t-0"), "a", config, clock=self.clock)
        self.log = open_log(str(tmp_path / "follower/t-0"), "a", config, clock=self.clock)
        self.quota = ReplicationQuotas(2, BrokerConfig(), self.clock.now_ms).follower
        self.progress: list[int] = []
        self.failed: list[Any] = []

    def follow(self, epoch: int, **settings: Any) -> None:
        self.leader = Leader(self.leader_log, self.turns, epoch)
        self.fetcher = Fetcher(
            BrokerInfo(1, 10, ()),
            0,
            FetcherSettings(2, **settings),
            self.leader,  # type: ignore[arg-type]
            self.turns,
            self.clock,
            lambda: 33,
            lambda name, size: self.progress.append(size),
            lambda name, error: self.failed.append(error),
            self.quota,
        )
        self.following = Following(self.log, TOPIC_ID, epoch)
        self.fetcher.add(NAME, self.following)

    def advance(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.turns.advance(0.1)
            self.clock.advance(100)

    def equal(self) -> bool:
        stored = [
            b"".join(path.read_bytes() for path in sorted(Path(log.directory).glob("*.log")))
            for log in (self.leader_log, self.log)
        ]
        return stored[0] == stored[1]

    def close(self) -> None:
        self.leader_log.close()
        self.log.close()


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    yield made
    made.close()


def write(log: Log, epoch: int, *values: str) -> None:
    for value in values:
        log.append_as_leader(build_batch([Record(0, 1_700_000_000_000, None, value.encode() * 20)]), leader_epoch=epoch)


def values(log: Log) -> list[str]:
    """Of every record on disk, committed or not."""
    stored = b"".join(path.read_bytes() for path in sorted(Path(log.directory).glob("*.log")))
    return [record.value[:1].decode() for batch in iter_batches(stored) for record in batch.records() if record.value]


def test_follower_gets_the_leaders_bytes(pair):
    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.follow(0)
    pair.advance(1)
    assert pair.equal()
    assert pair.log.end_offset == 26
    write(pair.leader_log, 0, *"ABC")
    pair.advance(1)
    assert pair.equal()


def test_high_watermark_follows_one_round_later(pair):
    write(pair.leader_log, 0, *"abc")
    pair.leader_log.update_high_watermark(2)
    pair.follow(0)
    pair.advance(1)
    assert pair.log.high_watermark == 2
    pair.leader_log.update_high_watermark(3)
    pair.advance(1)
    assert pair.log.high_watermark == 3


def test_epoch_of_our_own_in_which_we_wrote_nothing_is_forgotten(pair):
    write(pair.leader_log, 1, "a")
    pair.log.append_as_follower(pair.leader_log.read(0, 1000, Isolation.LOG_END).data)
    pair.log.epochs.assign(3, 1)
    write(pair.leader_log, 5, "b")
    pair.follow(5)
    pair.advance(1)
    assert pair.equal()
    assert [(entry.epoch, entry.start_offset) for entry in pair.log.epochs.entries] == [(1, 0), (5, 1)]


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


def test_leader_that_keeps_no_sessions_gets_full_requests(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.advance(1)
    pair.leader.session_id = 0
    pair.advance(1)
    pair.leader.asked.clear()
    pair.advance(2)
    assert pair.leader.asked
    assert all(request.session_id == 0 and len(request.topics) == 1 for request in pair.leader.asked)


def test_forgotten_session_starts_anew(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.advance(1)
    pair.leader.refusals.append(70)
    write(pair.leader_log, 0, "b")
    pair.advance(2)
    assert pair.equal()
    assert [request.session_epoch for request in pair.leader.asked].count(0) == 2


@pytest.mark.parametrize("code", [70, 71, 100, 103, 106])
def test_full_request_that_the_leader_refuses_is_made_once_a_second(pair, code):
    """No session is what it lacks: the same request at once would get the same answer."""
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.leader.refusals = [code] * 40
    pair.advance(5)
    assert 3 <= len(pair.leader.asked) <= 6
    pair.leader.refusals.clear()
    pair.advance(2)
    assert pair.equal()


def test_error_that_keeps_a_partition_from_being_fetched_is_said_once_until_it_is_over(pair, caplog):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    told = "t-0: broker 1 answers a fetch from offset 1 with UNKNOWN_SERVER_ERROR (-1); trying again every 1000 ms"
    for _ in range(2):
        pair.leader.error = -1
        pair.advance(3)
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [told]
        caplog.clear()
        pair.leader.error = 0
        pair.advance(2)
        assert pair.equal()


def test_leader_that_has_just_changed_is_not_worth_a_word(pair, caplog):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    for error in (6, 75):
        pair.leader.error = error
        pair.advance(2)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_tail_that_the_new_leader_does_not_have_is_cut(pair):
    write(pair.leader_log, 0, *"abc")
    write(pair.log, 0, *"abcXYZ")
    write(pair.leader_log, 1, *"de")
    pair.follow(1)
    pair.advance(1)
    assert values(pair.log) == list("abcde")
    assert [(entry.epoch, entry.start_offset) for entry in pair.log.epochs.entries] == [(0, 0), (1, 3)]
    assert pair.equal()


def test_histories_that_part_several_epochs_back_are_found(pair):
    write(pair.leader_log, 0, *"ab")
    write(pair.log, 0, *"ab")
    for epoch, text in ((1, "P"), (2, "Q"), (3, "RS")):
        write(pair.log, epoch, *text)
    for epoch, text in ((4, "c"), (5, "defg")):
        write(pair.leader_log, epoch, *text)
    pair.follow(5)
    pair.advance(2)
    assert values(pair.log) == list("abcdefg")
    assert pair.equal()


@pytest.mark.parametrize("history", ["same", "parted"])
def test_older_protocol_asks_for_epochs_before_it_fetches(pair, history):
    write(pair.leader_log, 0, *"ab")
    write(pair.log, 0, *("ab" if history == "same" else "abXY"))
    write(pair.leader_log, 2, *"cd")
    pair.follow(2, truncates_on_fetch=False, fetch_version=11, epoch_version=3)
    pair.advance(1)
    assert [type(request).__name__ for request in pair.leader.asked[:2]] == ["OffsetForLeaderEpochRequest", "FetchRequest"]
    assert pair.leader.asked[1].replica_id == 2
    assert values(pair.log) == list("abcd")


def test_leader_that_deleted_more_than_we_have(pair):
    write(pair.leader_log, 0, *"abcdefgh")
    pair.leader_log.update_high_watermark(8)
    pair.leader_log.delete_records(6)
    pair.follow(0)
    pair.advance(2)
    assert (pair.log.start_offset, pair.log.end_offset) == (6, 8)
    assert values(pair.log) == ["g", "h"]


def test_start_of_the_leaders_log_is_taken_over(pair):
    write(pair.leader_log, 0, *"abcdefgh")
    pair.leader_log.update_high_watermark(8)
    pair.follow(0)
    pair.advance(1)
    pair.leader_log.delete_records(5)
    pair.advance(1)
    assert pair.log.start_offset == 5


def test_epoch_that_is_over_stops_until_the_controller_speaks(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.advance(1)
    pair.leader.epoch = 1
    pair.advance(1)
    assert NAME not in pair.fetcher.partitions
    pair.leader.asked.clear()
    pair.advance(3)
    assert not pair.leader.asked


def test_leader_that_does_not_know_of_its_epoch_yet_is_asked_again_later(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(5)
    pair.leader.epoch = 4
    pair.advance(1)
    pair.leader.epoch = 5
    pair.advance(2)
    assert values(pair.log) == ["a"]


def test_leader_that_is_gone_is_tried_once_a_second(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.advance(1)
    pair.leader.is_gone = True
    pair.leader.asked.clear()
    pair.advance(5)
    assert 3 <= len(pair.leader.asked) <= 6
    pair.leader.is_gone = False
    write(pair.leader_log, 0, "b")
    pair.advance(2)
    assert pair.equal()


def test_answer_for_a_partition_that_is_no_longer_followed_is_dropped(pair):
    write(pair.leader_log, 0, "a")
    pair.follow(0)
    pair.fetcher.remove(NAME)
    pair.advance(1)
    assert pair.log.end_offset == 0


# Throttled.


def test_throttled_partition_waits_for_its_rate(pair):
    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.leader_log.update_high_watermark(26)
    pair.quota.throttle("t", ["0:2"])
    pair.quota.limit = 400
    pair.follow(0, max_bytes=900, wait_ms=500)
    size = sum(path.stat().st_size for path in Path(pair.leader_log.directory).glob("*.log"))
    assert 2100 < size < 2400, "in three fetches, two of which have to be paid for before the next"
    pair.advance(1.9)
    assert sum(pair.progress) <= 900
    assert len(pair.leader.asked) == 1, "nothing is asked for in vain"
    pair.advance(2)
    assert 900 < sum(pair.progress) <= 1800
    pair.advance(2.5)
    assert pair.equal()


def test_throttled_partition_that_is_in_sync_is_fetched_whatever_the_rate(pair):
    write(pair.leader_log, 0, *"abc")
    pair.leader_log.update_high_watermark(3)
    pair.quota.throttle("t", ["*"])
    pair.quota.limit = 1
    pair.follow(0)
    pair.advance(1)
    assert pair.following.lag == 0 and pair.quota.is_exceeded
    write(pair.leader_log, 0, *"def")
    pair.advance(1)
    assert pair.equal()


def test_partitions_of_other_brokers_throttles_are_not_held_up(pair):
    write(pair.leader_log, 0, *"abcdefghijklmnopqrstuvwxyz")
    pair.leader_log.update_high_watermark(26)
    pair.quota.throttle("t", ["0:3"])
    pair.quota.limit = 1
    pair.follow(0, max_bytes=300)
    pair.advance(1)
    assert pair.equal()

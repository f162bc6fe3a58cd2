"""A follower and its leader over real logs: bytes come as they are, histories that part are cut, refusals hold up one partition alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.log.reading import Isolation
from tests.replica.fetching import NAME, values, write


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

"""What a follower appends: batches as another replica wrote them, with their offsets, epochs and bytes."""

from __future__ import annotations

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord, OffsetsOutOfOrder, RecordBatchTooLarge, UnexpectedAppendOffset
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.builder import build_batch
from milepost.record.control import ControlType
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from tests.log.making import NOW, idempotent, log_in, marker, offsets, placed, produced, transactional
from tests.segment.making import batch, offset_entries, time_entries

EVERY_FORMAT = [(magic, codec) for magic in (0, 1, 2) for codec in (Codec.NONE, Codec.LZ4)]


def in_format(first_offset, count, magic, codec):
    records = [Record(first_offset + place, NOW, b"k", b"v") for place in range(count)]
    if magic == 2:
        return batch(first_offset, count, codec=codec)
    return build_legacy(records, magic=magic, codec=codec)


@pytest.mark.parametrize(("magic", "codec"), EVERY_FORMAT)
def test_bytes_are_kept_as_they_came(tmp_path, magic, codec):
    log = log_in(tmp_path)
    data = in_format(0, 3, magic, codec)
    answer = log.append_as_follower(data)
    assert (answer.last_offset, log.end_offset) == (2, 3)
    assert (tmp_path / "topic-0" / "00000000000000000000.log").read_bytes() == data
    assert offsets(log) == [0, 1, 2]


def test_gap_above_the_log_end_is_accepted(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(5, 2))
    log.append_as_follower(batch(100))
    assert (log.end_offset, offsets(log)) == (101, [5, 6, 100])


def test_batches_whose_offsets_do_not_rise_are_refused_as_a_whole(tmp_path):
    log = log_in(tmp_path)
    with pytest.raises(OffsetsOutOfOrder, match="the offsets of the 5 batches do not rise"):
        log.append_as_follower(b"".join(batch(offset) for offset in (0, 1, 3, 2, 4)))
    assert (log.end_offset, log.segments.active.size) == (0, 0)


@pytest.mark.parametrize(("magic", "codec"), EVERY_FORMAT)
def test_offsets_below_the_log_end_are_refused(tmp_path, magic, codec):
    log = log_in(tmp_path)
    log.append_as_follower(in_format(0, 7, magic, codec))
    with pytest.raises(UnexpectedAppendOffset) as refused:
        log.append_as_follower(in_format(4, 3, magic, codec))
    assert (refused.value.first_offset, refused.value.last_offset) == (4, 6)
    assert log.end_offset == 7


def test_damaged_batch_refuses_the_whole_set(tmp_path):
    broken = bytearray(batch(1))
    broken[-1] ^= 1
    log = log_in(tmp_path)
    with pytest.raises(CorruptRecord):
        log.append_as_follower(batch(0) + bytes(broken))
    assert log.end_offset == 0


def test_batch_that_is_cut_off_at_the_end_of_a_fetch_is_left_out(tmp_path):
    log = log_in(tmp_path)
    answer = log.append_as_follower(batch(0, size=100) + batch(1, size=100)[:70])
    assert (answer.last_offset, answer.valid_bytes, log.end_offset) == (0, 100, 1)
    assert log.segments.active.size == 100


def test_size_limit_of_messages_is_the_leaders_business(tmp_path):
    log = log_in(tmp_path, max_message_bytes=100)
    assert log.append_as_follower(batch(0, size=101)).last_offset == 0


def test_set_above_the_segment_size_is_refused(tmp_path):
    log = log_in(tmp_path, segment_bytes=150)
    with pytest.raises(RecordBatchTooLarge, match="the append has 200 bytes"):
        log.append_as_follower(batch(0, size=100) + batch(1, size=100))


def test_answer_tells_offsets_newest_timestamp_and_epoch_of_the_set(tmp_path):
    log = log_in(tmp_path)
    data = (
        batch(2, 2, timestamp=5, leader_epoch=1)
        + batch(4, 2, timestamp=9, leader_epoch=1)
        + batch(6, timestamp=7, leader_epoch=3)
    )
    answer = log.append_as_follower(data)
    assert (answer.first_offset, answer.last_offset) == (2, 6)
    assert (answer.max_timestamp, answer.offset_of_max_timestamp, answer.leader_epoch) == (9, 5, 3)


def test_leader_epochs_are_learnt_from_the_batches(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(batch(0, 2, leader_epoch=42))
    assert log.epochs.latest_epoch == 42
    log.append_as_follower(batch(2, leader_epoch=42) + batch(3, leader_epoch=43) + batch(4, leader_epoch=45))
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(42, 0), (43, 3), (45, 4)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_format_clears_the_leader_epochs(tmp_path, magic):
    log = log_in(tmp_path)
    log.append_as_follower(batch(0, leader_epoch=5))
    log.append_as_follower(in_format(1, 2, magic, Codec.NONE))
    assert log.epochs.is_empty


def test_hundred_single_records_with_interval_one_leave_99_time_entries(tmp_path):
    log = log_in(tmp_path, index_interval_bytes=1)
    for offset in range(100):
        log.append_as_follower(batch(offset, timestamp=NOW + offset))
    active = log.segments.active
    assert active.time_index.entries == 99
    assert active.time_index.last_entry.timestamp == NOW + 99


@pytest.mark.parametrize(
    ("profile", "positions", "times"),
    [
        ("per-batch", [(3, 100), (5, 200), (7, 300)], [(20, 3), (30, 5), (40, 7)]),
        ("per-append", [(7, 100)], [(40, 6)]),
    ],
)
def test_fetch_of_many_batches_is_indexed_by_the_profile(tmp_path, profile, positions, times):
    log = log_in(tmp_path, index_interval_bytes=50, index_profile=profile)
    first, *rest = [batch(2 * place, 2, size=100, timestamp=10 * place + 10) for place in range(4)]
    log.append_as_follower(first)
    log.append_as_follower(b"".join(rest))
    assert offset_entries(log.segments.active) == positions
    assert time_entries(log.segments.active) == times


def test_newest_timestamp_keeps_its_own_offset_in_the_old_profile(tmp_path):
    log = log_in(tmp_path, index_interval_bytes=0, index_profile="per-append")
    log.append_as_follower(batch(0, timestamp=NOW))
    records = [Record(1, NOW, b"k", b""), Record(2, NOW + 9, b"k", b""), Record(3, NOW + 5, b"k", b"")]
    log.append_as_follower(build_batch(records))
    assert time_entries(log.segments.active) == [(NOW + 9, 2)]


# Producers: the leader has decided already.


def test_same_sequence_again_is_kept_as_the_leader_kept_it(tmp_path):
    log = log_in(tmp_path)
    for offset in range(4):
        log.append_as_follower(placed(idempotent(0), offset))
    assert log.end_offset == 4


def test_set_of_two_producers_with_a_repeated_batch_is_kept(tmp_path):
    log = log_in(tmp_path)
    data = [idempotent(0), idempotent(1), idempotent(0, producer_id=2), idempotent(1), idempotent(1, producer_id=2)]
    log.append_as_follower(b"".join(placed(one, offset) for offset, one in enumerate(data)))
    assert log.end_offset == 5
    assert {producer: entry.last_sequence for producer, entry in log.producers.producers.items()} == {1: 1, 2: 1}


def test_follower_knows_the_last_five_batches_when_it_becomes_leader(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(b"".join(placed(idempotent(number), number) for number in range(7)))
    for number in range(2, 7):
        assert log.append_as_leader(idempotent(number), leader_epoch=1).first_offset == number
    assert log.append_as_leader(idempotent(7), leader_epoch=1).first_offset == 7


def test_replicated_markers_are_followed_even_with_an_older_coordinator_epoch(tmp_path):
    log = log_in(tmp_path)
    log.append_as_follower(placed(transactional(0), 0))
    log.append_as_follower(marker(ControlType.COMMIT, coordinator_epoch=5, offset=1))
    log.append_as_follower(placed(transactional(1), 2))
    log.append_as_follower(marker(ControlType.ABORT, coordinator_epoch=3, offset=3))
    assert log.first_unstable_offset is not None
    log.update_high_watermark(4)
    assert log.first_unstable_offset is None
    [aborted] = log.segments.active.txn_index.transactions()
    assert (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (2, 3, 4)


def test_transaction_and_its_marker_in_one_set_are_both_seen(tmp_path):
    log = log_in(tmp_path)
    set_of_batches = placed(transactional(0, 3), 0) + marker(ControlType.ABORT, offset=3) + placed(transactional(3), 4)
    log.append_as_follower(set_of_batches)
    log.update_high_watermark(5)
    assert log.first_unstable_offset == 4
    [aborted] = log.segments.active.txn_index.transactions()
    assert (aborted.first_offset, aborted.last_offset) == (0, 3)


def test_leader_of_a_quorum_brings_its_own_offsets(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(batch(0, 2, leader_epoch=3), leader_epoch=3, origin=AppendOrigin.RAFT_LEADER)
    assert log.append_as_leader(batch(7, leader_epoch=3), leader_epoch=3, origin=AppendOrigin.RAFT_LEADER).first_offset == 7


def test_empty_set_appends_nothing(tmp_path):
    log = log_in(tmp_path)
    assert log.append_as_follower(b"").first_offset == -1
    assert log.append_as_follower(produced()[:40]).first_offset == -1

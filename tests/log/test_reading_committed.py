"""Transactions as readers see them: what is stable, and what a reader of committed data gets."""

from __future__ import annotations

from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.control import ControlType
from tests.log.making import log_in, marker, offsets, produced, transactional


def end(log, producer_id, kind=ControlType.COMMIT, **fields):
    return log.append_as_leader(marker(kind, producer_id=producer_id, **fields), origin=AppendOrigin.COORDINATOR)


def test_last_stable_offset_moves_when_the_high_watermark_passes_the_marker(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 2, producer_id=1))
    log.append_as_leader(transactional(0, 2, producer_id=2))
    log.append_as_leader(produced(4))
    end(log, 1)
    log.update_high_watermark(8)
    assert (log.first_unstable_offset, log.last_stable_offset) == (0, 0)
    assert log.read(0, isolation="committed").size == 0
    log.update_high_watermark(9)
    assert log.last_stable_offset == 2
    end(log, 2)
    assert log.last_stable_offset == 2
    log.update_high_watermark(9)
    assert log.last_stable_offset == 2
    log.update_high_watermark(10)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 10)
    assert offsets(log, "committed") == [0, 1, 2, 3, 4, 5, 6, 7]


def test_first_unstable_offset_is_that_of_the_first_open_transaction(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(3))
    assert log.first_unstable_offset is None
    log.append_as_leader(transactional(0, 2))
    assert log.first_unstable_offset == 3
    log.append_as_leader(transactional(2, 2))
    log.append_as_leader(produced(3))
    assert log.first_unstable_offset == 3
    end(log, 1)
    log.update_high_watermark(10)
    assert log.first_unstable_offset == 3
    log.update_high_watermark(11)
    assert log.first_unstable_offset is None


def test_open_transaction_below_the_log_start_is_unstable_from_the_start_on(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 5, producer_id=1))
    log.append_as_leader(produced(3))
    log.roll()
    log.append_as_leader(transactional(5, 5, producer_id=1))
    log.update_high_watermark(13)
    assert log.first_unstable_offset == 0
    log.increment_start(5)
    assert log.first_unstable_offset == 5
    log.increment_start(8)
    log.delete_segments([log.segments.first])
    assert log.first_unstable_offset == 8


def four_producers(tmp_path, **config):
    """Kafka's own mix: 90 records, of which producers 1 and 2 abort and 3 and 4 commit."""
    log = log_in(tmp_path, **config)
    sequences = {1: 0, 2: 0, 3: 0, 4: 0}

    def send(producer_id, count):
        log.append_as_leader(transactional(sequences[producer_id], count, producer_id=producer_id))
        sequences[producer_id] += count

    send(1, 5)  # 0-4
    log.append_as_leader(produced(3))  # 5-7
    send(2, 2)  # 8-9
    send(1, 4)  # 10-13
    send(3, 3)  # 14-16
    log.append_as_leader(produced(9))  # 17-25
    send(3, 3)  # 26-28
    end(log, 1, ControlType.ABORT)  # 29
    log.append_as_leader(produced(6))  # 30-35
    send(4, 15)  # 36-50
    end(log, 3)  # 51
    send(4, 8)  # 52-59
    send(2, 9)  # 60-68
    log.append_as_leader(produced(5))  # 69-73
    end(log, 2, ControlType.ABORT)  # 74
    log.append_as_leader(produced(4))  # 75-78
    send(4, 10)  # 79-88
    end(log, 4)  # 89
    return log


def test_aborted_transactions_are_indexed_with_the_offset_that_was_stable_then(tmp_path):
    log = four_producers(tmp_path)
    indexed = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in log.segments.active.txn_index.transactions()
    ]
    assert indexed == [(1, 0, 29, 8), (2, 8, 74, 36)]


def test_unstable_offset_follows_the_high_watermark_over_many_transactions(tmp_path):
    log = four_producers(tmp_path)
    for high_watermark, unstable in [(0, 0), (29, 0), (30, 8), (74, 8), (75, 36), (89, 36), (90, None)]:
        log.update_high_watermark(high_watermark)
        assert log.first_unstable_offset == unstable


def test_reader_of_committed_data_gets_neither_aborted_nor_undecided_records(tmp_path):
    log = four_producers(tmp_path)
    log.update_high_watermark(75)
    committed = [5, 6, 7, *range(14, 29), *range(30, 36)]
    assert offsets(log, "committed") == committed
    log.update_high_watermark(90)
    committed += [*range(36, 51), *range(52, 60), *range(69, 74), *range(75, 89)]
    assert offsets(log, "committed") == committed


def test_reader_of_everything_gets_aborted_records_but_never_markers(tmp_path):
    log = four_producers(tmp_path)
    log.update_high_watermark(90)
    assert offsets(log, "uncommitted") == [offset for offset in range(90) if offset not in (29, 51, 74, 89)]


def test_answer_is_the_same_over_many_segments_and_after_a_restart(tmp_path):
    whole = four_producers(tmp_path / "whole")
    whole.update_high_watermark(90)
    log = four_producers(tmp_path / "cut", segment_bytes=500, index_interval_bytes=100)
    assert len(log.segments) > 3
    log.update_high_watermark(90)
    assert offsets(log, "committed") == offsets(whole, "committed")
    log.close()
    assert offsets(log_in(tmp_path / "cut", mode="r"), "committed") == offsets(whole, "committed")


def test_list_of_aborted_transactions_comes_with_a_committed_read_only(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0, 3))
    log.roll()
    log.append_as_leader(transactional(3, 3))
    end(log, 1, ControlType.ABORT)
    log.update_high_watermark(7)
    [aborted] = log.read(0, isolation="committed").aborted
    assert (aborted.producer_id, aborted.first_offset) == (1, 0)
    assert log.read(0).aborted is None
    assert log.read(7, isolation="committed").aborted == []


def test_single_aborted_record_is_dropped_at_every_edge(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(transactional(0))
    end(log, 1, ControlType.ABORT)
    log.append_as_leader(produced())
    log.update_high_watermark(3)
    assert offsets(log, "committed") == [2]
    assert [record.offset for record in log.records(0, 2, "committed")] == []
    assert [record.offset for record in log.records(1, 3, "committed")] == [2]

"""The window of five batches per producer, found again in the log: whole when it can be, never with batches of a former life."""

from __future__ import annotations

from milepost.clock import ManualClock
from milepost.log.log import Log
from tests.log.cleaning.cleaned_logs import DAY, NOW, compacted_log, put


def write(log: Log, sequence: int) -> int:
    return put(log, ("k", sequence), ("l", sequence), producer_id=1, producer_epoch=0, base_sequence=sequence)


def window(log: Log) -> list[tuple[int, int]]:
    """First and last sequence of each batch kept."""
    return [(batch.first_sequence, batch.last_sequence) for batch in log.producers.producers[1].batches]


def test_last_five_batches_are_known_again_after_a_restart(tmp_path):
    log = compacted_log(tmp_path)
    for sequence in range(0, 14, 2):
        write(log, sequence)
    log.close()
    with compacted_log(tmp_path) as again:
        assert window(again) == [(4, 5), (6, 7), (8, 9), (10, 11), (12, 13)]


def test_batches_from_before_the_producer_was_forgotten_stay_out(tmp_path):
    clock = ManualClock(NOW)
    log = compacted_log(tmp_path, clock=clock)
    write(log, 0)
    write(log, 2)
    clock.advance(DAY)
    log.producers.remove_expired(clock.now_ms())
    write(log, 0)
    log.close()
    clock.advance(-DAY)
    with compacted_log(tmp_path, clock=clock) as again:
        assert window(again) == [(0, 1)]
        # With the batch at offset 2 in the window this one would be taken for it.
        assert write(again, 2) == 6

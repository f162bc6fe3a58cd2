"""Where a cleaning stops or waits: buffers, maps, lags, retention meanwhile, damage."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

import pytest

from milepost.errors import CorruptRecord
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner import Cleaner, CleaningAborted
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.log.log import Log
from milepost.segment.file_records import Hole
from tests.log.cleaning.cleaned_logs import (
    ABORT,
    NOW,
    clean,
    compacted_log,
    contents,
    leftovers,
    newest_values,
    put,
    put_marker,
    transactional,
)

# Limits.


@pytest.mark.parametrize("io_buffer_bytes", [1, 100, 1000, 262_144])
def test_buffer_smaller_than_a_batch_grows(log, io_buffer_bytes):
    for number in range(20):
        put(log, (number % 5, "x" * (number * 30)))
    put(log, *((f"key{number}", "y" * 10) for number in range(200)))
    log.roll()
    clean(log, io_buffer_bytes=io_buffer_bytes)
    assert sorted(contents(log)) == list(range(15, 220))


def test_batches_that_go_without_being_read_still_make_progress(log):
    for number in range(10):
        transactional(log, 1, ("a", "x" * 80), sequence=number)
    put_marker(log, ABORT, 1)
    put(log, ("b", 1))
    log.roll()
    clean(log, io_buffer_bytes=100)
    assert contents(log) == {11: ("b", "1")}


def test_full_map_ends_the_round_and_the_next_takes_up_there(log):
    for number in range(20):
        put(log, (f"key{number % 10}", number))
    log.roll()
    checkpoint, rounds = None, 0
    while checkpoint != 20:
        stats = clean(log, checkpoint, map_bytes=24 * 5)  # four keys
        assert stats.end_offset > (checkpoint or 0)
        checkpoint, rounds = stats.end_offset, rounds + 1
    assert rounds == 5
    assert sorted(contents(log)) == list(range(10, 20))


def test_map_that_fills_inside_a_batch_leaves_the_rest_of_it_alone(log):
    put(log, *((f"key{number}", 1) for number in range(6)), ("key0", 2))
    put(log, ("key1", 2))
    log.roll()
    stats = clean(log, map_bytes=24 * 5)
    assert stats.end_offset == 4
    assert sorted(contents(log)) == list(range(8))
    clean(log, stats.end_offset, map_bytes=1 << 16)
    assert sorted(contents(log)) == [2, 3, 4, 5, 6, 7]


def test_young_segments_wait_for_the_compaction_lag(tmp_path, clock):
    with compacted_log(tmp_path, {"min.compaction.lag.ms": 1000}, clock=clock) as log:
        for number in range(4):
            put(log, ("k", number), timestamp=NOW - 5000 + number * 1500)
            log.roll()
        young = log.segments.floor(3)
        assert young is not None
        before = young.log.read(0, young.size)
        assert clean(log).end_offset == 3
        assert sorted(contents(log)) == [2, 3]
        kept = log.segments.floor(3)
        assert kept is not None
        assert kept.log.read(0, kept.size) == before


def test_cleaning_is_told_to_stop_and_leaves_nothing_behind(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 200}, clock=clock) as log:
        for number in range(9):
            put(log, ("k", "x" * 100 + str(number)))
        log.roll()
        before = contents(log)
        calls: list[int] = []

        def stop(after: int) -> Callable[[int], None]:
            def advance(read: int) -> None:
                calls.append(read)
                if len(calls) > after:
                    raise CleaningAborted("enough")

            return advance

        for after in range(9):
            calls.clear()
            with pytest.raises(CleaningAborted, match="enough"):
                Cleaner(OffsetMap(4096), advance=stop(after)).clean(measure(log, None))
            assert newest_values(contents(log)) == newest_values(before)
            assert [name for name in leftovers(log) if not name.endswith(".deleted")] == []
        assert contents(log) == before


def test_segments_that_retention_took_meanwhile_do_not_come_back(log):
    put(log, ("k", 1))
    put(log, ("k", 2))
    log.roll()
    put(log, ("k", 3))
    log.roll()

    def retention_first(step: Callable[[], None]) -> None:
        if any(name.endswith(".cleaned") for name in leftovers(log)):
            log.delete_segments([segment for segment in log.segments if segment.base_offset < 3])
        step()

    Cleaner(OffsetMap(4096), on_owner=retention_first).clean(measure(log, None))
    assert log.segments.base_offsets() == [3]
    assert (log.start_offset, contents(log)) == (3, {})
    assert [name for name in leftovers(log) if not name.endswith(".deleted")] == []


def test_segment_that_retention_took_is_renamed_once_and_the_others_are_replaced(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 90}, clock=clock) as log:
        for number in range(3):
            put(log, ("k", number))
        log.roll()

        def retention_first(step: Callable[[], None]) -> None:
            if any(name.endswith(f"{1:020d}.log.cleaned") for name in leftovers(log)) and 0 in log.segments:
                log.delete_segments([log.segments.first])
            step()

        Cleaner(OffsetMap(4096), on_owner=retention_first).clean(measure(log, None))
        assert log.segments.base_offsets() == [1, 2, 3]
        assert log.start_offset == 1


def test_cleaning_on_another_thread_while_the_owner_appends(tmp_path, clock):
    with compacted_log(tmp_path, {"segment.bytes": 2000}, clock=clock) as log:
        for number in range(300):
            put(log, (number % 7, f"v{number}"))
        steps: queue.Queue[tuple[Callable[[], None], queue.Queue[BaseException | None]] | None] = queue.Queue()

        def on_owner(step: Callable[[], None]) -> None:
            answer: queue.Queue[BaseException | None] = queue.Queue()
            steps.put((step, answer))
            error = answer.get()
            if error is not None:
                raise error

        cleaner = Cleaner(OffsetMap(4096), on_owner=on_owner, io_buffer_bytes=500)
        work = measure(log, None)

        def run() -> None:
            try:
                cleaner.clean(work)
            finally:
                steps.put(None)

        thread = threading.Thread(target=run)
        thread.start()
        appended = 300
        while (posted := steps.get()) is not None:
            step, answer = posted
            for _ in range(5):
                put(log, (appended % 7, f"v{appended}"))
                appended += 1
            step()
            answer.put(None)
        thread.join()
        assert newest_values(contents(log)) == {str(number % 7): f"v{number}" for number in range(appended - 7, appended)}
        assert work.first_uncleanable_offset > 250
        assert sorted(contents(log))[0] == work.first_uncleanable_offset - 7
        assert [name for name in leftovers(log) if not name.endswith(".deleted")] == []


# Damage.


def damaged(log: Log) -> None:
    first = log.segments.first
    fd = os.open(first.log.path, os.O_RDWR)
    byte = os.pread(fd, 1, first.size - 3)
    os.pwrite(fd, bytes([byte[0] ^ 1]), first.size - 3)
    os.close(fd)


@pytest.mark.parametrize("checkpoint", [None, 2], ids=["in the dirty part", "in the clean part"])
def test_damaged_batch_stops_the_cleaning_before_anything_is_replaced(log, checkpoint):
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    put(log, ("b", 1))
    log.roll()
    damaged(log)
    before = log.segments.first.log.read(0, log.segments.first.size)
    with pytest.raises(CorruptRecord, match=r"00000\.log.*CRC-32C"):
        clean(log, checkpoint)
    assert log.segments.first.log.read(0, log.segments.first.size) == before
    assert leftovers(log) == []


@pytest.mark.parametrize("left", [1, 16, 17, 60])
def test_segment_cut_inside_a_batch_stops_the_cleaning(log, left):
    put(log, ("a", 1))
    size = log.segments.first.size
    put(log, ("a", 2))
    log.roll()
    log.segments.first.log.truncate_to(size + left)
    with pytest.raises(CorruptRecord, match=f"position {size} needs .* {left} are left"):
        clean(log)
    assert leftovers(log) == []


def test_cleaning_stops_before_a_segment_with_a_hole(log):
    put(log, ("a", 1))
    put(log, ("a", 2))
    log.roll()
    put(log, ("a", 3))
    log.roll()
    second = log.segments.floor(2)
    assert second is not None
    second.log.holes = [Hole(0, 10, 2, 3)]
    work = measure(log, None)
    assert work.first_uncleanable_offset == 2
    second.log.holes = []

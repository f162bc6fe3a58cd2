"""What a recovered log must know beside its records: producers, transactions, leader epochs, each as its batches say."""

from __future__ import annotations

from typing import Any

from milepost.log.log import Log
from tests.crash.history import Expected, Facts
from tests.crash.replay import Replay


class Broken(AssertionError):
    """An invariant does not hold."""


def check_producers(log: Log, visible: list[Facts], expected: Expected) -> None:
    """I-6. What was deleted from the front may be forgotten or remembered; from what is there on, all is as a replay has it."""
    ever = all_batches(log, visible, expected)
    # A batch may be gone from the front of the log by deletion, or into a hole there.
    there = {batch.base_offset for batch in visible if batch.base_offset >= log.start_offset}
    needed = {batch.producer_id for batch in visible if batch.base_offset >= log.start_offset and says_something(batch)}
    forgotten = needed - log.producers.producers.keys()
    if forgotten:
        raise Broken(f"I-6: producers {forgotten} are forgotten")
    for producer_id, entry in log.producers.producers.items():
        own = [batch for batch in ever if batch.producer_id == producer_id and says_something(batch)]
        first = next((at for at, batch in enumerate(own) if batch.base_offset in there), len(own) - 1)
        replays = [Replay.of(own[at:]).producers[producer_id].comparable() for at in range(first + 1)]
        if not replays or not is_as_replayed(comparable(entry), replays, expected.is_rewritten):
            raise Broken(f"I-6: producer {producer_id} is {comparable(entry)}, a replay gives {replays[:1]}")
    windows = Replay.of([batch for batch in visible if batch.base_offset >= log.start_offset]).producers.values()
    newest = [batch for window in windows for batch in window.batches]
    if expected.is_rewritten:
        # The log may hold a batch that was pushed out of the window by batches that are cleaned away.
        known = {one.last_offset for entry in log.producers.producers.values() for one in entry.batches}
        newest = [batch for batch in newest if batch.last_offset in known]
    check_duplicates(log, newest)


def all_batches(log: Log, visible: list[Facts], expected: Expected) -> list[Facts]:
    """Those that are there, and before them those that were; or, if the cleaner was there, all that ever were."""
    if expected.is_rewritten:
        return [batch for batch in expected.past if batch.last_offset < log.end_offset]
    return [*[batch for batch in expected.past if not visible or batch.base_offset < visible[0].base_offset], *visible]


def says_something(batch: Facts) -> bool:
    """A control batch without records is what the cleaner leaves of a marker."""
    return batch.producer_id >= 0 and bool(batch.marker or not batch.is_control)


def is_as_replayed(entry: tuple[Any, ...], replays: list[tuple[Any, ...]], is_rewritten: bool) -> bool:
    """Whether a producer is what a replay from some batch on makes of it.

    The replays start at the first batch that ever was, ..., at the first that is there.

    A snapshot remembers one batch only, but also where the transaction began that it belongs to. Cleaning takes
    batches out of the window, and may take a batch's newest record, and with it its time.
    """
    longest, shortest, window = replays[0][4], replays[-1][4], entry[4]
    if is_rewritten:
        states = [(replay[0], replay[1], replay[3]) for replay in replays]
        return (entry[0], entry[1], entry[3]) in states and set(window) <= set(longest)
    is_tail = longest[len(longest) - len(window) :] == window and len(window) >= len(shortest)
    return entry[:4] in [replay[:4] for replay in replays] and is_tail


def comparable(entry: object) -> tuple[object, ...]:
    window = tuple((batch.first_sequence, batch.last_sequence, batch.first_offset, batch.last_offset) for batch in entry.batches)
    return (entry.epoch, entry.coordinator_epoch, entry.last_timestamp, entry.current_txn_first_offset, window)


def check_duplicates(log: Log, newest: list[Facts]) -> None:
    end, leader_epoch = log.end_offset, max(log.epochs.latest_epoch or 0, 0)
    for batch in newest:
        sent = bytes(8) + batch.stored[8:]
        # What the cleaner thinned out is no client's batch; and a roll, which comes before the check, would change the log.
        is_whole = len(batch.records) == batch.last_offset - batch.base_offset + 1
        if not is_whole or log.segments.active.should_roll(len(sent), batch.max_timestamp, end):
            continue
        info = log.append_as_leader(sent, leader_epoch=leader_epoch)
        if not info.is_duplicate or (info.first_offset, info.last_offset) != (batch.base_offset, batch.last_offset):
            raise Broken(f"I-6: {batch} sent again is {info}")
    if log.end_offset != end:
        raise Broken(f"I-6: sending batches again moved the end from {end} to {log.end_offset}")


def check_transactions(log: Log, visible: list[Facts], expected: Expected) -> None:
    """I-7: the aborted transactions, the last stable offset, and what a reader of committed data gets."""
    sides = [Replay.of(visible), Replay.of(all_batches(log, visible, expected))]
    stable = [max(side.first_open(log.end_offset), log.start_offset) for side in sides]
    if log.last_stable_offset not in stable:
        raise Broken(f"I-7: the last stable offset is {log.last_stable_offset}, a replay gives {stable}")
    # Nobody can ask where a transaction began, or what was stable, below the log start.
    start = log.start_offset
    noted = [
        (aborted.producer_id, max(aborted.first_offset, start), aborted.last_offset, max(aborted.last_stable_offset, start))
        for segment in log.segments
        for aborted in segment.txn_index.transactions()
        if aborted.last_offset >= start
    ]
    wanted = [
        [
            (producer, max(first, start), last, max(stable, start))
            for producer, first, last, stable in side.aborted
            if last >= start
        ]
        for side in sides
    ]
    if any(batch.base_offset < start for batch in expected.past):
        # Open transactions that were deleted from the front may be forgotten: then more was stable.
        noted, *wanted = [[aborted[:3] for aborted in side] for side in (noted, *wanted)]
    # Cleaning may take a transaction's first batches, and whole transactions.
    if noted not in wanted and expected.knows_aborted:
        raise Broken(f"I-7: aborted transactions are {noted}, a replay gives {wanted}")
    if not any(segment.log.holes for segment in log.segments):
        check_committed(log, visible, {aborted for side in sides for aborted in side.aborted})


def check_committed(log: Log, visible: list[Facts], aborted: set[tuple[int, int, int, int]]) -> None:
    def is_committed(batch: Facts) -> bool:
        return not batch.is_transactional or not any(
            batch.producer_id == producer and begin <= batch.base_offset < end for producer, begin, end, _ in aborted
        )

    wanted = [
        offset
        for batch in visible
        if not batch.is_control and is_committed(batch)
        for offset, _ in batch.records
        if log.start_offset <= offset < log.last_stable_offset
    ]
    found = [record.offset for record in log.records(isolation="committed")]
    if found != wanted:
        raise Broken(f"I-7: a reader of committed data gets {found}, not {wanted}")


def check_epochs(log: Log, visible: list[Facts]) -> None:
    """Each batch from the first known epoch on lies in the epoch that it carries."""
    earliest = log.epochs.earliest
    for batch in visible:
        if earliest is None or batch.base_offset >= earliest.start_offset:
            known = max((entry.epoch for entry in log.epochs.entries if entry.start_offset <= batch.base_offset), default=None)
            if known != batch.leader_epoch:
                raise Broken(
                    f"offset {batch.base_offset} has leader epoch {batch.leader_epoch}, the epoch file says {known}: {log.epochs.entries}"
                )

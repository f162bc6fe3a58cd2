"""Rules about what was written: promised records stay, once, in order, with the value that was sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.checker.history import Finding, History, Outcome, Record, Send, is_intact


def lost_and_unseen(history: History) -> Iterator[Finding]:
    """A promised value that the last reader does not find: lost if somebody has read past it, else not (yet) to be seen."""
    furthest: dict[str, int] = defaultdict(lambda: -1)
    for poll in history.polls:
        for record in poll.records[-1:]:
            furthest[poll.partition] = max(furthest[poll.partition], record.offset)
    present = {}
    for partition, records in history.final.items():
        present[partition] = {record.value for record in records}
        for record in records[-1:]:
            furthest[partition] = max(furthest[partition], record.offset)
    outcomes = history.outcomes
    for send in history.sends:
        if not send.is_promised or send.offset < history.starts.get(send.partition, 0):
            continue
        if send.transaction is not None:
            transaction = outcomes.get(send.transaction)
            if transaction is None or not (transaction.is_commit and transaction.outcome is Outcome.OK):
                continue
        if send.value not in present.get(send.partition, ()):
            rule = "lost-write" if furthest[send.partition] > send.offset else "unseen"
            yield Finding(
                rule, f"{send.partition}@{send.offset}: {send.value} of {send.client} was acknowledged at {send.ended:.3f}"
            )


def duplicates(history: History) -> Iterator[Finding]:
    once = {send.value for send in history.sends if send.is_idempotent}
    offsets: dict[tuple[str, str], set[int]] = defaultdict(set)
    for partition, record in everything_read(history):
        if record.value in once:
            offsets[partition, record.value].add(record.offset)
    for (partition, value), found in offsets.items():
        if len(found) > 1:
            yield Finding("duplicate", f"{partition}: {value} is at {sorted(found)}")


def inconsistent_offsets(history: History) -> Iterator[Finding]:
    values: dict[tuple[str, int], set[str]] = defaultdict(set)
    for partition, record in everything_read(history):
        values[partition, record.offset].add(record.value)
    for send in history.sends:
        if send.is_promised and send.offset >= 0:
            values[send.partition, send.offset].add(send.value)
    for (partition, offset), found in values.items():
        if len(found) > 1:
            yield Finding("inconsistent-offset", f"{partition}@{offset} is {' and '.join(sorted(found))}")


def phantoms(history: History) -> Iterator[Finding]:
    sent = {send.value for send in history.sends}
    reported = set()
    for partition, record in everything_read(history):
        if record.value not in sent and record not in reported:
            reported.add(record)
            what = "nobody sent it" if is_intact(record.value) else "its checksum is wrong"
            yield Finding("phantom", f"{partition}@{record.offset}: {record.value}: {what}")


def nonmonotonic_sends(history: History) -> Iterator[Finding]:
    """The promised sends of one producer are in its order; of one that is not idempotent, those that did not overlap."""
    last: dict[tuple[str, str], Send] = {}
    for send in sorted((each for each in history.sends if each.is_promised), key=lambda each: each.began):
        before = last.get((send.client, send.partition))
        is_ordered = before is not None and (send.is_idempotent or before.ended <= send.began)
        if before is not None and is_ordered and 0 <= send.offset <= before.offset:
            yield Finding(
                "nonmonotonic-send",
                f"{send.partition}: {send.client} had {before.value} at {before.offset}, then {send.value} at {send.offset}",
            )
        if before is None or send.offset > before.offset:
            last[send.client, send.partition] = send


def stale_acknowledgements(history: History) -> Iterator[Finding]:
    """An offset that was given out already, to a send that had ended before this one began."""
    by_partition: dict[str, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.is_promised and send.offset >= 0:
            by_partition[send.partition].append(send)
    for partition, sends in by_partition.items():
        ended = sorted(sends, key=lambda each: each.ended)
        highest, position = -1, 0
        for send in sorted(sends, key=lambda each: each.began):
            while position < len(ended) and ended[position].ended < send.began:
                highest = max(highest, ended[position].offset)
                position += 1
            if send.offset <= highest:
                yield Finding("stale-ack", f"{partition}: {send.value} got {send.offset} when {highest} had been acknowledged")


def everything_read(history: History) -> Iterator[tuple[str, Record]]:
    """What readers saw, the last one too, and what the files have below their high watermarks."""
    for poll in history.polls:
        for record in poll.records:
            yield poll.partition, record
    for partition, records in history.final.items():
        for record in records:
            yield partition, record
    for replica in history.replicas:
        for record in replica.records:
            if record.offset < replica.high_watermark:
                yield replica.partition, record

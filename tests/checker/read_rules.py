"""Rules about what readers saw: nothing skipped, no step back, marks that only rise."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tests.checker.history import Commit, Finding, History, Outcome, Poll


def steps_of_polls(history: History) -> Iterator[Finding]:
    """Within one assignment: a gap over a value that is there, or a step back."""
    there = {partition: [record.offset for record in records] for partition, records in history.final.items()}
    last: dict[tuple[str, int, str], int] = {}
    for poll in in_order(history.polls):
        key = (poll.client, poll.assignment, poll.partition)
        for record in poll.records:
            before = last.get(key)
            if before is not None and record.offset <= before:
                yield Finding("nonmonotonic-poll", f"{poll.partition}: {poll.client} read {record.offset} after {before}")
            elif before is not None:
                offsets = there.get(poll.partition, [])
                skipped = offsets[bisect_right(offsets, before) : bisect_left(offsets, record.offset)]
                if skipped:
                    yield Finding(
                        "poll-skip", f"{poll.partition}: {poll.client} read {before}, then {record.offset}; {skipped} exist"
                    )
            last[key] = record.offset


def regressing_marks(history: History) -> Iterator[Finding]:
    """What one client is told does not go back.

    The leader epoch never does. The high watermark and the last stable offset do not while one leader leads: a new one, or one that was
    started again so quickly that it leads on, learns where they are with its followers' first fetches, and may name older ones until
    then (`allowed_regressions`). The end of the log may go back with a new leader, but not over what was promised.
    """
    promised: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for send in history.sends:
        if send.is_promised:
            promised[send.partition].append((send.offset, send.ended))
    for known in promised.values():
        known.sort()
    last: dict[tuple[str, str], Poll] = {}
    for poll in in_order(history.polls):
        before = last.get((poll.client, poll.partition))
        last[poll.client, poll.partition] = poll
        if before is None:
            continue
        where = f"{poll.partition}, to {poll.client}"
        is_same_leader = (poll.leader_epoch, poll.leader) == (before.leader_epoch, before.leader)
        if poll.leader_epoch < before.leader_epoch:
            yield Finding("epoch-regress", f"{where}: epoch {poll.leader_epoch} after {before.leader_epoch}")
        if is_same_leader and poll.high_watermark < before.high_watermark:
            yield Finding("hw-regress", f"{where}: high watermark {poll.high_watermark} after {before.high_watermark}")
        if is_same_leader and poll.last_stable_offset < before.last_stable_offset:
            yield Finding("lso-regress", f"{where}: stable {poll.last_stable_offset} after {before.last_stable_offset}")
        if poll.end_offset < before.end_offset:
            known = promised[poll.partition]
            between = known[bisect_left(known, (poll.end_offset, 0.0)) : bisect_left(known, (before.end_offset, 0.0))]
            gone = [offset for offset, ended in between if ended < poll.began]
            if is_same_leader or gone:
                yield Finding("end-regress", f"{where}: end {poll.end_offset} after {before.end_offset}; promised: {gone}")


def allowed_regressions(history: History) -> int:
    """How often a new leader named an older high watermark."""
    last: dict[tuple[str, str], Poll] = {}
    found = 0
    for poll in in_order(history.polls):
        before = last.get((poll.client, poll.partition))
        if before is not None and (poll.leader_epoch, poll.leader) != (before.leader_epoch, before.leader):
            found += poll.high_watermark < before.high_watermark
        last[poll.client, poll.partition] = poll
    return found


def regressing_commits(history: History) -> Iterator[Finding]:
    """A group reads the offset that it committed last, or one that was on its way meanwhile."""
    commits: dict[tuple[str, str], list[Commit]] = defaultdict(list)
    for commit in sorted(history.commits, key=lambda each: each.began):
        commits[commit.group, commit.partition].append(commit)
    for fetch in history.commit_fetches:
        known = commits[fetch.group, fetch.partition]
        done = [number for number, each in enumerate(known) if each.outcome is Outcome.OK and each.ended <= fetch.began]
        if not done:
            continue
        allowed = {each.offset for each in known[done[-1] :] if each.began <= fetch.ended}
        allowed |= {each.offset for each in known if each.outcome is Outcome.UNKNOWN and each.began <= fetch.ended}
        if fetch.offset not in allowed:
            text = f"{fetch.partition}: {fetch.group} read {fetch.offset}, had committed {known[done[-1]].offset}"
            yield Finding("commit-regress", text)


def in_order(polls: list[Poll]) -> list[Poll]:
    return sorted(polls, key=lambda each: each.ended)

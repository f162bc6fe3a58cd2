"""Twenty-four ways to go wrong, each planted into a history that was good. Names begin with the rule that must notice.

A plant changes as little as it can, and leaves everything else as a good cluster would have it.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.checker.history import (
    Accepted,
    Administered,
    CommitFetch,
    History,
    Outcome,
    Poll,
    Record,
    Send,
    Transaction,
    sealed,
)

Plant = Callable[[History], None]
NAME = "t-0"


def promised(history: History) -> list[Send]:
    """Acknowledged, outside of transactions, in the order of their offsets."""
    found = [each for each in history.sends if each.is_promised and each.transaction is None and each.partition == NAME]
    return sorted(found, key=lambda each: each.offset)


def full_polls(history: History) -> list[Poll]:
    return [each for each in history.polls if each.partition == NAME and len(each.records) > 1 and each.is_committed]


def without(records: tuple[Record, ...], value: str) -> tuple[Record, ...]:
    return tuple(record for record in records if record.value != value)


def forget(history: History, value: str) -> None:
    """As if it had never been there."""
    history.final = {name: without(records, value) for name, records in history.final.items()}
    history.replicas = [each._replace(records=without(each.records, value)) for each in history.replicas]
    history.polls = [each._replace(records=without(each.records, value)) for each in history.polls]


def replace(history: History, old: Poll, new: Poll) -> None:
    history.polls[history.polls.index(old)] = new


def lost_write(history: History) -> None:
    forget(history, promised(history)[0].value)


def unseen(history: History) -> None:
    last = promised(history)[-1]
    forget(history, last.value)
    history.final[NAME] = tuple(record for record in history.final[NAME] if record.offset < last.offset)


def duplicate(history: History) -> None:
    end = history.final[NAME][-1].offset + 10
    history.final[NAME] += (Record(end, history.final[NAME][0].value),)


def inconsistent_offset(history: History) -> None:
    first, *rest = history.final[NAME]
    history.final[NAME] = (Record(first.offset, rest[-1].value), *rest)


def phantom(history: History) -> None:
    history.final[NAME] += (Record(history.final[NAME][-1].offset + 10, sealed("nobody-1")),)


def phantom_damaged(history: History) -> None:
    poll = full_polls(history)[0]
    damaged = poll.records[0].value.replace("-", "_", 1)
    replace(history, poll, poll._replace(records=(poll.records[0]._replace(value=damaged), *poll.records[1:])))


def aborted_read(history: History) -> None:
    failed = next(each for each in history.sends if each.outcome is Outcome.FAILED)
    history.final[failed.partition] += (Record(history.final[failed.partition][-1].offset + 10, failed.value),)


def torn_txn(history: History) -> None:
    end = history.final[NAME][-1].offset + 10
    values = [sealed("x9-1"), sealed("x9-2")]
    for number, value in enumerate(values):
        sent = Send("x9", NAME, value, history.healed_at, history.healed_at, Outcome.OK, end + number, transaction="x9:1")
        history.sends.append(sent)
    history.transactions.append(Transaction("x9:1", "x9", history.healed_at, history.healed_at, True, Outcome.OK))
    history.final[NAME] += (Record(end + 1, values[1]),)


def precommitted_read(history: History) -> None:
    poll = full_polls(history)[0]
    value = poll.records[0].value
    sent = next(each for each in history.sends if each.value == value)
    history.sends[history.sends.index(sent)] = sent._replace(transaction="x9:2")
    history.transactions.append(Transaction("x9:2", "x9", poll.ended + 1, poll.ended + 2, True, Outcome.OK))


def nonmonotonic_send(history: History) -> None:
    first, second = [each for each in promised(history) if each.client == "p1"][:2]
    at_first, at_second = history.sends.index(first), history.sends.index(second)
    history.sends[at_first] = first._replace(offset=second.offset)
    history.sends[at_second] = second._replace(offset=first.offset)


def poll_skip(history: History) -> None:
    poll = next(each for each in full_polls(history) if len(each.records) > 2)
    replace(history, poll, poll._replace(records=(poll.records[0], *poll.records[2:])))


def nonmonotonic_poll(history: History) -> None:
    poll = full_polls(history)[0]
    replace(history, poll, poll._replace(records=(*poll.records, poll.records[0])))


def stale_ack(history: History) -> None:
    last = max(promised(history), key=lambda each: each.began)
    history.sends[history.sends.index(last)] = last._replace(offset=promised(history)[0].offset)


def commit_regress(history: History) -> None:
    last = history.commits[-1]
    history.commit_fetches.append(CommitFetch(last.group, last.partition, last.offset - 1, last.ended + 1, last.ended + 2))


def regress(mark: str) -> Plant:
    def plant(history: History) -> None:
        poll = full_polls(history)[-1]
        again = poll._replace(began=poll.ended + 0.0001, ended=poll.ended + 0.0002, records=())
        history.polls.append(again._replace(**{mark: getattr(poll, mark) - 1}))

    plant.__name__ = mark
    return plant


def end_regress(history: History) -> None:
    """With a new leader, and over something that was promised."""
    last = max(promised(history), key=lambda each: each.ended)
    time = history.ended_at
    history.polls.append(Poll("r9", NAME, time, time, (), 1, 0, 0, last.offset + 1))
    history.polls.append(Poll("r9", NAME, time, time + 1, (), 2, 0, 0, last.offset))


def replica_divergence(history: History) -> None:
    history.replicas[0] = history.replicas[0]._replace(digest="0" * 64)


def index_mismatch(history: History) -> None:
    history.lookups[0] = history.lookups[0]._replace(found=history.lookups[0].scanned + 4096)


def g1c(history: History) -> None:
    time = history.healed_at
    for name, other in (("y1:1", "y2:1"), ("y2:1", "y1:1")):
        end = history.final[NAME][-1].offset + 10
        value, read = sealed(f"{name}-write"), sealed(f"{other}-write")
        history.sends.append(Send(name[:2], NAME, value, time, time, Outcome.OK, end, transaction=name))
        history.transactions.append(Transaction(name, name[:2], time, time, True, Outcome.OK))
        history.final[NAME] += (Record(end, value),)
        records = (Record(end + (10 if name < other else -10), read),)
        history.polls.append(Poll(name[:2], NAME, time, time + 1, records, 10**6, 10**6, 10**6, 10**6, transaction=name))


def two_controllers(history: History) -> None:
    last = history.administered[-1]
    history.administered.append(Administered(last.broker % 3 + 1, last.controller_epoch, last.time + 1))


def two_leaders(history: History) -> None:
    last = history.accepted[-1]
    history.accepted.append(Accepted(last.broker % 3 + 1, last.partition, last.leader_epoch, last.time + 1))


def no_progress(history: History) -> None:
    history.sends = [each for each in history.sends if each.client != "p2" or each.ended < history.healed_at]
    kept = {each.value for each in history.sends}
    for value in {record.value for records in history.final.values() for record in records} - kept:
        forget(history, value)


PLANTED: dict[str, Plant] = {
    "lost-write": lost_write,
    "unseen": unseen,
    "duplicate": duplicate,
    "inconsistent-offset": inconsistent_offset,
    "phantom": phantom,
    "phantom: damaged": phantom_damaged,
    "aborted-read": aborted_read,
    "torn-txn": torn_txn,
    "precommitted-read": precommitted_read,
    "nonmonotonic-send": nonmonotonic_send,
    "poll-skip": poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "stale-ack": stale_ack,
    "commit-regress": commit_regress,
    "hw-regress": regress("high_watermark"),
    "lso-regress": regress("last_stable_offset"),
    "epoch-regress": regress("leader_epoch"),
    "end-regress": end_regress,
    "replica-divergence": replica_divergence,
    "index-mismatch": index_mismatch,
    "G1c": g1c,
    "two-controllers": two_controllers,
    "two-leaders": two_leaders,
    "progress": no_progress,
}

"""Rules about transactions: seen whole or not at all, not before their end, never in a circle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.checker.history import Finding, History, Outcome


def aborted_reads(history: History) -> Iterator[Finding]:
    """A value that certainly was not written, or whose transaction was aborted, seen with read_committed (G1a)."""
    outcomes = history.outcomes
    wrong: dict[str, str] = {}
    for send in history.sends:
        transaction = outcomes.get(send.transaction) if send.transaction is not None else None
        if send.outcome is Outcome.FAILED:
            wrong[send.value] = "its send failed"
        elif transaction is not None and not transaction.is_commit and transaction.outcome is Outcome.OK:
            wrong[send.value] = f"{transaction.name} was aborted"
    # A value that failed once and was sent again with success is no wonder.
    for send in history.sends:
        if send.outcome is not Outcome.FAILED and wrong.get(send.value) == "its send failed":
            del wrong[send.value]
    seen = [(poll.partition, poll.client, record) for poll in history.polls if poll.is_committed for record in poll.records]
    seen += [(partition, "the last reader", record) for partition, records in history.final.items() for record in records]
    for partition, reader, record in seen:
        if record.value in wrong:
            yield Finding("aborted-read", f"{partition}@{record.offset}: {reader} saw {record.value}: {wrong[record.value]}")


def torn_transactions(history: History) -> Iterator[Finding]:
    present = {record.value for records in history.final.values() for record in records}
    values: dict[str, list[str]] = defaultdict(list)
    for send in history.sends:
        if send.transaction is not None and send.outcome is Outcome.OK:
            values[send.transaction].append(send.value)
    for transaction in history.transactions:
        if transaction.is_commit and transaction.outcome is Outcome.OK:
            missing = [value for value in values[transaction.name] if value not in present]
            if missing and len(missing) < len(values[transaction.name]):
                yield Finding("torn-txn", f"{transaction.name} was committed without {missing}")


def early_reads(history: History) -> Iterator[Finding]:
    outcomes = history.outcomes
    belongs = {send.value: outcomes[send.transaction] for send in history.sends if send.transaction in outcomes}
    for poll in history.polls:
        for record in poll.records if poll.is_committed else ():
            transaction = belongs.get(record.value)
            if transaction is not None and transaction.is_commit and poll.ended < transaction.end_began:
                text = f"{poll.partition}@{record.offset}: {poll.client} saw {record.value} at {poll.ended:.3f}, "
                yield Finding(
                    "precommitted-read", text + f"the commit of {transaction.name} began at {transaction.end_began:.3f}"
                )


def circles(history: History) -> Iterator[Finding]:
    """Committed transactions that read from each other in a circle (G1c)."""
    committed = {each.name for each in history.transactions if each.is_commit and each.outcome is Outcome.OK}
    writer = {send.value: send.transaction for send in history.sends if send.transaction and send.transaction in committed}
    read_from: dict[str, set[str]] = defaultdict(set)
    for poll in history.polls:
        if poll.transaction in committed:
            writers = {writer[record.value] for record in poll.records if record.value in writer}
            read_from[poll.transaction] |= writers - {poll.transaction}
    for circle in components(read_from):
        yield Finding("G1c", f"{' and '.join(sorted(circle))} read from each other")


def components(edges: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Strongly connected components of more than one node: Tarjan's, without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found, stack[at:] = stack[at:], []
                    on_stack.difference_update(found)
                    if len(found) > 1:
                        yield found

"""Rules about brokers: one leader an epoch, one controller an epoch, equal replicas, true indexes, and work that goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.checker.history import Finding, History, Outcome

PROGRESS_SECONDS = 30.0


def two_leaders(history: History) -> Iterator[Finding]:
    """No two brokers accept writes for one partition in one leader epoch."""
    accepted: dict[tuple[str, int], set[int]] = defaultdict(set)
    for each in history.accepted:
        accepted[each.partition, each.leader_epoch].add(each.broker)
    for (partition, epoch), brokers in accepted.items():
        if len(brokers) > 1:
            yield Finding("two-leaders", f"{partition}: brokers {sorted(brokers)} all accepted writes in leader epoch {epoch}")


def two_controllers(history: History) -> Iterator[Finding]:
    """No two brokers are obeyed in one controller epoch, and none writes anything once the next one is elected."""
    acted: dict[int, set[int]] = defaultdict(set)
    for each in history.administered:
        acted[each.controller_epoch].add(each.broker)
    for epoch, brokers in acted.items():
        if len(brokers) > 1:
            yield Finding("two-controllers", f"brokers {sorted(brokers)} all were controller in epoch {epoch}")
    for decided in history.decided:
        if decided.controller_epoch != decided.current_epoch:
            text = f"{decided.what} was written by the controller of epoch {decided.controller_epoch} in {decided.current_epoch}"
            yield Finding("two-controllers", text)


def diverged_replicas(history: History) -> Iterator[Finding]:
    digests: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for replica in history.replicas:
        digests[replica.partition][replica.digest].append(replica.broker)
    for partition, found in digests.items():
        if len(found) > 1:
            yield Finding("replica-divergence", f"{partition}: the logs of brokers {sorted(found.values())} differ")


def wrong_lookups(history: History) -> Iterator[Finding]:
    for each in history.lookups:
        if each.found != each.scanned:
            text = f"{each.partition} on broker {each.broker}: {each.question} is {each.scanned}, the index says {each.found}"
            yield Finding("index-mismatch", text)


def progress(history: History) -> Iterator[Finding]:
    """Whoever went on after the last fault got something done within 30 seconds."""
    if history.ended_at < history.healed_at + PROGRESS_SECONDS:
        return
    until = history.healed_at + PROGRESS_SECONDS
    clients = {send.client for send in history.sends} | {poll.client for poll in history.polls}
    served = {send.client for send in history.sends if send.outcome is Outcome.OK and history.healed_at <= send.ended <= until}
    served |= {poll.client for poll in history.polls if history.healed_at <= poll.ended <= until}
    for client in sorted(clients - served):
        yield Finding("progress", f"{client} had no success from {history.healed_at:.3f} to {until:.3f}")

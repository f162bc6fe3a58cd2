"""The checker: a history in, violations out. It knows nothing of the code that made the history; linear in its length.

| rule | violation |
|---|---|
| lost-write, unseen | an acknowledged value is not there at the end; somebody had read past it, or nobody |
| duplicate | an idempotent producer's value at two offsets |
| inconsistent-offset | two values at one offset, across sends, polls, replicas and files |
| phantom | a value that nobody sent, or a damaged one |
| aborted-read, torn-txn, precommitted-read, G1c | transactions seen though aborted, in part, too early, in a circle |
| nonmonotonic-send, stale-ack | acknowledged offsets out of order |
| poll-skip, nonmonotonic-poll | a reader that missed something, or went back |
| hw-regress, lso-regress, epoch-regress, end-regress | a mark that went back for one client |
| commit-regress | a committed offset that was forgotten |
| replica-divergence, index-mismatch | files that disagree |
| two-controllers, two-leaders | two brokers believed in one epoch |
| progress | a client without success in the 30 s after the last fault |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.checker import cluster_rules, read_rules, transaction_rules, write_rules
from tests.checker.history import Finding, History

RULES: tuple[Callable[[History], Iterator[Finding]], ...] = (
    write_rules.lost_and_unseen,
    write_rules.duplicates,
    write_rules.inconsistent_offsets,
    write_rules.phantoms,
    write_rules.nonmonotonic_sends,
    write_rules.stale_acknowledgements,
    read_rules.steps_of_polls,
    read_rules.regressing_marks,
    read_rules.regressing_commits,
    transaction_rules.aborted_reads,
    transaction_rules.torn_transactions,
    transaction_rules.early_reads,
    transaction_rules.circles,
    cluster_rules.two_leaders,
    cluster_rules.two_controllers,
    cluster_rules.diverged_replicas,
    cluster_rules.wrong_lookups,
    cluster_rules.progress,
)


def check(history: History) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(history)]

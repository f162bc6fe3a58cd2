"""Verification of transactional writes (KIP-890): the first batch of a transaction is written only under its guard.

Before a partition takes the first batch of a transaction, the broker asks the transaction coordinator whether the
partition belongs to it. The question takes time, and meanwhile the transaction may end. So the log hands out a
*guard* when the question is asked, and drops it when a marker or a data batch of that producer is written: an answer
that comes late finds another guard, or none.

The entry also keeps the lowest sequence that is waiting for an answer: a later batch of the same producer that is
verified first must not be appended before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class VerificationGuard:
    """Equal only to itself."""

    __slots__ = ()


@dataclass(slots=True)
class VerificationEntry:
    timestamp: int
    lowest_sequence: int
    epoch: int
    guard: VerificationGuard = field(default_factory=VerificationGuard)

    def lower_to(self, sequence: int, epoch: int) -> None:
        """Another batch waits too: a newer epoch replaces what is known, a lower sequence of the same epoch lowers it."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

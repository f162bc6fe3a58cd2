"""Changes of in-sync replicas, counted by what became of them: what IsrShrinksPerSec, IsrExpandsPerSec and FailedIsrUpdatesPerSec say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from milepost.log.log import Log
from milepost.replica.leadership import Confirmed, IsrChanger, LeaderState


class CountedIsrChanges:
    def __init__(self, changer: IsrChanger):
        self.shrinks = self.expands = self.failures = 0
        self._changer = changer

    def may_join(self, broker_id: int) -> bool:
        return self._changer.may_join(broker_id)

    def propose(
        self,
        log: Log,
        state: LeaderState,
        isr: frozenset[int],
        epochs: Mapping[int, int],
        done: Callable[[Confirmed], object],
    ) -> None:
        def counted(confirmed: Confirmed) -> None:
            if confirmed.error:
                self.failures += 1
            elif isr < state.isr:
                self.shrinks += 1
            else:
                self.expands += 1
            done(confirmed)

        self._changer.propose(log, state, isr, epochs, counted)

"""Changes of in-sync replicas are counted when it is known what became of them."""

from __future__ import annotations

from typing import Any

from milepost.replica.counted_isr_changes import CountedIsrChanges
from milepost.replica.leadership import Confirmed, LeaderState

STATE = LeaderState(5, frozenset({1, 2}), (1, 2, 3), 0)


class Changer:
    def propose(self, log: Any, state: Any, isr: Any, epochs: Any, done: Any) -> None:
        self.asked, self.done = (isr, epochs), done

    def may_join(self, broker_id: int) -> bool:
        return broker_id == 3


def test_each_outcome_has_its_count():
    changer, told = Changer(), []
    counted = CountedIsrChanges(changer)
    outcomes = [({1}, 0), ({1, 2, 3}, 0), ({1, 2, 3}, 107), ({1, 2, 3}, 0)]
    for isr, error in outcomes:
        counted.propose(None, STATE, frozenset(isr), {3: 33}, told.append)  # type: ignore[arg-type]
        assert changer.asked == (isr, {3: 33})
        changer.done(Confirmed(error, frozenset(isr), 1))
    assert (counted.shrinks, counted.expands, counted.failures) == (1, 2, 1)
    assert [confirmed.error for confirmed in told] == [0, 0, 107, 0]
    assert counted.may_join(3) and not counted.may_join(4)

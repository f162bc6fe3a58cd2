"""A leader and its followers: who is in sync, how far everybody has it, and what may be acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from milepost.replica.leadership import Confirmed, Leadership, LeaderState

LAG = 10_000


class Log:
    """The two positions that matter."""

    partition = "t-0"
    start_offset = 0

    def __init__(self, end_offset: int, high_watermark: int = 0):
        self.end_offset = end_offset
        self.high_watermark = high_watermark

    def update_high_watermark(self, offset: int) -> None:
        assert offset > self.high_watermark, "the high watermark went back"
        self.high_watermark = offset


class Controller:
    """Notes proposals; the test answers them."""

    def __init__(self) -> None:
        self.proposals: list[tuple[frozenset[int], Callable[[Confirmed], object]]] = []
        self.leaving: set[int] = set()
        self.epochs: dict[int, int] = {}
        """Of the last proposal."""

    def propose(
        self, log: Any, state: LeaderState, isr: frozenset[int], epochs: Any, done: Callable[[Confirmed], object]
    ) -> None:
        self.proposals.append((isr, done))
        self.epochs = dict(epochs)

    def may_join(self, broker_id: int) -> bool:
        return broker_id not in self.leaving

    def confirm(self, partition_epoch: int) -> frozenset[int]:
        isr, done = self.proposals.pop()
        done(Confirmed(0, isr, partition_epoch))
        return isr

    def refuse(self, error: int) -> None:
        self.proposals.pop()[1](Confirmed(error))


@pytest.fixture
def controller() -> Controller:
    return Controller()


def lead(controller: Controller, log: Log, isr: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3)) -> Leadership:
    return Leadership(log, 1, LeaderState(5, frozenset(isr), replicas, 0), controller, 0, LAG)  # type: ignore[arg-type]


def test_high_watermark_is_the_slowest_of_the_in_sync(controller):
    log = Log(end_offset=100)
    leader = lead(controller, log)
    assert not leader.fetched(2, 100, 0, 0)
    assert leader.fetched(3, 60, 0, 0)
    assert log.high_watermark == 60
    assert leader.fetched(3, 90, 0, 0)
    assert log.high_watermark == 90


def test_follower_that_was_never_heard_of_holds_the_watermark_until_it_is_let_go(controller):
    log = Log(end_offset=100, high_watermark=40)
    leader = lead(controller, log)
    leader.fetched(2, 100, 0, 0)
    assert log.high_watermark == 40
    leader.check_lag(LAG)
    assert not controller.proposals
    leader.fetched(2, 100, 0, LAG + 1)
    leader.check_lag(LAG + 1)
    assert controller.confirm(1) == {1, 2}
    assert leader.advance(LAG + 1)
    assert log.high_watermark == 100


def test_watermark_waits_for_a_shrink_to_be_confirmed(controller):
    log = Log(end_offset=100)
    leader = lead(controller, log)
    leader.fetched(2, 100, 0, LAG + 1)
    leader.check_lag(LAG + 1)
    assert not leader.advance(LAG + 1)
    assert log.high_watermark == 0


def test_follower_that_reaches_the_end_joins(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(3, 99, 0, 0)
    assert not controller.proposals
    leader.fetched(3, 100, 0, 0)
    assert controller.confirm(1) == {1, 2, 3}
    assert leader.state.isr == {1, 2, 3}
    assert leader.state.partition_epoch == 1


def test_follower_that_is_asked_in_counts_before_it_is_confirmed(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(2, 100, 0, 0)
    leader.fetched(3, 100, 0, 0)
    assert len(controller.proposals) == 1
    log.end_offset = 120
    assert not leader.fetched(2, 120, 0, 1)
    assert leader.fetched(3, 110, 0, 1)
    assert log.high_watermark == 110
    # And producers count only those that are confirmed.
    assert leader.acknowledgement(110, 3) == 20


def test_one_that_leaves_is_not_asked_in(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    controller.leaving.add(3)
    leader.fetched(3, 100, 0, 0)
    assert not controller.proposals


def test_only_one_change_is_on_its_way_at_a_time(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1,))
    leader.fetched(2, 100, 0, 0)
    leader.fetched(3, 100, 0, 0)
    assert len(controller.proposals) == 1
    controller.confirm(1)
    leader.fetched(3, 100, 0, 1)
    assert controller.confirm(2) == {1, 2, 3}


def test_refusal_because_our_knowledge_is_old_stops_proposals_until_we_are_told(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(3, 100, 0, 0)
    controller.refuse(95)
    leader.fetched(3, 100, 0, 1)
    assert not controller.proposals
    assert leader.maximal_isr == {1, 2, 3}
    leader.update(LeaderState(5, frozenset({1, 2}), (1, 2, 3), 7), 1)
    leader.fetched(3, 100, 0, 2)
    assert controller.confirm(8) == {1, 2, 3}


def test_after_an_error_that_says_nothing_about_the_proposal_it_may_have_been_heard(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(3, 100, 0, 0)
    controller.refuse(-1)
    assert leader.maximal_isr == {1, 2, 3}
    assert not controller.proposals
    leader.check_lag(1)
    assert controller.confirm(8) == {1, 2, 3}


def test_proposal_that_was_lost_on_its_way_is_made_again(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(3, 100, 0, 0)
    controller.proposals.clear()
    leader.check_lag(1)
    assert not controller.proposals
    leader.ask_again()
    leader.check_lag(2)
    assert controller.confirm(8) == {1, 2, 3}


def test_refusal_for_now_is_tried_again(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(3, 100, 0, 0)
    controller.refuse(107)
    leader.fetched(3, 100, 0, 1)
    assert len(controller.proposals) == 1


def test_answer_to_an_old_proposal_changes_nothing(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(3, 100, 0, 0)
    leader.update(LeaderState(5, frozenset({1}), (1, 2, 3), 9), 0)
    controller.confirm(1)
    assert leader.state == LeaderState(5, frozenset({1}), (1, 2, 3), 9)


def test_busy_follower_is_caught_up_by_what_was_the_end_when_it_last_asked(controller):
    log = Log(end_offset=100)
    leader = lead(controller, log, isr=(1, 2), replicas=(1, 2))
    for second in range(1, 60):
        leader.fetched(2, log.end_offset - 50, 0, second * 1000)
        leader.check_lag(second * 1000)
        log.end_offset += 50
    assert not controller.proposals


def test_follower_that_falls_behind_leaves(controller):
    log = Log(end_offset=100)
    leader = lead(controller, log, isr=(1, 2), replicas=(1, 2))
    for second in range(1, 60):
        leader.fetched(2, 50, 0, second * 1000)
        log.end_offset += 50
    leader.check_lag(60_000)
    assert controller.confirm(1) == {1}


@pytest.mark.parametrize(
    ("isr", "min_isr", "replicas", "may_append"),
    [((1, 2), 2, (1, 2, 3), True), ((1,), 2, (1, 2, 3), False), ((1,), 2, (1,), True), ((1,), 1, (1, 2, 3), True)],
)
def test_acks_all_needs_enough_in_sync(controller, isr, min_isr, replicas, may_append):
    assert lead(controller, Log(0), isr, replicas).may_append(min_isr) is may_append


def test_acknowledged_when_everybody_has_it(controller):
    log = Log(end_offset=10)
    leader = lead(controller, log, isr=(1, 2), replicas=(1, 2))
    assert leader.acknowledgement(10, 2) is None
    leader.fetched(2, 10, 0, 0)
    assert leader.acknowledgement(10, 2) == 0


def test_low_watermark_is_the_lowest_start_of_the_live(controller):
    log = Log(end_offset=10)
    log.start_offset = 7
    leader = lead(controller, log)
    leader.fetched(2, 10, 5, 0)
    leader.fetched(3, 10, 0, 0)
    assert leader.low_watermark == 0
    controller.leaving.add(3)
    assert leader.low_watermark == 5


# Earlier lives of a follower (KIP-903).


def test_proposal_says_in_which_life_of_its_broker_a_follower_was_seen(controller):
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(2, 100, 0, 0)
    leader.fetched(3, 100, 0, 0, broker_epoch=33)
    assert controller.epochs == {2: -1, 3: 33}


def test_proposal_that_is_made_again_is_of_the_life_of_the_first(controller):
    """The follower may have come back with less."""
    log = Log(end_offset=100, high_watermark=100)
    leader = lead(controller, log, isr=(1, 2))
    leader.fetched(2, 100, 0, 0, broker_epoch=22)
    leader.fetched(3, 100, 0, 0, broker_epoch=33)
    leader.ask_again()
    leader.fetched(3, 50, 0, 1, broker_epoch=44)
    leader.check_lag(1)
    assert controller.epochs == {2: 22, 3: 33}
    controller.refuse(107)
    assert leader.state.isr == {1, 2}
    leader.fetched(3, 100, 0, 2, broker_epoch=44)
    assert controller.epochs == {2: 22, 3: 44}


def test_fetch_of_an_earlier_life_is_known_as_such(controller):
    leader = lead(controller, Log(end_offset=100))
    replica = leader.remote[2]
    assert not replica.has_stale_broker_epoch(22)
    leader.fetched(2, 100, 0, 0, broker_epoch=22)
    assert replica.has_stale_broker_epoch(21)
    assert not replica.has_stale_broker_epoch(22) and not replica.has_stale_broker_epoch(23)
    assert not replica.has_stale_broker_epoch(-1), "before 3.5 nobody says"

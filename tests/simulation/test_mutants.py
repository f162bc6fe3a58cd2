"""Brokers with one thing wrong with them: the simulation must notice each, and by the rule that is for it.

What is wrong is put in place of the right thing for the length of a run; how many seeds it takes until somebody notices is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from milepost.broker.fetch.follower import Follower
from milepost.cluster import controller_election, member
from milepost.cluster.controller import leader_elections, partition_store, producer_ids
from milepost.cluster.controller.leader_elections import Choice
from milepost.cluster.controller_election import Elected, Term
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import ANY_VERSION, Check, Create, Exists, Multi, SetData
from milepost.log.flushing import FlushableLog
from milepost.log.producer_state.producer_entry import ProducerAppend
from milepost.replica.following import Following
from milepost.replica.leader_and_isr import LeaderAndIsrHandler
from milepost.replica.leadership import Leadership
from tests.simulation.__main__ import guarded_run

MOST_SEEDS = 300
pytestmark = pytest.mark.trouble
Mutant = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_others_have_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "acknowledgement", lambda self, end_offset, min_isr: 0)


def shows_what_others_do_not_have(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Leadership, now_ms: int) -> bool:
        before = self.log.high_watermark
        return self.log.update_high_watermark(self.log.end_offset) > before

    patch.setattr(Leadership, "advance", advance)


def elects_whoever_is_alive(patch: pytest.MonkeyPatch) -> None:
    def offline(replicas: Any, isr: Any, live: Any, **options: Any) -> Choice | None:
        alive = [each for each in replicas if each in live]
        return Choice(alive[-1], (alive[-1],)) if alive else None

    patch.setattr(leader_elections, "offline", offline)


def follows_without_cutting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "_truncate", lambda self, offset: None)


def leads_when_told_to_follow(patch: pytest.MonkeyPatch) -> None:
    right = LeaderAndIsrHandler._take_role

    def take_role(self: LeaderAndIsrHandler, partition: Any, state: Any) -> None:
        if state.leader_epoch % 2:
            state.leader = self.broker_id
        right(self, partition, state)

    patch.setattr(LeaderAndIsrHandler, "_take_role", take_role)


def is_controller_in_an_old_epoch(patch: pytest.MonkeyPatch) -> None:
    """The office is taken without raising the epoch, except by the first."""

    def elect(broker_id: int, now_ms: int, **options: Any) -> Any:
        yield [Exists(znodes.CONTROLLER, watch=True)]
        current = yield from controller_election.read_controller()
        if current is not None:
            return Elected(current)
        epoch, version = yield from controller_election.read_epoch()
        if epoch == 0:
            yield [SetData(znodes.CONTROLLER_EPOCH, b"1", version)]
        epoch, version = yield from controller_election.read_epoch()
        (made,) = yield [Create(znodes.CONTROLLER, znodes.controller(broker_id, now_ms, knows_kraft=True), ephemeral=True)]
        return Elected(broker_id, Term(epoch, version)) if made.ok else Elected((yield from controller_election.read_controller()))

    patch.setattr(member, "elect", elect)


def lets_followers_join_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "_may_join", lambda self, replica: True)
    patch.setattr(Leadership, "_is_joining", lambda self, replica, now_ms: False)


def lets_followers_go_without_asking(patch: pytest.MonkeyPatch) -> None:
    right = Leadership._propose

    def propose(self: Leadership, isr: frozenset[int]) -> None:
        if isr < self.state.isr:
            self.state = self.state._replace(isr=isr)
        else:
            right(self, isr)

    patch.setattr(Leadership, "_propose", propose)


def counts_only_whom_the_controller_confirmed(patch: pytest.MonkeyPatch) -> None:
    """KIP-497: a newcomer counts from the moment it was asked for, for the controller may have granted it."""
    patch.setattr(Leadership, "maximal_isr", property(lambda self: self.state.isr))


def counts_only_whom_it_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "maximal_isr", property(lambda self: self.state.isr if self._proposed is None else self._proposed))


def decides_when_deposed(patch: pytest.MonkeyPatch) -> None:
    """A controller's writes take effect though another one has been elected."""

    def guarded(term: Term, writes: Any) -> list[Multi]:
        return [Multi((Check(znodes.CONTROLLER_EPOCH, ANY_VERSION), write)) for write in writes]

    patch.setattr(controller_election, "guarded", guarded)
    patch.setattr(partition_store, "guarded", guarded)
    patch.setattr(producer_ids, "guarded", guarded)


def obeys_orders_of_any_age(patch: pytest.MonkeyPatch) -> None:
    right = LeaderAndIsrHandler._become

    def become(self: LeaderAndIsrHandler, name: Any, topic_id: bytes, state: Any) -> int:
        partition = self.replicas.partitions.get(name)
        if partition is not None:
            partition.leader_epoch = -1
        return right(self, name, topic_id, state)

    patch.setattr(LeaderAndIsrHandler, "_become", become)


def forgets_what_a_producer_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerAppend, "append", lambda self, *arguments, **options: None)


def does_not_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushableLog, "flush_before_answer", lambda self: None)


def takes_followers_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower that has not cut its log yet counts as one that has everything."""
    right = Follower.read

    def read(self: Any, each: Any, left: int, must_have_one: bool) -> Any:
        each.part.last_fetched_epoch = -1
        return right(self, each, left, must_have_one)

    patch.setattr(Follower, "read", read)


MUTANTS: dict[Mutant, set[str]] = {
    acknowledges_before_others_have_it: {"lost-write", "unseen", "stale-ack", "inconsistent-offset"},
    shows_what_others_do_not_have: {"lost-write", "unseen", "inconsistent-offset"},
    elects_whoever_is_alive: {"lost-write", "unseen", "stale-ack"},
    follows_without_cutting: {"convergence", "inconsistent-offset", "replica-divergence"},
    leads_when_told_to_follow: {"two-leaders"},
    is_controller_in_an_old_epoch: {"two-controllers"},
    does_not_sync: {"lost-write", "unseen", "stale-ack"},
    forgets_what_a_producer_sent: {"duplicate"},
    takes_followers_of_any_epoch: {"inconsistent-offset", "replica-divergence", "convergence"},
    lets_followers_join_too_early: {"lost-write", "unseen", "stale-ack"},
    lets_followers_go_without_asking: {"lost-write", "unseen", "stale-ack", "convergence"},
    counts_only_whom_the_controller_confirmed: {"lost-write", "unseen", "stale-ack"},
    counts_only_whom_it_asked_for: {"lost-write", "unseen", "stale-ack"},
    decides_when_deposed: {"two-controllers", "convergence"},
    obeys_orders_of_any_age: {"lost-write", "convergence", "inconsistent-offset", "two-leaders", "epoch-regress", "hw-regress"},
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_noticed(mutant, monkeypatch):
    mutant(monkeypatch)
    for seed in range(MOST_SEEDS):
        found = {finding.rule for finding in guarded_run(seed).findings}
        if found & MUTANTS[mutant]:
            return
    raise AssertionError(f"{mutant.__name__} went unnoticed for {MOST_SEEDS} seeds")

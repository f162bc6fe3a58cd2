"""Who becomes controller: the first, the next when that one goes, and never two in one epoch."""

from __future__ import annotations

import pytest

from milepost.cluster.controller_election import ControllerMoved, Elected, Term, elect, guarded, resign, unguarded
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Delete, Error, Result, SetData, WatchEvent
from milepost.cluster.zookeeper.session import Runner
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelSession, ModelZooKeeper


class Broker:
    """A broker that stands for election whenever it is told that the office is free."""

    def __init__(self, number: int, server: ModelZooKeeper, turns: Turns):
        self.number = number
        self.session = ModelSession(server, turns)
        self.outcomes: list[Elected] = []
        self.errors: list[Exception] = []
        self.runner = Runner(self.session, self.errors.append)
        self.session.start(self)
        turns.settle()

    @property
    def term(self) -> Term | None:
        return self.outcomes[-1].term if self.outcomes else None

    def stand(self) -> None:
        self.runner.run(elect(self.number, 1700000000000), self.elected)

    def elected(self, outcome: Elected) -> None:
        # The watch also tells of a victory, one's own among them: nothing new.
        if not self.outcomes or outcome != Elected(self.outcomes[-1].controller_id):
            self.outcomes.append(outcome)

    def on_connected(self) -> None:
        self.stand()

    def on_expired(self) -> None:
        self.runner.clear()
        self.outcomes.append(Elected(None))

    def on_watch(self, event: WatchEvent) -> None:
        assert event.path == "/controller"
        self.stand()


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def server() -> ModelZooKeeper:
    return ModelZooKeeper()


def test_first_broker_becomes_controller_in_epoch_1(server, turns):
    broker = Broker(1, server, turns)
    assert broker.outcomes == [Elected(1, Term(epoch=1, epoch_version=1))]
    assert server.nodes["/controller"].data == b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert server.nodes["/controller"].owner == broker.session.session_id
    assert server.nodes["/controller_epoch"].data == b"1"


def test_next_broker_finds_the_first_in_office(server, turns):
    Broker(1, server, turns)
    assert Broker(2, server, turns).outcomes == [Elected(1)]


def test_others_stand_when_the_controller_goes(server, turns):
    first, second, third = (Broker(number, server, turns) for number in (1, 2, 3))
    first.session.close()
    turns.settle()
    assert second.outcomes == [Elected(1), Elected(2, Term(2, 2))]
    # The third found the office taken by the second, and watches on.
    assert third.outcomes == [Elected(1), Elected(2)]
    second.session.close()
    turns.settle()
    assert third.outcomes[-1] == Elected(3, Term(3, 3))


def test_only_one_of_two_that_stand_at_once_wins(server, turns):
    brokers = [ModelSession(server, turns) for _ in range(5)]
    outcomes: list[Elected] = []
    for number, session in enumerate(brokers):
        session.session_id = number + 1
        Runner(session, pytest.fail).run(elect(number, 0), outcomes.append)
    turns.settle()
    assert len(outcomes) == 5
    assert [outcome.term for outcome in outcomes if outcome.term] == [Term(1, 1)]
    assert {outcome.controller_id for outcome in outcomes} == {0}


def test_answer_that_was_lost_is_found_out_to_be_a_victory(server, turns):
    session = ModelSession(server, turns)
    session.session_id = 1
    outcomes: list[Elected] = []
    steps = elect(1, 0)
    results: list[Result] | None = None
    try:
        while True:
            operations = next(steps) if results is None else steps.send(results)
            results = [server.carry_out(session, operation) for operation in operations]
            if "/controller" in server.nodes and not outcomes:
                results = [Result(Error.CONNECTION_LOSS)]
                outcomes.append(Elected(None))
    except StopIteration as finished:
        assert finished.value == Elected(1, Term(1, 1))
    assert outcomes, "no answer was lost"


def test_controller_whose_session_expired_is_deposed_and_its_writes_do_nothing(server, turns):
    first, second = Broker(1, server, turns), Broker(2, server, turns)
    term = first.term
    assert term is not None
    first.session.expire()
    turns.settle()
    assert second.term == Term(2, 2)
    assert first.outcomes[-1].controller_id == 2

    def write():
        answers = yield guarded(term, [Create("/brokers", b"")])
        return unguarded(answers)

    first.runner.run(write())
    turns.settle()
    assert [type(error) for error in first.errors] == [ControllerMoved]
    assert "/brokers" not in server.nodes


def test_controller_that_was_cut_off_finds_another_in_office_when_it_is_back(server, turns):
    first, second = Broker(1, server, turns), Broker(2, server, turns)
    first.session.cut_off()
    turns.advance(5.9)
    assert second.term is None
    turns.advance(0.2)
    assert second.term == Term(2, 2)
    first.session.reconnect()
    turns.settle()
    assert first.outcomes[-1] == Elected(2)


def test_short_cut_changes_nothing(server, turns):
    first, second = Broker(1, server, turns), Broker(2, server, turns)
    first.session.cut_off()
    turns.advance(3)
    first.session.reconnect()
    turns.advance(60)
    assert first.outcomes == [Elected(1, Term(1, 1))]
    assert second.outcomes == [Elected(1)]


def test_resigning_makes_a_new_election(server, turns):
    first, second = Broker(1, server, turns), Broker(2, server, turns)
    assert first.term is not None
    first.runner.run(resign(first.term))
    turns.settle()
    controllers = {broker.outcomes[-1].controller_id for broker in (first, second)}
    assert len(controllers) == 1
    assert server.nodes["/controller_epoch"].data == b"2"


def test_resigning_late_does_not_depose_the_successor(server, turns):
    first, second = Broker(1, server, turns), Broker(2, server, turns)
    term = first.term
    assert term is not None
    first.session.expire()
    turns.settle()
    first.runner.run(resign(term))
    turns.settle()
    assert znodes.controller_id(server.nodes["/controller"].data) == 2
    assert second.term == Term(2, 2)


def test_refused_write_is_told_apart_from_a_lost_office(server, turns):
    broker = Broker(1, server, turns)
    assert broker.term is not None
    found: list[Result] = []

    def write():
        answers = yield guarded(broker.term, [SetData("/none", b""), Delete("/controller_epoch", 77), Create("/a")])
        found.extend(unguarded(answers))

    broker.runner.run(write())
    turns.settle()
    assert [result.error for result in found] == [Error.NO_NODE, Error.BAD_VERSION, Error.OK]

"""What a real ZooKeeper refuses over an ACL is raised once, with the path and the error, and is not asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost.cluster.controller.partition_store import read_states, write_states
from milepost.cluster.controller_election import Elected, Term, elect, write_until_answered
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Delete, Error, Get, SetData
from milepost.cluster.zookeeper.session import Runner, Steps
from milepost.cluster.zookeeper.znodes import PartitionState
from milepost.errors import BrokerUnavailable
from milepost.topic_partition import TopicPartition
from tests import waiting

pytest.importorskip("kazoo", reason="the ZooKeeper client is not installed: pip install 'milepost[zookeeper]'")
from kazoo.client import KazooClient
from kazoo.exceptions import MarshallingError, NoAuthError
from kazoo.security import make_acl

from milepost.cluster.zookeeper.kazoo_session import KazooSession, error_of
from milepost.cluster.zookeeper.reader import ZooKeeperReader
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper
from milepost.net.event_loop import EventLoop

STATE = PartitionState(leader=1, leader_epoch=0, isr=(1,), controller_epoch=1)


class Owner:
    def __init__(self) -> None:
        self.is_connected = False

    def on_connected(self) -> None:
        self.is_connected = True

    def on_expired(self) -> None:
        pass

    def on_watch(self, event: object) -> None:
        pass


class Somebody:
    """A session without any rights but those of everybody."""

    def __init__(self, address: str):
        self.loop = EventLoop()
        self.session = KazooSession(address, self.loop, timeout=60.0)
        self.asked = 0
        self.owner = Owner()
        self.session.start(self.owner)
        self.until(lambda: self.owner.is_connected)

    def until(self, happened: Callable[[], bool]) -> None:
        waiting.until(lambda: happened() or self.loop.run_once(0.02), pause=0)

    def outcome(self, steps: Steps[Any]) -> Any:
        """What the steps return, or raise."""
        outcomes: list[Any] = []
        Runner(self.session, outcomes.append).run(self._counted(steps), outcomes.append)
        self.until(lambda: bool(outcomes))
        return outcomes[0]

    def _counted(self, steps: Steps[Any]) -> Steps[Any]:
        """The same steps; each list of operations they ask for is counted."""
        results = None
        while True:
            try:
                operations = next(steps) if results is None else steps.send(results)
            except StopIteration as finished:
                return finished.value
            self.asked += 1
            try:
                results = yield operations
            except RefusedByZooKeeper:
                steps.close()
                raise

    def close(self) -> None:
        self.session.close()
        self.loop.close()


@pytest.fixture
def somebody(zookeeper: str) -> Iterator[Somebody]:
    made = Somebody(zookeeper)
    yield made
    made.close()


@pytest.fixture
def guarded_node(zookeeper: str, somebody: Somebody) -> Iterator[Callable[..., None]]:
    """Makes a node at which the others may do only what is said."""
    client = KazooClient(zookeeper)
    client.start()

    def make(path: str, data: bytes = b"", **allowed: bool) -> None:
        client.ensure_path(path)
        client.set(path, data)
        client.set_acls(path, [make_acl("world", "anyone", **allowed), make_acl("ip", "10.1.2.3", all=True)])

    yield make
    client.stop()
    client.close()


TERM = Term(1, 0)


def term(client: Somebody) -> Term:
    def made() -> Steps[Term]:
        yield [Create(znodes.CONTROLLER_EPOCH, b"1")]
        return TERM

    return client.outcome(made())


def test_write_that_an_acl_denies_is_made_once_and_raised(somebody, guarded_node):
    key = term(somebody)
    guarded_node("/brokers/topics/t", b"old", read=True)
    asked = somebody.asked
    refused = somebody.outcome(write_until_answered(key, [SetData("/brokers/topics/t", b"new")]))
    assert type(refused) is RefusedByZooKeeper
    assert str(refused) == (
        "ZooKeeper refused SetData /brokers/topics/t: NO_AUTH (-102), "
        "its ACL must allow that to world:anyone (setAcl /brokers/topics/t)"
    )
    assert somebody.asked == asked + 1


@pytest.mark.parametrize(
    ("operation", "advice"),
    [
        (Get("/locked"), "Get /locked: NO_AUTH (-102), its ACL must allow that to world:anyone (setAcl /locked)"),
        (Create("/locked/a"), "Create /locked/a: NO_AUTH (-102), its ACL must allow that to world:anyone (setAcl /locked)"),
        (Delete("/locked/x"), "Delete /locked/x: NO_AUTH (-102), its ACL must allow that to world:anyone (setAcl /locked)"),
    ],
)
def test_refusal_names_the_node_whose_acl_it_is(somebody, guarded_node, operation, advice):
    guarded_node("/locked/x", all=True)
    guarded_node("/locked")

    def steps() -> Steps[None]:
        yield [operation]

    assert str(somebody.outcome(steps())) == f"ZooKeeper refused {advice}"


def test_partition_whose_state_cannot_be_written_does_not_keep_another_from_its_state(somebody, guarded_node, caplog):
    key = term(somebody)
    locked, free = TopicPartition("t", 0), TopicPartition("t", 1)
    guarded_node(znodes.state_path("t", 0), znodes.state(STATE), read=True)
    guarded_node(znodes.state_path("t", 1), znodes.state(STATE), all=True)
    states = somebody.outcome(read_states([locked, free]))
    asked = somebody.asked
    wanted = {name: state._replace(leader_epoch=1) for name, state in states.items()}
    written = somebody.outcome(write_states(key, wanted))
    assert (list(written.done), written.conflicts, list(written.refused)) == ([free], [], [locked])
    assert somebody.asked == asked + 1
    (line,) = [record.getMessage() for record in caplog.records if "left as it is" in record.getMessage()]
    assert "SetData /brokers/topics/t/partitions/0/state: NO_AUTH (-102)" in line


def test_election_ends_where_the_epoch_cannot_be_read(somebody, guarded_node):
    """Its node is there and cannot be made: nothing is gained by trying that again."""
    guarded_node(znodes.CONTROLLER_EPOCH, b"7", write=True)
    refused = somebody.outcome(elect(1, 0))
    assert type(refused) is RefusedByZooKeeper
    assert "Get /controller_epoch: NO_AUTH (-102)" in str(refused)


def test_election_goes_on_as_ever_where_nothing_is_denied(somebody):
    assert somebody.outcome(elect(1, 0)) == Elected(1, Term(1, 1))


def test_command_that_may_not_read_a_node_says_so(zookeeper, somebody, guarded_node):
    guarded_node("/secret")
    with ZooKeeperReader(zookeeper) as reader, pytest.raises(RefusedByZooKeeper) as refused:
        reader.get("/secret")
    assert not isinstance(refused.value, BrokerUnavailable)
    assert "does not show /secret: NO_AUTH (-102)" in str(refused.value)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (NoAuthError(), Error.NO_AUTH),
        (MarshallingError(), Error.MARSHALLING_ERROR),
        (ValueError("an answer that kazoo cannot read"), Error.SYSTEM_ERROR),
    ],
)
def test_error_without_a_meaning_here_is_not_taken_for_a_lost_connection(failure, expected):
    assert error_of(failure) is expected

"""A session with a real ZooKeeper server answers as the model does, and lives through what happens to connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from milepost.cluster.controller_election import Elected, Term, elect
from milepost.cluster.zookeeper.operations import (
    Check,
    Children,
    Create,
    Delete,
    Error,
    EventType,
    Exists,
    Get,
    Multi,
    Operation,
    Result,
    SetData,
    Sync,
    WatchEvent,
)
from milepost.cluster.zookeeper.session import Runner, retried
from milepost.net.event_loop import EventLoop
from tests import waiting
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelSession, ModelZooKeeper
from tests.waiting import PATIENCE

pytest.importorskip("kazoo", reason="the ZooKeeper client is not installed: pip install 'milepost[zookeeper]'")
from milepost.cluster.zookeeper.kazoo_session import KazooSession


class Owner:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_connected(self) -> None:
        self.told.append("connected")

    def on_expired(self) -> None:
        self.told.append("expired")

    def on_watch(self, event: WatchEvent) -> None:
        self.told.append(event)


class Client:
    """A session and the loop that drives it."""

    def __init__(self, address: str, loop: EventLoop):
        self.loop = loop
        self.owner = Owner()
        # No session ends because the machine is busy.
        self.session = KazooSession(address, loop, timeout=60.0)

    def start(self) -> None:
        self.session.start(self.owner)
        self.until(lambda: "connected" in self.owner.told)

    def until(self, happened: Callable[[], bool]) -> None:
        waiting.until(lambda: happened() or self.loop.run_once(0.02), pause=0)

    def ask(self, *operations: Operation) -> Sequence[Result]:
        answers: list[Sequence[Result]] = []
        self.session.submit(operations, answers.append)
        self.until(lambda: bool(answers))
        return answers[0]


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    yield made
    made.close()


@pytest.fixture
def connect(zookeeper: str, loop: EventLoop) -> Iterator[Callable[[], Client]]:
    made: list[Client] = []

    def connect() -> Client:
        made.append(Client(zookeeper, loop))
        made[-1].start()
        return made[-1]

    yield connect
    for client in made:
        client.session.close()


CONVERSATION: list[list[Operation]] = [
    [Get("/a"), Exists("/a"), Children("/a"), SetData("/a", b"x"), Delete("/a"), Create("/a/b", b"")],
    [Create("/a", b"one"), Create("/a", b"two"), Get("/a"), Exists("/a")],
    [SetData("/a", b"two", 0), SetData("/a", b"three", 0), SetData("/a", b"three"), Get("/a")],
    [Create("/a/b", b""), Create("/a/c", b"", ephemeral=True), Children("/a"), Delete("/a")],
    [Create("/a/s_", b"", sequence=True), Create("/a/s_", b"", sequence=True)],
    [Multi((Check("/a", 2), Create("/a/d", b"d"), SetData("/a", b"four", 2))), Get("/a"), Get("/a/d")],
    [Multi((Check("/a", 2), Create("/a/e", b"e"))), Exists("/a/e")],
    [Multi((Create("/a/f", b""), Create("/a/d", b""), Delete("/a/b"))), Exists("/a/f"), Exists("/a/b")],
    [Multi((Create("/a/g", b""), Create("/a/g/h", b""), Delete("/a/b")))],
    [Delete("/a/d", 7), Delete("/a/d", 0), Get("/a/d"), Check("/a", 3), Check("/a", 1)],
    [Sync("/a"), Sync("/nothing"), Get("/a")],
    [Children("/a"), Create("/ü", "ü".encode()), Get("/ü"), Get("/")],
]


def plain(result: Result) -> Result:
    """Without what a server numbers as it likes; a create in a multi tells only its path."""
    stat = result.stat._replace(czxid=0, created_ms=0, ephemeral_owner=bool(result.stat.ephemeral_owner)) if result.stat else None
    return result._replace(stat=stat, results=tuple(Result(part.error, path=part.path) for part in result.results))


def test_server_and_model_give_the_same_answers(connect):
    client, turns = connect(), Turns()
    model = ModelSession(ModelZooKeeper(), turns)
    model.session_id = 1
    for operations in CONVERSATION:
        expected: list[Sequence[Result]] = []
        model.submit(operations, expected.append)
        turns.settle()
        answers = client.ask(*operations)
        assert [plain(answer) for answer in answers] == [plain(answer) for answer in expected[0]], operations


def test_node_without_data_has_none_at_all(connect):
    """Kafka takes zero bytes for content that it cannot read: it would not start beside such a /latest_producer_id_block."""
    client = connect()
    client.ask(Create("/alone"), Multi((Create("/together"), Create("/filled", b"x"))))
    raw = client.session._client
    assert [raw.get(path)[0] for path in ("/alone", "/together", "/filled")] == [None, None, b"x"]
    assert client.ask(Get("/alone"))[0].data == b""


def test_node_says_when_it_was_made(connect):
    client = connect()
    before = int(time.time() * 1000)
    client.ask(Create("/dated"))
    assert before <= client.ask(Get("/dated"))[0].stat.created_ms <= int(time.time() * 1000)


def test_chroot_is_made_though_the_connection_is_lost_meanwhile(connect, monkeypatch):
    from kazoo.client import KazooClient
    from kazoo.exceptions import ConnectionLoss

    right, tries = KazooClient.ensure_path, []

    def ensure_path(client: KazooClient, path: str) -> Any:
        tries.append(path)
        if len(tries) < 3:
            raise ConnectionLoss
        return right(client, path)

    monkeypatch.setattr(KazooClient, "ensure_path", ensure_path)
    client = connect()
    assert client.owner.told == ["connected"] and len(tries) == 3
    assert client.ask(Exists("/"))[0].ok


def test_write_that_is_retried_is_made_though_the_connection_is_lost(connect):
    from kazoo.protocol.connection import _CONNECTION_DROP

    client = connect()
    client.ask(Create("/notes"))
    answers: list[Any] = []
    Runner(client.session, answers.append).run(retried([Create("/notes/n_", sequence=True)]), answers.append)
    client.session._client._call(_CONNECTION_DROP, client.session._client.handler.async_result())
    client.until(lambda: bool(answers))
    assert [each.error for each in answers[0]] == [Error.OK]
    assert client.ask(Children("/notes"))[0].children


def test_no_operations_are_answered_too(connect):
    assert connect().ask() == []


def test_watches_that_lapsed_with_the_connection_are_told_when_it_is_back(connect):
    from kazoo.protocol.connection import _CONNECTION_DROP

    client, other = connect(), connect()
    client.ask(Create("/a"), Get("/a", watch=True), Get("/a", watch=True), Children("/a", watch=True), Exists("/b", watch=True))
    client.session._client._call(_CONNECTION_DROP, client.session._client.handler.async_result())
    client.until(lambda: len(client.owner.told) >= 4)
    assert sorted(client.owner.told[1:], key=str) == [
        WatchEvent(EventType.CHANGED, "/a"),
        WatchEvent(EventType.CHANGED, "/b"),
        WatchEvent(EventType.CHILDREN, "/a"),
    ]
    client.owner.told.clear()
    client.ask(Get("/a", watch=True))
    other.ask(SetData("/a", b"new"))
    client.until(lambda: bool(client.owner.told))
    assert client.owner.told == [WatchEvent(EventType.CHANGED, "/a")]


def test_watches_tell_once_what_changed(connect):
    first, second = connect(), connect()
    first.ask(Create("/a"), Exists("/b", watch=True), Get("/a", watch=True), Children("/a", watch=True))
    second.ask(Create("/b"), SetData("/a", b"x"), SetData("/a", b"y"), Create("/a/c"), Create("/a/d"), Delete("/b"))
    first.until(lambda: len(first.owner.told) >= 4)
    first.ask(Get("/a"))
    assert sorted(first.owner.told[1:], key=str) == [
        WatchEvent(EventType.CHANGED, "/a"),
        WatchEvent(EventType.CHILDREN, "/a"),
        WatchEvent(EventType.CREATED, "/b"),
    ]


def test_ephemeral_nodes_go_with_their_session(connect):
    first, second = connect(), connect()
    first.ask(Create("/here", b"", ephemeral=True))
    second.ask(Exists("/here", watch=True))
    first.session.close()
    second.until(lambda: WatchEvent(EventType.DELETED, "/here") in second.owner.told)


def expire(client: Client, address: str) -> None:
    """End a session behind its back: a second connection takes it over and closes it."""
    from kazoo.client import KazooClient

    other = KazooClient(address.partition("/")[0], timeout=60.0, client_id=client.session._client.client_id)
    try:
        other.start(PATIENCE)
    finally:
        other.stop()
        other.close()


def test_expired_session_is_told_and_a_new_one_follows(connect, zookeeper):
    client = connect()
    client.ask(Create("/mine", b"", ephemeral=True))
    expire(client, zookeeper)
    client.until(lambda: client.owner.told[-2:] == ["expired", "connected"])
    assert [result.error for result in client.ask(Exists("/mine"), Create("/mine", b"", ephemeral=True))] == [
        Error.NO_NODE,
        Error.OK,
    ]


def test_what_was_asked_in_an_expired_session_did_not_happen(connect, zookeeper, loop):
    client = connect()
    answers: list[Sequence[Result]] = []
    expire(client, zookeeper)

    def ask_on(results: Sequence[Result] = ()) -> None:
        if not any(result.error is Error.SESSION_EXPIRED for result in results):
            client.session.submit([Exists("/")], lambda found: (answers.append(found), ask_on(found)))

    ask_on()
    client.until(lambda: bool(answers) and answers[-1][0].error is Error.SESSION_EXPIRED)


def test_election_between_two_real_sessions(connect):
    first, second = connect(), connect()
    outcomes: list[Elected] = []
    Runner(first.session, pytest.fail).run(elect(1, 0), outcomes.append)
    first.until(lambda: len(outcomes) == 1)
    Runner(second.session, pytest.fail).run(elect(2, 0), outcomes.append)
    first.until(lambda: len(outcomes) == 2)
    assert outcomes == [Elected(1, Term(1, 1)), Elected(1)]
    first.session.close()
    second.until(lambda: WatchEvent(EventType.DELETED, "/controller") in second.owner.told)
    Runner(second.session, pytest.fail).run(elect(2, 0), outcomes.append)
    second.until(lambda: len(outcomes) == 3)
    assert outcomes[-1] == Elected(2, Term(2, 2))

"""ZooKeeper over a simulated network: a server that can stop, and sessions that lose connections, answers, watches and their lives.

As over kazoo, operations go out in order and are answered in order. When the connection breaks, writes that were on their way end with
CONNECTION_LOSS (they may have happened), reads are asked again, watches lapse and are told as if they had fired once the connection is
back. The server ends a session that it has not heard from for its timeout; the client learns that when it is back, and begins another.

Heartbeats are on a thread of their own: a slow broker keeps its session, one that is paused does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from milepost.cluster.zookeeper.operations import Children, Error, EventType, Exists, Get, Operation, Result, WatchEvent
from milepost.cluster.zookeeper.session import SessionOwner
from tests.simulation.network import Network, Pipe
from tests.simulation.process import Process
from tests.simulation.zookeeper import ModelZooKeeper

NAME = "zookeeper"
RECONNECT_SECONDS = 0.2


class SimulatedZooKeeper:
    def __init__(self, network: Network):
        self.network = network
        self.world = network.world
        self.model = ModelZooKeeper(network.world.now_ms)
        self.is_stopped = False
        self.sessions: list[ServerSession] = []
        self._stalled: list[Callable[[], object]] = []

    def open(self, client: SimulatedSession) -> ServerSession:
        number, self.model.next_session = self.model.next_session, self.model.next_session + 1
        session = ServerSession(number, client, self.world.now)
        self.sessions.append(session)
        self._expire_when_due(session)
        return session

    def _expire_when_due(self, session: ServerSession) -> None:
        due = session.last_heard + session.client.timeout
        if session.is_ended:
            return
        if not self.is_stopped and self.world.now >= due:
            self.end(session)
        else:
            self.world.at(max(due, self.world.now + 0.1), lambda: self._expire_when_due(session))

    def end(self, session: ServerSession) -> None:
        if not session.is_ended:
            self.world.note(f"zookeeper: session {session.session_id} of {session.client.process.name} ends")
            session.is_ended = True
            self.sessions.remove(session)
            self.model.end_session(session)

    def stop(self, *, sleeps: bool) -> None:
        """A server that dies breaks its connections; one that sleeps lets them wait."""
        self.is_stopped = True
        for session in self.sessions if not sleeps else ():
            session.client.process.post(session.client.drop_connection)

    def start(self, *, sleeps: bool) -> None:
        """A server that starts anew gives everybody their time; one that slept finds that nobody has been heard of."""
        self.is_stopped = False
        for session in list(self.sessions):
            if sleeps and self.world.now - session.last_heard >= session.client.timeout:
                self.end(session)
            else:
                session.last_heard = self.world.now
        stalled, self._stalled = self._stalled, []
        for task in stalled:
            task()

    def when_awake(self, task: Callable[[], object]) -> None:
        if self.is_stopped:
            self._stalled.append(task)
        else:
            task()


@dataclass(eq=False)
class ServerSession:
    """A session as the server knows it."""

    session_id: int
    client: SimulatedSession
    last_heard: float
    is_ended: bool = False

    def deliver(self, event: WatchEvent) -> None:
        self.client.told(self, event)


@dataclass(eq=False)
class Batch:
    """Operations asked together, in the parts in which they go out."""

    operations: Sequence[Operation]
    done: Callable[[Sequence[Result]], None]
    results: list[Result] = field(default_factory=list)


class SimulatedSession:
    def __init__(self, server: SimulatedZooKeeper, process: Process, timeout: float):
        self.server = server
        self.process = process
        self.timeout = timeout
        self.session_id = 0
        self.is_connected = False
        self._owner: SessionOwner | None = None
        self._session: ServerSession | None = None
        self._last_contact = 0.0
        self._open: list[Batch] = []
        """Asked and not answered, in order; those behind `_sent` wait for a connection."""
        self._sent = 0
        self._watching: dict[WatchEvent, None] = {}
        """What the client waits to be told of; the server may have told it, on a connection that broke."""
        self._lapsed: list[WatchEvent] = []
        self._requests, self._answers = self._pipes()
        self.on_sent: Callable[[Sequence[Operation]], object] = lambda operations: None
        """Told what goes out."""

    def _pipes(self) -> tuple[Pipe, Pipe]:
        network, name = self.server.network, self.process.name
        return Pipe(network, name, NAME), Pipe(network, NAME, name)

    # The connection.

    def start(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._connect()
        self._beat()

    @property
    def _is_reachable(self) -> bool:
        network, name = self.server.network, self.process.name
        return not (self.server.is_stopped or network.is_cut(name, NAME) or network.is_cut(NAME, name))

    def _beat(self) -> None:
        """Heartbeats, a third of the timeout apart; and the client's own patience with a silent server."""
        if self._owner is None or not self.process.is_alive:
            return
        world = self.server.world
        if not self.process.is_paused and self.is_connected and self._session is not None:
            if self._is_reachable and not self._session.is_ended:
                self._session.last_heard = self._last_contact = world.now
            elif self._session.is_ended or world.now - self._last_contact >= self.timeout * 2 / 3:
                self.drop_connection()
        world.after(self.timeout / 3, self._beat)

    def _connect(self) -> None:
        if self._owner is None or not self.process.is_alive or self.is_connected:
            return
        if self._is_reachable and not self.process.is_paused:
            self.process.later(self.server.network.delay(), self._connected)
        else:
            self.server.world.after(RECONNECT_SECONDS, self._connect)

    def _connected(self) -> None:
        if self._owner is None or self.is_connected:
            return
        if not self._is_reachable:
            self._connect()
            return
        if self._session is not None and self._session.is_ended:
            self._expired()
        self.is_connected = True
        self._last_contact = self.server.world.now
        if self._session is None:
            self._session = self.server.open(self)
            self.session_id = self._session.session_id
            self._owner.on_connected()
        else:
            self._session.last_heard = self.server.world.now
            lapsed, self._lapsed = self._lapsed, []
            for event in lapsed:
                self._owner.on_watch(event)
        self._send_waiting()

    def _expired(self) -> None:
        assert self._owner is not None
        self._session, self.session_id = None, 0
        self._lapsed.clear()
        self._watching.clear()
        ended, self._open, self._sent = self._open, [], 0
        self._owner.on_expired()
        for batch in ended:
            batch.done([Result(Error.SESSION_EXPIRED)] * len(batch.operations))

    def drop_connection(self) -> None:
        """It breaks: nobody knows what became of what was on its way."""
        if not self.is_connected or self._session is None:
            return
        self.is_connected = False
        self._requests.is_closed = self._answers.is_closed = True
        self._requests, self._answers = self._pipes()
        self.server.model.forget_watches(self._session)
        self._lapsed += self._watching
        self._watching.clear()
        uncertain, self._open = self._open[: self._sent], self._open[self._sent :]
        self._sent = 0
        again = []
        for batch in uncertain:
            if all(isinstance(each, (Get, Exists, Children)) for each in batch.operations):
                again.append(Batch(batch.operations, batch.done))
            else:
                results = [Result(Error.CONNECTION_LOSS)] * len(batch.operations)
                self.process.post(lambda batch=batch, results=results: batch.done(results))  # type: ignore[misc]
        self._open = again + self._open
        self.server.world.after(RECONNECT_SECONDS, self._connect)

    def close(self) -> None:
        self._owner = None
        if self._session is not None and self.is_connected:
            self.server.end(self._session)

    # Operations.

    def submit(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]) -> None:
        self._open.append(Batch(operations, done))
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self.is_connected and self._sent < len(self._open):
            batch = self._open[self._sent]
            self._sent += 1
            self._send(batch)

    def _send(self, batch: Batch) -> None:
        """In one piece or in two: other clients' operations may come between."""
        size = len(batch.operations)
        random = self.server.world.random
        middle = random.randrange(size) if size > 1 and random.random() < 0.3 else 0
        session, requests = self._session, self._requests
        assert session is not None, "there is a connection"
        self.on_sent(batch.operations)

        def arrived(part: Sequence[Operation]) -> None:
            self.server.when_awake(lambda: self._carry_out(session, batch, part, requests))

        for part in (batch.operations[:middle], batch.operations[middle:]):
            if part or not size:
                requests.carry(lambda part=part: arrived(part))  # type: ignore[misc]

    def _carry_out(self, session: ServerSession, batch: Batch, part: Sequence[Operation], requests: Pipe) -> None:
        server = self.server
        if session.is_ended:
            self.process.post(self.drop_connection)
            return
        session.last_heard = server.world.now
        batch.results += [server.model.carry_out(session, operation) for operation in part]
        if len(batch.results) == len(batch.operations) and requests is self._requests:
            self._answers.carry(lambda: self.process.run(lambda: self._answered(batch, requests)))

    def _answered(self, batch: Batch, requests: Pipe) -> None:
        if requests is self._requests and self._open and self._open[0] is batch:
            del self._open[0]
            self._sent -= 1
            self._last_contact = self.server.world.now
            for operation, result in zip(batch.operations, batch.results, strict=True):
                self._note_watch(operation, result)
            batch.done(batch.results)

    def _note_watch(self, operation: Operation, result: Result) -> None:
        is_set = isinstance(operation, Exists) or result.ok
        if isinstance(operation, (Get, Exists, Children)) and operation.watch and is_set:
            kind = EventType.CHILDREN if isinstance(operation, Children) else EventType.CHANGED
            self._watching[WatchEvent(kind, operation.path)] = None

    def told(self, session: ServerSession, event: WatchEvent) -> None:
        def tell() -> None:
            if self._owner is not None and self._session is session:
                if event.type is not EventType.CHILDREN:
                    self._watching.pop(WatchEvent(EventType.CHANGED, event.path), None)
                if event.type in (EventType.CHILDREN, EventType.DELETED):
                    self._watching.pop(WatchEvent(EventType.CHILDREN, event.path), None)
                self._owner.on_watch(event)

        if session is self._session and self.is_connected:
            self._answers.carry(lambda: self.process.run(tell))

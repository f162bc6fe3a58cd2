"""A model of ZooKeeper: one ordered history of writes, sessions with ephemeral nodes, watches that fire once.

`ModelZooKeeper` is the server's state; `ModelSession` a client's session over it. Everything happens when a scheduler says so (`post` for
what is delivered next, `later` for time), so a run is decided by who schedules. A session can be cut off (nothing goes through, then it
expires after its timeout), expired at once, or lose the answer to its next request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from milepost.cluster.zookeeper.operations import (
    ANY_VERSION,
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
    Stat,
    Sync,
    WatchEvent,
)
from milepost.cluster.zookeeper.session import SessionOwner


class Client(Protocol):
    """A session, as the server sees it."""

    session_id: int

    def deliver(self, event: WatchEvent) -> None: ...


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    def post(self, task: Callable[[], object]) -> None: ...
    def later(self, seconds: float, task: Callable[[], object]) -> Cancellable: ...


@dataclass(slots=True)
class Node:
    data: bytes
    czxid: int
    version: int = 0
    owner: int = 0
    next_sequence: int = 0
    created_ms: int = 0

    @property
    def stat(self) -> Stat:
        return Stat(self.version, self.czxid, self.owner, self.created_ms)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class ModelZooKeeper:
    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", 0)}
        self.children: dict[str, set[str]] = {"/": set()}
        self.now_ms = now_ms
        self.acls: dict[str, str] = {}
        """What may be done at a path, of "read", "write", "create" and "delete"; everything where nothing is said."""
        self.zxid = 0
        self.next_session = 1
        self.writes: list[tuple[int, Operation]] = []
        """Every write that took effect, with the session that asked."""
        self.on_write: Callable[[SetData | Create | Delete | Check | Multi], object] = lambda operation: None
        """Told of each, one or several in a multi, when it has taken effect."""
        self._watches: dict[tuple[str, str], set[Client]] = {}

    # Carrying out.

    def carry_out(self, session: Client, operation: Operation) -> Result:
        if isinstance(operation, (Get, Exists, Children)):
            return self._read(session, operation)
        if isinstance(operation, Sync):
            return Result()
        self.zxid += 1
        result = self._multi(session, operation) if isinstance(operation, Multi) else self._write(session, operation)
        if result.ok:
            self.on_write(operation)
        return result

    def _write(self, session: Client, operation: Create | SetData | Delete | Check) -> Result:
        error = self._refusal(operation, {})
        return Result(error) if error is not Error.OK else self._apply(session, operation)

    def _read(self, session: Client, operation: Get | Exists | Children) -> Result:
        node = self.nodes.get(operation.path)
        if operation.watch:
            kind = "children" if isinstance(operation, Children) else "data"
            if node is not None or isinstance(operation, Exists):
                self._watches.setdefault((kind, operation.path), set()).add(session)
        if node is None:
            return Result(Error.NO_NODE)
        if not isinstance(operation, Exists) and not self._allows(operation.path, "read"):
            return Result(Error.NO_AUTH)
        if isinstance(operation, Children):
            return Result(stat=node.stat, children=tuple(sorted(self.children[operation.path])))
        return Result(data=node.data if isinstance(operation, Get) else b"", stat=node.stat)

    def _multi(self, session: Client, multi: Multi) -> Result:
        made: dict[str, bool] = {}
        for position, operation in enumerate(multi.operations):
            error = self._refusal(operation, made)
            if error is not Error.OK:
                results = [Result(Error.RUNTIME_INCONSISTENCY)] * position + [Result(error)]
                results += [Result(Error.RUNTIME_INCONSISTENCY)] * (len(multi.operations) - position - 1)
                return Result(error, results=tuple(results))
            if isinstance(operation, (Create, Delete)):
                made[operation.path] = isinstance(operation, Create)
        return Result(results=tuple(self._apply(session, operation) for operation in multi.operations))

    def _refusal(self, operation: Create | SetData | Delete | Check, made: dict[str, bool]) -> Error:
        """Why an operation cannot be, `made` being what earlier ones of the same multi make and delete."""
        path = operation.path
        is_there = made.get(path, path in self.nodes)
        if isinstance(operation, Create):
            parent = parent_of(path)
            if not made.get(parent, parent in self.nodes):
                return Error.NO_NODE
            if not self._allows(parent, "create"):
                return Error.NO_AUTH
            return Error.NODE_EXISTS if is_there and not operation.sequence else Error.OK
        if not is_there:
            return Error.NO_NODE
        if not self._may(operation):
            return Error.NO_AUTH
        version = 0 if path in made else self.nodes[path].version
        if operation.version not in (ANY_VERSION, version):
            return Error.BAD_VERSION
        if isinstance(operation, Delete) and self.children.get(path):
            return Error.NOT_EMPTY
        return Error.OK

    def _allows(self, path: str, what: str) -> bool:
        return what in self.acls.get(path, what)

    def _may(self, operation: SetData | Delete | Check) -> bool:
        if isinstance(operation, Delete):
            return self._allows(parent_of(operation.path), "delete")
        return self._allows(operation.path, "write" if isinstance(operation, SetData) else "read")

    def _apply(self, session: Client, operation: Create | SetData | Delete | Check) -> Result:
        self.writes.append((session.session_id, operation))
        if isinstance(operation, Create):
            return self._create(session, operation)
        if isinstance(operation, SetData):
            node = self.nodes[operation.path]
            node.data, node.version = operation.data, node.version + 1
            self._fire("data", operation.path, EventType.CHANGED)
            return Result(stat=node.stat)
        if isinstance(operation, Delete):
            self._delete(operation.path)
        return Result()

    def _create(self, session: Client, operation: Create) -> Result:
        path, parent = operation.path, parent_of(operation.path)
        if operation.sequence:
            path += f"{self.nodes[parent].next_sequence:010d}"
        self.nodes[parent].next_sequence += 1
        owner = session.session_id if operation.ephemeral else 0
        node = self.nodes[path] = Node(operation.data, self.zxid, owner=owner, created_ms=self.now_ms())
        self.children[path] = set()
        self.children[parent].add(path.rpartition("/")[2])
        self._fire("data", path, EventType.CREATED)
        self._fire("children", parent, EventType.CHILDREN)
        return Result(stat=node.stat, path=path)

    def _delete(self, path: str) -> None:
        del self.nodes[path], self.children[path]
        self.children[parent_of(path)].discard(path.rpartition("/")[2])
        self._fire("data", path, EventType.DELETED)
        self._fire("children", path, EventType.DELETED)
        self._fire("children", parent_of(path), EventType.CHILDREN)

    def _fire(self, kind: str, path: str, event: EventType) -> None:
        for session in sorted(self._watches.pop((kind, path), ()), key=lambda each: each.session_id):
            session.deliver(WatchEvent(event, path))

    def forget_watches(self, session: Client) -> None:
        """The connection is gone, and with it what it watched."""
        for watchers in self._watches.values():
            watchers.discard(session)

    def end_session(self, session: Client) -> None:
        """Its ephemeral nodes go, in the order of their names, and nobody tells it of anything any more."""
        self.forget_watches(session)
        self.zxid += 1
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session.session_id):
            self._delete(path)


@dataclass(slots=True, eq=False)
class ModelSession:
    """One client. `delay` gives the seconds a message takes; 0 means with the next turn."""

    server: ModelZooKeeper
    scheduler: Scheduler
    timeout: float = 6.0
    delay: Callable[[], float] = lambda: 0.0
    session_id: int = 0
    is_cut_off: bool = False
    is_ended: bool = False
    loses_next_answer: bool = False
    _owner: SessionOwner | None = None
    _waiting: list[tuple[Sequence[Operation], Callable[[Sequence[Result]], None], int]] = field(default_factory=list)
    _expiry: Cancellable | None = None

    def start(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._open()

    def _open(self) -> None:
        self.session_id, self.server.next_session = self.server.next_session, self.server.next_session + 1
        session_id = self.session_id
        self._soon(lambda: self._owner.on_connected() if self._owner and self.session_id == session_id else None)

    def _soon(self, task: Callable[[], object]) -> None:
        seconds = self.delay()
        if seconds:
            self.scheduler.later(seconds, task)
        else:
            self.scheduler.post(task)

    def submit(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]) -> None:
        asked = (operations, done, self.session_id)
        if self.is_cut_off:
            self._waiting.append(asked)
        else:
            self._soon(lambda: self._carry_out(*asked))

    def _carry_out(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None], session_id: int) -> None:
        if session_id != self.session_id:
            done([Result(Error.SESSION_EXPIRED)] * len(operations))
        elif self.is_cut_off:
            self._waiting.append((operations, done, session_id))
        else:
            results: Sequence[Result] = [self.server.carry_out(self, operation) for operation in operations]
            if self.loses_next_answer:
                self.loses_next_answer = False
                results = [Result(Error.CONNECTION_LOSS)] * len(operations)
            self._soon(lambda: done(results))

    def deliver(self, event: WatchEvent) -> None:
        session_id = self.session_id
        self._soon(lambda: self._owner.on_watch(event) if self._owner and self.session_id == session_id else None)

    # Faults.

    def cut_off(self) -> None:
        """From now on nothing goes through. After the timeout the server ends the session; the client notices when it is back."""
        if not self.is_cut_off:
            self.is_cut_off = True
            self._expiry = self.scheduler.later(self.timeout, self._end_at_server)

    def _end_at_server(self) -> None:
        self.is_ended = True
        self.server.end_session(self)

    def reconnect(self) -> None:
        if not self.is_cut_off:
            return
        self.is_cut_off = False
        assert self._expiry is not None
        self._expiry.cancel()
        waiting, self._waiting = self._waiting, []
        if self.is_ended:
            self._renew()
        for asked in waiting:
            self._soon(lambda asked=asked: self._carry_out(*asked))  # type: ignore[misc]

    def expire(self) -> None:
        """The server ends the session now, and the client is told."""
        self._end_at_server()
        self.is_cut_off = True
        self._expiry = self.scheduler.later(0, lambda: None)
        self.reconnect()

    def _renew(self) -> None:
        """What was asked in the old session is answered with SESSION_EXPIRED; the owner hears of that before the new one is there."""
        self.is_ended = False
        assert self._owner is not None
        self._soon(self._owner.on_expired)
        self._open()

    def close(self) -> None:
        self.server.end_session(self)
        self.session_id, self._owner = -1, None

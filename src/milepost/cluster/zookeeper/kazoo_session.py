"""A session with a real ZooKeeper, through kazoo.

kazoo keeps the connection and its heartbeats on threads of its own, so a broker whose loop is busy does not lose its session. What it
answers is handed over to the loop (`post`): the logic never runs on a thread of kazoo's.

    connection lost     reads are asked again; writes end with CONNECTION_LOSS, because they may have happened
    session expired     the owner is notified first; everything asked in that session ends with SESSION_EXPIRED, also what was queued for
                        the connection that has just come back
    watches             a server forgets them with the connection, and kazoo does not set them again: when the connection is back, the
                        owner is notified of each as if it had fired. It reads again then, and sees what it missed
    no data             a node without data has none at all (null), not zero bytes: Kafka reads what is there
    chroot              `HOST:PORT,HOST:PORT/path`: made if it is missing, and unseen by the logic
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError, ZookeeperError
from kazoo.retry import KazooRetry

from milepost.cluster.zookeeper.kazoo_handler import PromiseHandler
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
    Stat,
    Sync,
    WatchEvent,
)
from milepost.cluster.zookeeper.session import SessionOwner
from milepost.loop import Poster

logger = logging.getLogger("milepost.cluster")

NUMBERS = frozenset(Error)
_EVENTS = {
    "CREATED": EventType.CREATED,
    "DELETED": EventType.DELETED,
    "CHANGED": EventType.CHANGED,
    "CHILD": EventType.CHILDREN,
}


def _retry_for_ever() -> KazooRetry:
    """For ever, and soon: a broker without ZooKeeper has nothing better to do."""
    return KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=1.0, max_jitter=0.2)


class KazooSession:
    def __init__(self, hosts: str, loop: Poster, *, timeout: float = 18.0):
        self.hosts, _, chroot = hosts.partition("/")
        self.chroot = f"/{chroot.strip('/')}" if chroot.strip("/") else ""
        self.loop = loop
        self.timeout = timeout
        self.session_id = 0
        self._owner: SessionOwner | None = None
        self._generation = 0
        self._is_lost = True
        self._is_suspended = False
        # One callable for each watch, because kazoo calls the same one only once; and those to call after a reconnect.
        self._watches: dict[WatchEvent, Callable[[Any], None]] = {}
        self._lapsed: dict[WatchEvent, None] = {}
        self._client = KazooClient(
            self.hosts + self.chroot,
            timeout=timeout,
            handler=PromiseHandler(),
            connection_retry=_retry_for_ever(),
            logger=logging.getLogger("milepost.cluster.kazoo"),
        )

    def start(self, owner: SessionOwner) -> None:
        self._owner = owner
        self._client.add_listener(self._on_state)
        self._client.start_async()

    def close(self) -> None:
        self._owner = None
        self._generation += 1
        self._client.stop()
        self._client.close()

    # The state of the connection; called on kazoo's threads.

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.loop.post(self._connected)
        elif state == KazooState.SUSPENDED:
            self.loop.post(self._suspended)
        else:
            self.loop.post(self._lost)

    def _suspended(self) -> None:
        self._is_suspended = True

    def _connected(self) -> None:
        self._is_suspended = False
        if self._owner is None:
            return
        if not self._is_lost:
            lapsed, self._lapsed = self._lapsed, {}
            for event in lapsed:
                self._tell(self._generation, event)
            return
        self._is_lost = False
        self.session_id = self._client.client_id[0] if self._client.client_id else 0
        if self.chroot:
            self._make_chroot(self._generation)
        else:
            self._owner.on_connected()

    def _make_chroot(self, generation: int) -> None:
        def make() -> None:
            self._ensure_root()
            self.loop.post(lambda: self._has_root(generation))

        self._client.handler.spawn(make)

    def _ensure_root(self) -> None:
        """By a client that is not below it. Tried until it is there, or not wanted any more."""
        with_root = KazooClient(self.hosts, timeout=self.timeout, connection_retry=_retry_for_ever())
        try:
            connected = with_root.start_async()
            while self._owner is not None:
                try:
                    if connected.wait(1.0):
                        with_root.ensure_path(self.chroot)
                        return
                except (ConnectionLoss, SessionExpiredError) as error:
                    logger.info("the chroot %s is not made yet: %r", self.chroot, error)
        except KazooException as error:
            logger.warning("the chroot %s cannot be made: %s", self.chroot, error)
        finally:
            with_root.stop()
            with_root.close()

    def _has_root(self, generation: int) -> None:
        if self._owner is not None and generation == self._generation:
            self._owner.on_connected()

    def _lost(self) -> None:
        if self._owner is None or self._is_lost:
            return
        self._is_lost = True
        self._generation += 1
        self._lapsed.clear()
        self._watches.clear()
        self._owner.on_expired()

    def _watch(self, kind: EventType, path: str) -> Callable[[Any], None]:
        """What kazoo calls when a watch fires, or lapses with the connection (`kind` is reported then)."""
        lapse = WatchEvent(kind, path)
        known = self._watches.get(lapse)
        if known is not None:
            return known

        def on_watch(event: Any) -> None:
            generation = self._generation
            told = _EVENTS.get(event.type)
            if told is not None:
                self.loop.post(lambda: self._tell(generation, WatchEvent(told, event.path)))
            else:
                self.loop.post(lambda: self._lapse(generation, lapse))

        self._watches[lapse] = on_watch
        return on_watch

    def _lapse(self, generation: int, event: WatchEvent) -> None:
        if generation == self._generation:
            if self._is_suspended:
                self._lapsed[event] = None
            else:
                self._tell(generation, event)

    def _tell(self, generation: int, event: WatchEvent) -> None:
        if self._owner is not None and generation == self._generation:
            self._owner.on_watch(event)

    # Operations.

    def submit(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]) -> None:
        _Batch(self, operations, done).send()

    def _asked(self, operation: Operation) -> Any:
        """kazoo's promise of an answer."""
        client = self._client
        if isinstance(operation, (Get, Exists, Children)):
            kind = EventType.CHILDREN if isinstance(operation, Children) else EventType.CHANGED
            watch = self._watch(kind, operation.path) if operation.watch else None
            if isinstance(operation, Get):
                return client.get_async(operation.path, watch=watch)
            if isinstance(operation, Exists):
                return client.exists_async(operation.path, watch=watch)
            return client.get_children_async(operation.path, watch=watch, include_data=True)
        if isinstance(operation, Sync):
            return client.sync_async(operation.path)
        if isinstance(operation, Create):
            return client.create_async(
                operation.path,
                operation.data or None,
                ephemeral=operation.ephemeral,
                sequence=operation.sequence,
                include_data=True,
            )
        if isinstance(operation, SetData):
            return client.set_async(operation.path, operation.data, operation.version)
        if isinstance(operation, Delete):
            return client.delete_async(operation.path, operation.version)
        transaction = client.transaction()
        for each in operation.operations if isinstance(operation, Multi) else (operation,):
            if isinstance(each, Create):
                transaction.create(each.path, each.data, ephemeral=each.ephemeral, sequence=each.sequence)
                if not each.data:
                    transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
            elif isinstance(each, SetData):
                transaction.set_data(each.path, each.data, each.version)
            elif isinstance(each, Delete):
                transaction.delete(each.path, each.version)
            else:
                transaction.check(each.path, each.version)
        return transaction.commit_async()


class _Batch:
    """Operations that were asked together. The last answer to arrive hands all of them over."""

    def __init__(self, session: KazooSession, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]):
        self.session = session
        self.operations = operations
        self.done = done
        self.generation = session._generation
        self.results: list[Result] = [Result()] * len(operations)
        self.missing = len(operations)
        self.lock = threading.Lock()

    def send(self) -> None:
        if not self.operations:
            self.session.loop.post(lambda: self.done([]))
        elif self.session._is_lost:
            expired = [Result(Error.SESSION_EXPIRED)] * len(self.operations)
            self.session.loop.post(lambda: self.done(expired))
        else:
            for position in range(len(self.operations)):
                self._ask(position)

    def _ask(self, position: int) -> None:
        try:
            promise = self.session._asked(self.operations[position])
        except KazooException as error:
            self._take(position, Result(error_of(error)))
            return
        promise.rawlink(lambda answer: self._answered(position, answer))

    def _answered(self, position: int, answer: Any) -> None:
        """On a thread of kazoo's: the one that reads answers, or the one for failures."""
        operation = self.operations[position]
        failure = answer.exception
        if isinstance(failure, ConnectionLoss) and isinstance(operation, (Get, Exists, Children, Sync)):
            self._ask(position)
            return
        self._take(position, Result(error_of(failure)) if failure is not None else result_of(operation, answer.value))

    def _take(self, position: int, result: Result) -> None:
        self.results[position] = result
        with self.lock:
            self.missing -= 1
            is_last = not self.missing
        if is_last:
            self.session.loop.post(self._hand_over)

    def _hand_over(self) -> None:
        if self.generation != self.session._generation:
            # Some may have gone out in the session after theirs, if at all: for the logic they never happened.
            self.results = [Result(Error.SESSION_EXPIRED)] * len(self.operations)
        self.done(self.results)


def error_of(failure: BaseException) -> Error:
    if isinstance(failure, ZookeeperError):
        if failure.code == 0:  # rolled back, because of another one in the same transaction
            return Error.RUNTIME_INCONSISTENCY
        if failure.code in NUMBERS:
            return Error(failure.code)
    elif isinstance(failure, KazooException):
        return Error.SESSION_EXPIRED  # the client was stopped
    logger.warning("an answer of ZooKeeper is not understood: %r", failure)
    return Error.SYSTEM_ERROR


def stat_of(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeralOwner, stat.ctime)


def result_of(operation: Operation, value: Any) -> Result:
    if isinstance(operation, Get):
        return Result(data=value[0] or b"", stat=stat_of(value[1]))
    if isinstance(operation, Exists):
        return Result(stat=stat_of(value)) if value is not None else Result(Error.NO_NODE)
    if isinstance(operation, Children):
        return Result(children=tuple(sorted(value[0])), stat=stat_of(value[1]))
    if isinstance(operation, Create):
        return Result(path=value[0], stat=stat_of(value[1]))
    if isinstance(operation, SetData):
        return Result(stat=stat_of(value))
    if isinstance(operation, (Delete, Sync)):
        return Result()
    results = tuple(part_of(part) for part in value)
    if isinstance(operation, Check):
        return results[0]
    failed = [part.error for part in results if part.error not in (Error.OK, Error.RUNTIME_INCONSISTENCY)]
    return Result(failed[0] if failed else Error.OK, results=results)


def part_of(value: Any) -> Result:
    """One result of a transaction."""
    if isinstance(value, BaseException):
        return Result(error_of(value))
    if isinstance(value, str):
        return Result(path=value)
    return Result(stat=stat_of(value)) if hasattr(value, "czxid") else Result()

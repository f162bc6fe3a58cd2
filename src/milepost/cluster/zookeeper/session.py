"""A ZooKeeper session, and how steps run over it.

The cluster's logic is written as *steps*: generators that yield a list of operations and are sent the list of their results, in order.

    def register(...) -> Steps[int]:
        (made,) = yield [Create("/brokers/ids/1", data, ephemeral=True)]
        if made.error is Error.NODE_EXISTS: ...
        return made.stat.czxid

The operations of one list are pipelined: a thousand of them cost one round trip. Between two yields nothing else of the same runner runs,
and while it waits for ZooKeeper the loop goes on. So the logic reads from top to bottom, needs no lock, and runs unchanged over a real
server (`kazoo_session`) and over a model with a seed.

A lost connection is not a failure to be seen here: the session retries reads by itself, and answers a write whose answer was lost with
CONNECTION_LOSS, because only the logic can find out whether it happened; `retried` is for those that may be made twice. After the
session has expired every open operation is answered with SESSION_EXPIRED; the owner gets `on_expired` first, and starts again with the
next `on_connected`.

What ZooKeeper refuses (`refusals`) is raised where the steps wait for it, and ends them. Operations that are about different things are
yielded `Separately`: their steps look at each result, so that one partition that cannot be written does not keep others from it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from milepost.cluster.zookeeper.operations import Error, Operation, Result, WatchEvent
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper, first_refusal

logger = logging.getLogger("milepost.cluster")

T = TypeVar("T")
Steps = Generator[Sequence[Operation], Sequence[Result], T]

TRIES = 10


class Separately(list[Operation]):
    """Operations whose refusals are results, too."""


def retried(writes: Sequence[Operation]) -> Steps[list[Result]]:
    """Writes that may be made twice, repeated while their answers are lost: a Create may find its own node, a SetData over a version
    its own data.

    Not for ever, as Kafka does it: ZooKeeper ends the connection over a write of more than its jute.maxbuffer, each time. Each try is
    one connection that was lost, because the session keeps what is asked while there is none.
    """
    results = list((yield writes))
    for _ in range(TRIES - 1):
        # From the first that was lost on: those behind it may have failed for want of it.
        lost = next((place for place, result in enumerate(results) if result.error is Error.CONNECTION_LOSS), len(results))
        if lost == len(results):
            break
        results[lost:] = yield writes[lost:]
    return results


class SessionOwner(Protocol):
    """Told on the loop's thread."""

    def on_connected(self) -> None:
        """A session is there: the first one, or a new one after the last expired."""

    def on_expired(self) -> None:
        """The session is gone, and its ephemeral nodes with it."""

    def on_watch(self, event: WatchEvent) -> None: ...


class Session(Protocol):
    session_id: int

    def start(self, owner: SessionOwner) -> None:
        """Connect, and keep connecting. Does not wait."""

    def submit(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]) -> None:
        """Have them carried out in order; `done` is called once, on the loop's thread."""

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""


class Work(NamedTuple):
    steps: Steps[Any]
    done: Callable[[Any], object]
    failed: Callable[[], object] | None


class Runner:
    """Runs one sequence of steps after the other: the event queue of a controller, the work of a broker on its own znodes."""

    def __init__(self, session: Session, on_error: Callable[[Exception], None]):
        self._session = session
        self._on_error = on_error
        self._queue: deque[Work] = deque()
        self._current: Work | None = None
        self._generation = 0

    def __len__(self) -> int:
        return len(self._queue) + (self._current is not None)

    def run(
        self, steps: Steps[T], done: Callable[[T], object] = lambda result: None, failed: Callable[[], object] | None = None
    ) -> None:
        """Run `steps` when everything handed over before has finished; `done` gets what they return.

        `failed` is for a caller that waits: it is called instead when the steps raise, and it is what `clear` gives back.
        """
        self._queue.append(Work(steps, done, failed))
        if self._current is None:
            self._next()

    def clear(self) -> list[Callable[[], object]]:
        """Forget everything: what waits, and what runs (it is closed where it waits). Those who are to be told that it failed."""
        self._generation += 1
        forgotten = [*([] if self._current is None else [self._current]), *self._queue]
        self._queue.clear()
        current, self._current = self._current, None
        if current is not None:
            current.steps.close()
        return [work.failed for work in forgotten if work.failed is not None]

    def _next(self) -> None:
        while self._queue and self._current is None:
            work = self._current = self._queue.popleft()
            self._advance(work, partial(next, work.steps))

    def _advance(self, work: Work, go_on: Callable[[], Sequence[Operation]]) -> None:
        generation = self._generation

        def answered(results: Sequence[Result]) -> None:
            if generation == self._generation:
                refused = None if isinstance(operations, Separately) else first_refusal(operations, results)
                steps = work.steps
                self._advance(work, partial(steps.send, results) if refused is None else partial(steps.throw, refused))
                self._next()

        try:
            operations = go_on()
        except StopIteration as finished:
            if generation == self._generation:
                self._current = None
                work.done(finished.value)
        except Exception as error:
            if generation == self._generation:
                self._current = None
                if work.failed is None:
                    self._on_error(error)
                else:
                    logger.error(
                        "a ZooKeeper operation that a request waits for failed: %s",
                        error,
                        exc_info=None if isinstance(error, RefusedByZooKeeper) else error,
                    )
                    work.failed()
        else:
            if generation == self._generation:
                self._session.submit(operations, answered)

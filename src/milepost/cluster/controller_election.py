"""How brokers elect their controller: the first to create the ephemeral znode /controller.

    1  Watch /controller and read it. If it exists, it names the controller; done until the watch fires.
    2  Read /controller_epoch and its data version; make it with 0 where it is missing.
    3  In one multi: create /controller, ephemeral, with our id, and set /controller_epoch to epoch + 1 at the version just read.
    4  NODE_EXISTS or BAD_VERSION: another broker was first. Read /controller again. If it is us, at the epoch we tried, the answer to an
       earlier try was lost and we did win; else that one is the controller.
    5  When /controller goes or changes, every broker begins again at 1.

The data version of /controller_epoch after the multi is the epoch znode version: each later write of the controller first checks it
(`guarded`). When another controller was elected while this one was asleep, the version no longer matches, and nothing it writes
takes effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Check, Create, Delete, Error, Exists, Get, Multi, Result, SetData
from milepost.cluster.zookeeper.refusals import log_refusals
from milepost.cluster.zookeeper.session import Separately, Steps

INITIAL_EPOCH = 0
W = TypeVar("W")


class Term(NamedTuple):
    """From one controller's election to the next. `epoch_version` guards its writes."""

    epoch: int
    epoch_version: int


class ControllerMoved(Exception):
    """Another controller has been elected: a guarded write was refused. Kafka's ControllerMovedException."""


class Elected(NamedTuple):
    """Who is controller; `term` if it is we who just became it."""

    controller_id: int | None
    term: Term | None = None


def elect(broker_id: int, now_ms: int, *, knows_kraft: bool = True) -> Steps[Elected]:
    yield [Exists(znodes.CONTROLLER, watch=True)]
    current = yield from read_controller()
    if current is not None:
        return Elected(current)
    epoch, version = yield from read_epoch()
    tried = epoch + 1
    (answer,) = yield [
        Multi(
            (
                Create(znodes.CONTROLLER, znodes.controller(broker_id, now_ms, knows_kraft=knows_kraft), ephemeral=True),
                SetData(znodes.CONTROLLER_EPOCH, b"%d" % tried, version),
            )
        )
    ]
    if answer.ok:
        return Elected(broker_id, Term(tried, version + 1))
    return (yield from _second_look(broker_id, tried))


def _second_look(broker_id: int, tried: int) -> Steps[Elected]:
    current = yield from read_controller()
    epoch, version = yield from read_epoch()
    if current == broker_id and epoch == tried:
        return Elected(broker_id, Term(epoch, version))
    return Elected(current)


def read_controller() -> Steps[int | None]:
    (found,) = yield [Get(znodes.CONTROLLER)]
    return znodes.controller_id(found.data) if found.ok else None


def read_epoch() -> Steps[tuple[int, int]]:
    """The controller epoch and its data version; it is made if there never was a controller."""
    while True:
        (found,) = yield [Get(znodes.CONTROLLER_EPOCH)]
        if found.ok:
            return int(found.data), found.version
        if found.error is Error.SESSION_EXPIRED:
            raise ControllerMoved("the ZooKeeper session expired during an election")
        yield [Create(znodes.CONTROLLER_EPOCH, b"%d" % INITIAL_EPOCH)]


def guarded(term: Term, writes: Sequence[Create | SetData | Delete]) -> list[Multi]:
    """Each write in a multi of its own, behind a check of the epoch znode version."""
    return [Multi((Check(znodes.CONTROLLER_EPOCH, term.epoch_version), write)) for write in writes]


def unguarded(results: Sequence[Result]) -> list[Result]:
    """The writes' own results out of those of `guarded`. Raises ControllerMoved when the epoch znode version did not fit."""
    found = []
    for result in results:
        if result.ok:
            found.append(result.results[1])
            continue
        if result.error is Error.SESSION_EXPIRED or (result.results and result.results[0].error is Error.BAD_VERSION):
            raise ControllerMoved("another controller was elected")
        found.append(Result(result.error))
    return found


def write_until_answered(term: Term, writes: Sequence[Create | SetData | Delete]) -> Steps[None]:
    """Guarded writes that may be made twice, repeated until none of their answers was lost. Raises ControllerMoved when the key
    does not fit."""
    remaining = list(writes)
    while remaining:
        remaining = _unanswered(remaining, unguarded((yield guarded(term, remaining))))


def delete_notes(term: Term, paths: Iterable[str]) -> Steps[None]:
    """The same for nodes that asked for something: it is done, whether ZooKeeper lets go of them or not."""
    remaining = [Delete(path) for path in paths]
    while remaining:
        answers = unguarded((yield Separately(guarded(term, remaining))))
        log_refusals("a note stays, and is read again with the next", remaining, answers)
        remaining = _unanswered(remaining, answers)


def _unanswered(writes: list[W], answers: Sequence[Result]) -> list[W]:
    """From the first whose answer was lost on: those behind it may have failed for want of it."""
    lost = next((place for place, answer in enumerate(answers) if answer.error is Error.CONNECTION_LOSS), len(answers))
    return writes[lost:]


def resign(term: Term) -> Steps[None]:
    """Delete /controller, if it is still ours: the watches of the others fire."""
    yield guarded(term, [Delete(znodes.CONTROLLER)])

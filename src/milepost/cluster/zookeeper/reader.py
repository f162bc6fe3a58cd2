"""Looking at ZooKeeper from a command: connect, read, wait for changes. It writes nothing, and it needs no loop.

`HOST:PORT/chroot` names the part to look at; paths are below it. A server that does not answer, a node that is not there or not
shown, and a missing kazoo are each one sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper
from milepost.errors import BrokerUnavailable, InvalidArgument, InvalidConfiguration

ANSWER_SECONDS = 10.0
ROOT = "/"


class Znode(NamedTuple):
    path: str
    data: bytes
    version: int
    czxid: int
    ephemeral_owner: int
    """0: the node outlives the session that created it."""
    children: int


class ZooKeeperReader:
    def __init__(self, connect: str):
        try:
            from kazoo import client, exceptions
        except ImportError as missing:
            raise InvalidConfiguration(
                f"looking at ZooKeeper needs kazoo ({missing}): pip install 'milepost[zookeeper]'"
            ) from missing
        self.connect = connect
        timeout = ANSWER_SECONDS
        self._exceptions = exceptions
        quiet = logging.getLogger("milepost.cluster.kazoo")
        try:
            self._client = client.KazooClient(connect, timeout=timeout, read_only=True, logger=quiet)
        except (ValueError, TypeError) as error:
            raise InvalidArgument(f"{connect!r} names no ZooKeeper, HOST:PORT or HOST:PORT/chroot does: {error}") from None
        try:
            self._client.start(timeout)
        except (self._client.handler.timeout_exception, exceptions.KazooException, OSError):
            self.close()
            raise BrokerUnavailable(f"no ZooKeeper answers at {connect} within {timeout:g} seconds") from None

    def __enter__(self) -> ZooKeeperReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    # Reading.

    def get(self, path: str) -> Znode:
        found = self.get_all([path])[0]
        if found is None:
            raise InvalidArgument(f"there is no znode {path} at {self.connect}")
        return found

    def get_all(self, paths: Iterable[str]) -> list[Znode | None]:
        """Asked together, so many cost little more than one; None where there is none."""
        paths = list(paths)
        answers = self._ask([(self._client.get_async, path) for path in paths])
        return [None if answer is None else _znode(path, *answer) for path, answer in zip(paths, answers, strict=True)]

    def children(self, paths: Iterable[str]) -> list[list[str]]:
        """The names below each, sorted."""
        answers = self._ask([(self._client.get_children_async, path) for path in paths])
        return [sorted(answer or ()) for answer in answers]

    def walk(self, path: str = ROOT) -> Iterator[Znode]:
        """A node and all below it, from the top, each before what is below it."""
        below: dict[str, list[str]] = {}
        level = [path]
        while level:
            found = self.children(level)
            below |= {parent: [_joined(parent, name) for name in names] for parent, names in zip(level, found, strict=True)}
            level = [child for parent in level for child in below[parent]]
        nodes = {node.path: node for node in self.get_all(below) if node is not None}
        if path not in nodes:
            raise InvalidArgument(f"there is no znode {path} at {self.connect}")
        stack = [path]
        while stack:
            here = stack.pop()
            if here in nodes:
                yield nodes[here]
                stack += sorted(below[here], key=_by_number, reverse=True)

    def _ask(self, asked: list[tuple[Callable[[str], Any], str]]) -> list[Any]:
        try:
            promises = [ask(path) for ask, path in asked]
        except ValueError as error:
            raise InvalidArgument(f"not a path of a znode: {error}") from None
        answers: list[Any] = []
        for promise, (_, path) in zip(promises, asked, strict=True):
            try:
                answers.append(promise.get(timeout=ANSWER_SECONDS))
            except self._exceptions.NoNodeError:
                answers.append(None)
            except self._exceptions.NoAuthError:
                raise RefusedByZooKeeper(
                    f"ZooKeeper at {self.connect} does not show {path}: NO_AUTH (-102), its ACL must allow reading to world:anyone"
                ) from None
            except (self._client.handler.timeout_exception, self._exceptions.KazooException) as error:
                raise BrokerUnavailable(f"ZooKeeper at {self.connect} does not answer: {type(error).__name__}") from None
        return answers

    # Waiting.

    def watch(self, path: str, changed: Callable[[str], object]) -> None:
        """Have `changed` called, once, on a thread of kazoo's, when the node or the list of its children is another."""

        def on_event(event: Any) -> None:
            changed(path)

        self._ask(
            [
                (lambda at: self._client.exists_async(at, watch=on_event), path),
                (lambda at: self._client.get_children_async(at, watch=on_event), path),
            ]
        )


def _znode(path: str, data: bytes | None, stat: Any) -> Znode:
    # Kafka makes its directories with no data at all, which is not the same as empty; readers need not know.
    return Znode(path, data or b"", stat.version, stat.czxid, stat.ephemeralOwner, stat.numChildren)


def _joined(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def _by_number(path: str) -> tuple[int, int, str]:
    """Partition 10 behind partition 9."""
    name = path.rpartition("/")[2]
    return (0, int(name), "") if name.isdecimal() else (1, 0, name)

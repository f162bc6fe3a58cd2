"""What changes among the znodes below a path, as it happens.

ZooKeeper notifies once that something changed, not what, and not what changed in between: each time the node is read again and compared
with what was last seen. Of two changes that follow each other closely only the second may be seen; the last one always is.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from milepost.cluster.zookeeper.reader import Znode, ZooKeeperReader

LOOK_SECONDS = 0.2


class Change(NamedTuple):
    time: str
    """When it was noticed, UTC."""
    kind: str
    """created, changed or deleted"""
    path: str
    node: Znode | None


class Changes:
    """Iterate over it for what happens from its making on, until `is_over` says so."""

    def __init__(self, reader: ZooKeeperReader, path: str, is_over: Callable[[], bool]):
        self._reader = reader
        self._is_over = is_over
        self._told: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._known = {node.path: node for node in reader.walk(path)}
        for each in self._known:
            reader.watch(each, self._told.put)
            # What happened between the look and the watch is seen at the first turn.
            self._told.put(each)

    def __iter__(self) -> Iterator[Change]:
        while not self._is_over():
            try:
                path = self._told.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            self._reader.watch(path, self._told.put)
            yield from self._compared(path)

    def _compared(self, path: str) -> Iterator[Change]:
        """What is different at a node and right below it. Nodes that are new are watched from here on."""
        (now,) = self._reader.get_all([path])
        before = self._known.get(path)
        if now is None:
            if before is not None:
                del self._known[path]
                yield _change("deleted", path, None)
            return
        self._known[path] = now
        if before is None or before.czxid != now.czxid:
            yield _change("created", path, now)
        elif before.version != now.version:
            yield _change("changed", path, now)
        for name in self._reader.children([path])[0]:
            child = f"{path.rstrip('/')}/{name}"
            if child not in self._known:
                self._reader.watch(child, self._told.put)
                yield from self._compared(child)


def _change(kind: str, path: str, node: Znode | None) -> Change:
    return Change(datetime.now(UTC).isoformat(timespec="milliseconds")[11:23], kind, path, node)

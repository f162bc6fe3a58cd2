"""Partition states as they are written to ZooKeeper: who was controller meanwhile, and who has come in sync.

What comes in a multi is written by a controller; leaders of clusters older than 2.7 write without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Get, Multi, Operation, SetData
from milepost.cluster.zookeeper.znodes import PartitionState
from tests.checker.history import Decided, History
from tests.simulation.world import World
from tests.simulation.zookeeper import ModelZooKeeper

Grown = Callable[[PartitionState, frozenset[int]], bool]
"""Given a new state and who came in sync with it; whether that was what one was waiting for."""


class Decisions:
    def __init__(self, zookeeper: ModelZooKeeper, world: World, history: History):
        self.waiting: list[Grown] = []
        """Whoever waits for in-sync replicas to grow."""
        self._zookeeper = zookeeper
        self._world = world
        self._history = history
        self._isr: dict[str, frozenset[int]] = {}
        zookeeper.on_write = self._written

    def _written(self, operation: Operation) -> None:
        for write in operation.operations if isinstance(operation, Multi) else (operation,):
            if not is_of_state(write):
                continue
            assert isinstance(write, (Create, SetData))
            state = znodes.parse_state(write.data, 0)
            assert state is not None
            if isinstance(operation, Multi):
                current = int(self._zookeeper.nodes[znodes.CONTROLLER_EPOCH].data)
                self._history.decided.append(Decided(write.path, state.controller_epoch, current, self._world.now))
            isr = frozenset(state.isr)
            new = isr - self._isr.get(write.path, isr)
            self._isr[write.path] = isr
            if new and isinstance(write, SetData):
                self.waiting = [each for each in self.waiting if not each(state, new)]


def is_of_state(operation: Operation) -> bool:
    return isinstance(operation, (Create, SetData, Get)) and operation.path.endswith("/state")


def reads_or_writes_state(operations: Sequence[Operation]) -> tuple[bool, bool]:
    """Whether partition states are read, and whether they are written as a controller writes them."""
    reads = any(isinstance(each, Get) and is_of_state(each) for each in operations)
    writes = any(isinstance(each, Multi) and any(map(is_of_state, each.operations)) for each in operations)
    return reads, writes

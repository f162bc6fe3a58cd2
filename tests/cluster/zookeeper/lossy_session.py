"""A session over the model of ZooKeeper that loses its connection at the writes a test names, before or after they took effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.cluster.zookeeper.operations import Children, Error, Exists, Get, Operation, Result
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelSession, ModelZooKeeper

ANSWERED, UNANSWERED, UNSENT = "answered", "unanswered", "unsent"


class LossySession(ModelSession):
    """`fates` are those of the next batches with a write in them; the batches after those are answered."""

    def __init__(self, server: ModelZooKeeper, turns: Turns):
        super().__init__(server, turns)
        self.fates: list[str] = []

    def submit(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]) -> None:
        is_write = any(not isinstance(each, (Get, Exists, Children)) for each in operations)
        fate = self.fates.pop(0) if is_write and self.fates else ANSWERED
        lost = [Result(Error.CONNECTION_LOSS)] * len(operations)
        if fate == ANSWERED:
            super().submit(operations, done)
        elif fate == UNANSWERED:
            super().submit(operations, lambda results: done(lost))
        else:
            self.scheduler.post(lambda: done(lost))

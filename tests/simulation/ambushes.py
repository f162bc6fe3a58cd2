"""Faults that wait for their moment: a random time would hardly ever hit it.

overtake   the controller reads a partition's state and is paused before it writes, or its write is long on its way; meanwhile
           /controller is deleted and somebody else is elected. What it decided must not take effect any more
forsake    in-sync replicas have grown, and the leader that asked for it gets no answer; the newcomer gets nothing from the leader either.
           Then everybody who was in sync before fails, and the newcomer is all there is: it must have what was acknowledged
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Delete, Operation
from milepost.cluster.zookeeper.znodes import PartitionState
from tests.simulation.decisions import reads_or_writes_state
from tests.simulation.session import NAME as ZOOKEEPER

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker
    from tests.simulation.cluster import Cluster

Links = set[tuple[str, str]]


class Ambushes:
    def __init__(self, cluster: Cluster, start_again: Callable[[SimulatedBroker, float | None], None]):
        self.cluster = cluster
        self.world = cluster.world
        self.random = cluster.world.random
        self._start_again = start_again
        self._is_over = False
        self._is_forsaking = False

    def controller(self) -> SimulatedBroker | None:
        node = self.cluster.zookeeper.model.nodes.get(znodes.CONTROLLER)
        found = self.cluster.brokers.get(znodes.controller_id(node.data) or 0) if node is not None else None
        return found if found is not None and found.is_up else None

    def call_off(self) -> None:
        self._is_over = True
        self.cluster.decisions.waiting.clear()

    # Another controller, between reading and writing.

    def overtake(self) -> None:
        broker = self.controller()
        if broker is None:
            return
        session, process = broker.session, broker.process

        def sent(operations: Sequence[Operation]) -> None:
            reads, writes = reads_or_writes_state(operations)
            if not (reads or writes) or self.controller() is not broker or broker.process is not process or self._is_over:
                return
            session.on_sent = lambda operations: None
            seconds = self.random.choice((0.1, 0.5, 1.2))
            if reads:
                self.world.note(f"fault: controller {broker.name} is paused while it reads, and overtaken, for {seconds:.2f} s")
                process.pause(seconds)
            else:
                self._cut({(broker.name, ZOOKEEPER)}, f"controller {broker.name} is overtaken while it writes", seconds)
            self.world.after(0.01, lambda: self.cluster.write(Delete(znodes.CONTROLLER)))

        session.on_sent = sent

    # A newcomer among the in-sync replicas, and a leader that does not know.

    def forsake(self) -> None:
        """One replica falls out first, so that it can come back."""
        state = self.cluster.state(self.random.choice(self.cluster.partitions))
        if self._is_forsaking or state is None or len(state.isr) < 2:
            return
        self._is_forsaking = True
        self.cluster.decisions.waiting.append(self._grown)
        controller = self.controller()
        if controller is not None and controller.broker_id == state.leader:
            self.cluster.write(Delete(znodes.CONTROLLER))
        self._fail({self.random.choice([each for each in state.isr if each != state.leader])}, seconds=0.05)

    def _grown(self, state: PartitionState, new: frozenset[int]) -> bool:
        leader, controller = self.cluster.brokers.get(state.leader), self.controller()
        if leader is None or not leader.is_up or controller is None or controller is leader:
            return False
        away = {controller.name, *(self.cluster.brokers[each].name for each in new)}
        links = {link for name in away for link in ((name, leader.name), (leader.name, name))}
        seconds = self.random.choice((0.5, 3.0, 4.0)) * self.random.uniform(0.9, 1.3)
        self._cut(links, f"{leader.name} does not hear that {sorted(new)} are in sync", seconds)

        def end() -> None:
            self._is_forsaking = False
            if self.random.random() < 0.9:
                self._fail(set(state.isr) - new)

        self.world.after(seconds, end)
        return True

    def _fail(self, broker_ids: set[int], seconds: float | None = None) -> None:
        for broker_id in sorted(broker_ids):
            broker = self.cluster.brokers[broker_id]
            if broker.is_up and not self._is_over:
                broker.crash(is_power_failure=False)
                self._start_again(broker, seconds)

    def _cut(self, links: Links, text: str, seconds: float) -> None:
        network = self.cluster.network
        network.cut |= links

        def undo() -> None:
            network.cut -= links

        self.world.note(f"fault: {text} for {seconds:.2f} s")
        self.world.after(seconds, undo)

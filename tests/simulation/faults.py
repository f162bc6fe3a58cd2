"""What goes wrong, at random: each fault begins at some time, lasts a while, and is undone; several may be under way at once.

crash        kill -9, or with the power (what was not synced is lost); the broker is started again later
stop         SIGTERM: a broker hands over what it leads and ends; it is started again later
pause        SIGSTOP: shorter or longer than the session
isolate      a broker is cut from the others, from ZooKeeper, or from both; or in one direction only
expire       ZooKeeper ends a broker's session
zookeeper    nobody reaches it; it is started again with everybody's session alive, or has slept and ends them all
depose       somebody deletes /controller: the controller finds itself replaced with its session alive
forget       a broker's connection to ZooKeeper breaks: answers and watches are lost
slow         everything a broker does takes its time
delay        messages take long, everywhere or between two
reset        connections break, with what is on the way
overtake, forsake    wait for their moment: see `ambushes`

Some things that are no faults happen among them: topics are made and deleted, and replicas are moved to other brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Delete
from tests.simulation.ambushes import Ambushes
from tests.simulation.session import NAME as ZOOKEEPER

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker
    from tests.simulation.cluster import Cluster


class Faults:
    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.world = cluster.world
        self.random = cluster.world.random
        seconds = self.random.choice((4.0, 8.0, 16.0))
        self.counts: dict[str, int] = {}
        self.ambushes = Ambushes(cluster, self._start_again)
        self._kinds: list[Callable[[], None]] = [
            self.crash,
            self.crash,
            self.stop,
            self.pause,
            self.isolate,
            self.isolate,
            self.cut_one_way,
            self.expire,
            self.depose,
            self.stop_zookeeper,
            self.forget,
            self.slow,
            self.delay,
            self.lag,
            self.reset,
            self.ambushes.overtake,
            self.ambushes.forsake,
            self.make_topic,
            self.make_or_delete,
            self.reassign,
        ]
        # Some kinds only, so that seeds differ in character.
        self._kinds = self.random.sample(self._kinds, self.random.randint(2, len(self._kinds)))
        self._pace = self.random.choice((0.5, 1.0, 2.5))
        # An ambush needs quiet: in some seeds there is hardly anything else.
        if self.random.random() < 0.2:
            self._kinds = self.random.choice(([self.ambushes.forsake], [self.ambushes.overtake, self.crash]))
            self._pace, seconds = 2.5, 16.0
        self.until = self.world.now + seconds
        self._next()

    def _next(self) -> None:
        self.world.after(self.random.expovariate(1 / self._pace), self._strike)

    def _strike(self) -> None:
        if self.world.now < self.until:
            fault = self.random.choice(self._kinds)
            self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
            fault()
            self._next()

    def _for_a_while(self, seconds: float, text: str, undo: Callable[[], None]) -> None:
        self.world.note(f"fault: {text} for {seconds:.2f} s")
        self.world.after(seconds, undo)

    def _broker(self) -> SimulatedBroker | None:
        """Anybody; more often one that leads, or the controller."""
        up = {broker.broker_id: broker for broker in self.cluster.brokers.values() if broker.is_up}
        if not up:
            return None
        wanted = self.random.choice(("anybody", "leader", "leader", "controller"))
        chosen = None
        if wanted == "leader":
            state = self.cluster.state(self.random.choice(self.cluster.partitions))
            chosen = up.get(state.leader) if state is not None else None
        elif wanted == "controller":
            chosen = self.ambushes.controller()
        return chosen or self.random.choice(list(up.values()))

    # Brokers.

    def crash(self) -> None:
        broker = self._broker()
        if broker is None:
            return
        broker.crash(is_power_failure=self.cluster.may_lose_power and self.random.random() < 0.6)
        self._start_again(broker)

    def _start_again(self, broker: SimulatedBroker, seconds: float | None = None) -> None:
        def start() -> None:
            if not broker.is_up:
                broker.start()

        self.world.after(seconds or self.random.choice((0.05, 1.0, 3.0, 8.0)) * self.random.uniform(0.5, 1.5), start)

    def stop(self) -> None:
        broker = self._broker()
        if broker is not None:
            broker.stop()
            stopping = broker.process

            def look() -> None:
                if broker.process is stopping and stopping.is_alive:
                    self.world.after(0.5, look)
                else:
                    self._start_again(broker)

            look()

    def pause(self) -> None:
        broker = self._broker()
        if broker is not None:
            seconds = self.random.choice((0.3, 1.5, 3.0, 6.0))
            self.world.note(f"fault: {broker.name} is paused for {seconds:.2f} s")
            broker.process.pause(seconds)

    def slow(self) -> None:
        broker = self._broker()
        if broker is not None:
            process = broker.process
            process.slowness = self.random.choice((0.002, 0.01, 0.04))

            def undo() -> None:
                process.slowness = 0.0

            self._for_a_while(self.random.uniform(0.5, 4), f"{broker.name} is slow, {process.slowness} s", undo)

    # The network.

    def isolate(self) -> None:
        broker = self._broker()
        if broker is None:
            return
        others = [each.name for each in self.cluster.brokers.values() if each is not broker]
        kind = self.random.choice(("brokers", "zookeeper", "everything", "everything and clients"))
        names = {"brokers": others, "zookeeper": [ZOOKEEPER]}.get(kind, [*others, ZOOKEEPER])
        if kind == "everything and clients":
            names += [client.name for client in self.cluster.clients]
        links = {link for name in names for link in ((name, broker.name), (broker.name, name))}
        self._cut(links, f"{broker.name} is cut from {kind}")

    def cut_one_way(self) -> None:
        names = [*(broker.name for broker in self.cluster.brokers.values()), ZOOKEEPER]
        source, target = self.random.sample(names, 2)
        self._cut({(source, target)}, f"nothing goes from {source} to {target}")

    def _cut(self, links: set[tuple[str, str]], text: str) -> None:
        network = self.cluster.network
        network.cut |= links

        def undo() -> None:
            network.cut -= links

        self._for_a_while(self.random.choice((0.5, 2.5, 6.0)) * self.random.uniform(0.5, 1.5), text, undo)

    def delay(self) -> None:
        network = self.cluster.network
        network.slowest = self.random.choice((0.02, 0.1, 0.5))

        def undo() -> None:
            network.slowest = 0.003

        self._for_a_while(self.random.uniform(0.5, 5), f"messages take up to {network.slowest} s", undo)

    def lag(self) -> None:
        network = self.cluster.network
        names = [*(broker.name for broker in self.cluster.brokers.values()), ZOOKEEPER]
        source, target = self.random.sample(names, 2)
        links = [(source, target), (target, source)][: self.random.choice((1, 2))]
        seconds = self.random.choice((0.1, 0.5, 1.5))
        network.lagging.update(dict.fromkeys(links, seconds))

        def undo() -> None:
            for link in links:
                network.lagging.pop(link, None)

        self._for_a_while(self.random.uniform(1, 6), f"messages between {source} and {target} take up to {seconds} s", undo)

    def reset(self) -> None:
        connections = [each for each in self.cluster.network.connections.values() if not each.is_closed]
        for connection in self.random.sample(connections, min(len(connections), self.random.randint(1, 6))):
            self.world.note(f"fault: the connection from {connection.client.name} to {connection.process.name} breaks")
            connection.close("the connection broke")

    # ZooKeeper.

    def expire(self) -> None:
        sessions = self.cluster.zookeeper.sessions
        if sessions:
            session = self.random.choice(sessions)
            self.world.note(f"fault: session {session.session_id} is ended")
            self.cluster.zookeeper.end(session)

    def depose(self) -> None:
        self.world.note("fault: /controller is deleted")
        self.cluster.write(Delete(znodes.CONTROLLER))

    def forget(self) -> None:
        broker = self._broker()
        if broker is not None:
            self.world.note(f"fault: {broker.name} loses its connection to ZooKeeper")
            broker.session.drop_connection()

    def stop_zookeeper(self) -> None:
        zookeeper = self.cluster.zookeeper
        if zookeeper.is_stopped:
            return
        sleeps = self.random.random() < 0.5
        zookeeper.stop(sleeps=sleeps)
        seconds = self.random.choice((0.5, 2.0, 6.0)) * self.random.uniform(0.5, 1.5)
        text = f"ZooKeeper {'sleeps' if sleeps else 'is down'}"
        self._for_a_while(seconds, text, lambda: zookeeper.start(sleeps=sleeps))

    # Work for the controller.

    def make_topic(self) -> None:
        if len(self.cluster.partitions) < 5:
            self.cluster.use_topic(f"t{len(self.cluster.partitions)}", 1)

    def make_or_delete(self) -> None:
        self.cluster.make_or_delete()

    def reassign(self) -> None:
        name = self.random.choice(self.cluster.partitions)
        replicas = self.random.sample(sorted(self.cluster.brokers), min(3, len(self.cluster.brokers)))
        self.cluster.reassign(name, replicas)

    # The end of all that.

    def heal(self) -> None:
        self.world.note("everything heals")
        self.until = 0.0
        self.ambushes.call_off()
        self.cluster.network.cut.clear()
        self.cluster.network.slowest = 0.003
        self.cluster.network.lagging.clear()
        if self.cluster.zookeeper.is_stopped:
            self.cluster.zookeeper.start(sleeps=False)
        for broker in self.cluster.brokers.values():
            broker.process.slowness = 0.0
            broker.process.paused_until = 0.0

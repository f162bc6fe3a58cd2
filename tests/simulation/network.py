"""The network between processes: connections that keep their order, take their time, break, and links that are cut.

A message to a cut link waits (TCP sends it again) until the link is back or somebody gives up on the connection. A connection that breaks
takes with it what is on the way, in both directions: whoever asked does not know whether it was heard. A process that died refuses.

Links are cut by direction, so a partition may be one-sided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from milepost.errors import BrokerUnavailable, MilepostError
from milepost.protocol.apis import BY_NAME
from milepost.replica.loop_peers import client_id
from milepost.replica.metadata import BrokerInfo
from tests.simulation.process import Process
from tests.simulation.world import Timer, World

OnAnswer = Callable[[Any], object]
OnFailure = Callable[[MilepostError], object]
RETRANSMIT_SECONDS = 0.1
DEFAULT_TIMEOUT = 30.0


class Caller(NamedTuple):
    """Who asks: the client id says so, and a broker has proven it."""

    client_id: str
    broker_id: int | None = None


class Server(Protocol):
    """A process that answers."""

    process: Process

    def serve(self, request: Any, version: int, answer: Callable[[Any], object], caller: Caller) -> None: ...


class Network:
    def __init__(self, world: World):
        self.world = world
        self.cut: set[tuple[str, str]] = set()
        """(from, to) of links that carry nothing."""
        self.slowest = 0.003
        """Seconds that a message takes at most."""
        self.lagging: dict[tuple[str, str], float] = {}
        """(from, to) of links whose messages take up to so many seconds more."""
        self.servers: dict[int, Server] = {}
        self.connections: dict[tuple[str, int, str], Connection] = {}
        self.messages = 0

    def delay(self, source: str = "", target: str = "") -> float:
        self.messages += 1
        seconds = self.world.random.uniform(0.0002, self.slowest)
        if self.lagging and (source, target) in self.lagging:
            seconds += self.world.random.uniform(0, self.lagging[source, target])
        return seconds

    def is_cut(self, source: str, target: str) -> bool:
        return bool(self.cut) and (source, target) in self.cut

    def connection(self, client: Process, broker_id: int, purpose: str) -> Connection:
        key = (client.name, broker_id, purpose)
        known = self.connections.get(key)
        if known is None or known.is_closed or known.client is not client:
            known = self.connections[key] = Connection(self, client, broker_id)
        return known

    def died(self, process: Process) -> None:
        """Its end is known to the other ends of its connections as soon as a message can tell them."""
        for connection in list(self.connections.values()):
            if connection.process is process:
                self.world.after(self.delay(), connection.reset)
            elif connection.client is process:
                connection.close("the client is gone")


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, source: str, target: str):
        self.network = network
        self.source = source
        self.target = target
        self._waiting: deque[Callable[[], object]] = deque()
        self._last = 0.0
        self.is_closed = False

    def carry(self, deliver: Callable[[], object]) -> None:
        network = self.network
        self._waiting.append(deliver)
        self._last = max(self._last, network.world.now + network.delay(self.source, self.target))
        network.world.at(self._last, self._arrive)

    def _arrive(self) -> None:
        if self.is_closed or not self._waiting:
            return
        if self.network.is_cut(self.source, self.target):
            self.network.world.after(RETRANSMIT_SECONDS, self._arrive)
        else:
            self._waiting.popleft()()


class Connection:
    """From a process to a broker, as it is now: a broker that was started again is another one."""

    def __init__(self, network: Network, client: Process, broker_id: int):
        self.network = network
        self.client = client
        self.server = network.servers[broker_id]
        self.process = self.server.process
        self.is_closed = False
        self._requests = Pipe(network, client.name, self.process.name)
        self._answers = Pipe(network, self.process.name, client.name)
        self._open: dict[int, tuple[OnFailure, Timer]] = {}
        self._next = 0

    def ask(self, request: Any, version: int, caller: Caller, on_answer: OnAnswer, on_failure: OnFailure, timeout: float) -> None:
        self._next += 1
        number = self._next
        timer = self.client.later(timeout, lambda: self.close(f"no answer within {timeout} s"))
        self._open[number] = (on_failure, timer)

        def answered(response: Any) -> None:
            if number in self._open:
                self._open.pop(number)[1].cancel()
                on_answer(response)

        def answer(response: Any) -> None:
            if self.process.is_alive:
                self._answers.carry(lambda: self.client.run(lambda: answered(response)))

        def arrived() -> None:
            if self.process.is_alive:
                serve = self.server.serve
                self.process.run(lambda: serve(request, version, answer, caller))
            else:
                self.close("the connection was refused")

        self._requests.carry(arrived)

    def reset(self) -> None:
        if self.network.is_cut(self.process.name, self.client.name):
            self.network.world.after(RETRANSMIT_SECONDS, self.reset)
        else:
            self.close("the connection was reset")

    def close(self, reason: str) -> None:
        """Everything that is on the way is lost; who waits for an answer is told."""
        if self.is_closed:
            return
        self.is_closed = self._requests.is_closed = self._answers.is_closed = True
        failed, self._open = self._open, {}
        error = BrokerUnavailable(f"{self.process.name}: {reason}")
        for on_failure, timer in failed.values():
            timer.cancel()
            self.client.post(lambda on_failure=on_failure: on_failure(error))  # type: ignore[misc]


class SimulatedPeers:
    """The brokers, for one process (`replica/peers`): a broker with its number, or a client."""

    def __init__(self, network: Network, process: Process, broker_id: int | None = None):
        self.network = network
        self.process = process
        self.broker_id = broker_id

    def send(
        self,
        broker: BrokerInfo,
        request: Any,
        version: int | None,
        on_answer: OnAnswer,
        on_failure: OnFailure,
        *,
        purpose: str,
        timeout: float | None = None,
    ) -> None:
        connection = self.network.connection(self.process, broker.broker_id, purpose)
        if version is None:
            version = BY_NAME[type(request).__name__.removesuffix("Request")].served[1]
        broker_id = self.broker_id
        caller = Caller(self.process.name) if broker_id is None else Caller(client_id(broker_id, purpose), broker_id)
        connection.ask(request, version, caller, on_answer, on_failure, timeout or DEFAULT_TIMEOUT)

    def forget(self, broker_id: int) -> None:
        for (name, target, _), connection in list(self.network.connections.items()):
            if name == self.process.name and target == broker_id:
                connection.close("given up")

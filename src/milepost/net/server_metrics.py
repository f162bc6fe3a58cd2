"""What a socket server says about itself, under Kafka's names: connections, idle time, queues, memory.

`SocketServer` calls `sample` about once a second: shares and rates are those of the last half minute. In inline mode one thread
is network and handlers, so both are idle at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from milepost.metrics.names import Kind, MetricName, own
from milepost.metrics.rate import Rate
from milepost.metrics.registry import Registry, Sample

if TYPE_CHECKING:
    from milepost.net.acceptor import Acceptor
    from milepost.net.channel import Channel
    from milepost.net.event_loop import EventLoop
    from milepost.net.memory_pool import MemoryPool
    from milepost.net.processor import Processor
    from milepost.net.request_channel import RequestChannel

LONGEST_PASS_SAMPLES = 15


class MeasuredServer(Protocol):
    loop: EventLoop
    memory: MemoryPool[Channel] | None
    data_requests: RequestChannel
    control_requests: RequestChannel
    control_acceptor: Acceptor | None
    processors: list[Processor]

    def handler_idle_seconds(self) -> float:
        """How long the handlers have waited for work, each on average."""
        ...


class ServerMetrics:
    def __init__(self, server: MeasuredServer):
        self._server = server
        loop = server.loop
        self.network_idle = Rate(lambda: loop.idle_seconds)
        self.handlers_idle = Rate(server.handler_idle_seconds)
        memory = server.memory
        self.memory_depleted = Rate(lambda: 0.0 if memory is None else memory.depleted_seconds)
        self._opened: dict[Processor, Rate] = {}
        self._closed: dict[Processor, Rate] = {}
        self._longest_passes: deque[float] = deque(maxlen=LONGEST_PASS_SAMPLES)

    def add(self, processor: Processor) -> None:
        self._opened[processor] = Rate(lambda: processor.opened)
        self._closed[processor] = Rate(lambda: processor.closed)

    def sample(self) -> None:
        for rate in (self.network_idle, self.handlers_idle, self.memory_depleted, *self._opened.values(), *self._closed.values()):
            rate.sample()
        self._longest_passes.append(self._server.loop.longest_pass)
        self._server.loop.longest_pass = 0.0

    @property
    def longest_pass(self) -> float:
        return max(*self._longest_passes, self._server.loop.longest_pass, 0.0)

    def register(self, registry: Registry) -> None:
        server, memory = self._server, self._server.memory

        def network(name: str, type: str = "SocketServer") -> MetricName:
            return MetricName("kafka.network", type, name)

        def connections(name: str) -> MetricName:
            return MetricName("kafka.server", "socket-server-metrics", name)

        registry.gauge(
            network("RequestQueueSize", "RequestChannel"), "Requests that wait for a handler", lambda: len(server.data_requests)
        )
        registry.gauge(network("ResponseQueueSize", "RequestChannel"), "Responses that are not sent yet", self._unsent)
        if server.control_acceptor is not None:
            registry.gauge(
                network("ControlPlaneRequestQueueSize", "RequestChannel"),
                "Requests that wait for the handler of the control plane",
                lambda: len(server.control_requests),
            )
        registry.gauge(
            network("NetworkProcessorAvgIdlePercent"),
            "Share of time the network thread waited, 1 is idle",
            lambda: min(1.0, self.network_idle.value),
        )
        registry.gauge(
            MetricName("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent"),
            "Share of time the request handlers waited, 1 is idle",
            lambda: min(1.0, self.handlers_idle.value),
        )
        registry.gauge(
            connections("MemoryPoolAvgDepletedPercent"),
            "Share of time in which connections waited for queued.max.request.bytes",
            lambda: self.memory_depleted.value,
        )
        registry.counter(
            connections("MemoryPoolDepletedTimeTotal"),
            "Seconds in which connections waited for queued.max.request.bytes",
            lambda: 0.0 if memory is None else memory.depleted_seconds,
        )
        if memory is not None:
            registry.gauge(network("MemoryPoolAvailable"), "Bytes left of queued.max.request.bytes", lambda: memory.available)
            registry.gauge(network("MemoryPoolUsed"), "Bytes used of queued.max.request.bytes", lambda: memory.used)
        registry.add(connections("connection-count"), Kind.GAUGE, "Open connections", self._connections)
        registry.add(connections("connection-creation-total"), Kind.COUNTER, "Connections that were opened", self._created)
        registry.add(connections("connection-creation-rate"), Kind.GAUGE, "Connections opened per second", self._creation_rate)
        registry.add(connections("connection-close-total"), Kind.COUNTER, "Connections that were closed", self._gone)
        registry.add(connections("connection-close-rate"), Kind.GAUGE, "Connections closed per second", self._close_rate)
        registry.gauge(
            own("event_loop_longest_pass_seconds"),
            "Longest time in about 15 seconds between two looks of the network thread at its sockets",
            lambda: self.longest_pass,
        )

    def _unsent(self) -> float:
        return sum(
            len(channel.answered) for processor in self._server.processors for channel in list(processor.channels.values())
        )

    def _connections(self) -> Iterator[Sample]:
        return ((labels(processor), len(processor.channels)) for processor in self._server.processors)

    def _created(self) -> Iterator[Sample]:
        return ((labels(processor), processor.opened) for processor in self._server.processors)

    def _creation_rate(self) -> Iterator[Sample]:
        return ((labels(processor), rate.value) for processor, rate in self._opened.items())

    def _gone(self) -> Iterator[Sample]:
        return ((labels(processor), processor.closed) for processor in self._server.processors)

    def _close_rate(self) -> Iterator[Sample]:
        return ((labels(processor), rate.value) for processor, rate in self._closed.items())


def labels(processor: Processor) -> tuple[tuple[str, str], ...]:
    return (("listener", processor.listener), ("networkProcessor", str(processor.number)))

"""The server's two planes: listeners and processors for clients, and, if asked for, a listener of its own for the controller.

    plane    acceptors          processors                             request queue          handlers
    data     one per listener   `num.network.threads` per listener     queued.max.requests    num.io.threads
    control  one                one                                    20                     one

The control plane exists so that a request of the controller never waits behind a backlog of produce and fetch. In
inline mode all of it runs on one thread, and the control plane is drained before each data request: what it waits for
is at most the one that is being handled.

Acceptors bind first; processors read only after `start`, when everything behind them is ready.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from milepost.config.listeners import Listener
from milepost.errors import InvalidArgument
from milepost.frozen_dataclass import frozen_dataclass
from milepost.net.acceptor import Acceptor
from milepost.net.channel import Channel
from milepost.net.connection_limits import ConnectionLimits
from milepost.net.event_loop import READ, EventLoop
from milepost.net.handler_pool import RequestHandlerPool
from milepost.net.memory_pool import LEAST_RECEIVED, MemoryPool
from milepost.net.output_budget import OutputBudget
from milepost.net.processor import MakeChannel, Processor
from milepost.net.refusals import Refusals
from milepost.net.request_channel import Handler, PooledRequestChannel, RequestChannel
from milepost.net.server_metrics import ServerMetrics

logger = logging.getLogger("milepost.net")

CONTROL_PLANE_QUEUE = 20
IDLE_CHECK_SECONDS = 1.0
DRAIN_SECONDS = 5.0
DRAIN_STEP_SECONDS = 0.02
MOST_HELD = 256 << 20
"""Bytes of requests that are not complete after a second, over all connections: where `queued.max.request.bytes` sets no limit."""


@frozen_dataclass
class ServerSettings:
    """Kafka's socket settings under Kafka's names and defaults; `pooled` is ours."""

    num_network_threads: int = 3
    num_io_threads: int = 8
    queued_max_requests: int = 500
    queued_max_request_bytes: int = -1
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    socket_listen_backlog_size: int = 50
    connections_max_idle_ms: int = 600_000
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    pooled: bool = False
    busy_poll: bool = False


class SocketServer:
    def __init__(
        self,
        listeners: Sequence[Listener],
        handler: Handler,
        settings: ServerSettings | None = None,
        *,
        control_listener: Listener | None = None,
        channels: Mapping[str, MakeChannel] | None = None,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        fatal: Callable[[BaseException], None] | None = None,
    ):
        """`channels`: what makes the connections of a listener, where that is no plain `Channel`."""
        self.settings = settings or ServerSettings()
        self.loop = EventLoop(busy_poll=self.settings.busy_poll and not self.settings.pooled)
        self._control_loop = EventLoop() if control_listener else None
        self._fatal = fatal or self._stop_after
        self._user_on_closed = on_closed
        self._channels = channels or {}
        self.fatal_error: BaseException | None = None
        queued_bytes = self.settings.queued_max_request_bytes
        self.memory = MemoryPool[Channel](queued_bytes) if queued_bytes > 0 else None
        self.data_requests = self._request_channel(handler, self.settings.queued_max_requests, self.memory)
        self.control_requests = self._request_channel(handler, CONTROL_PLANE_QUEUE, None)
        self.refusals = Refusals()
        self.output = OutputBudget()
        self.acceptors: list[Acceptor] = []
        self.control_acceptor: Acceptor | None = None
        try:
            for listener in listeners:
                self.acceptors.append(self._bind(listener))
            self.control_acceptor = self._bind(control_listener) if control_listener else None
        except BaseException:
            # The caller never gets this server, so it has to be closed here.
            for acceptor in self.acceptors:
                acceptor.stop()
            for loop in filter(None, (self.loop, self._control_loop)):
                loop.close()
            raise
        self._pools: list[RequestHandlerPool] = []
        self._threads: list[threading.Thread] = []
        self.processors: list[Processor] = []
        self.metrics = ServerMetrics(self)

    def _request_channel(self, handler: Handler, queued: int, memory: MemoryPool[Channel] | None) -> RequestChannel:
        if self.settings.pooled:
            return PooledRequestChannel(handler, memory, queued_max_requests=queued)
        return RequestChannel(handler, memory)

    def _bind(self, listener: Listener) -> Acceptor:
        settings = self.settings
        return Acceptor(
            listener.name,
            listener.host,
            listener.port,
            settings.limits,
            backlog=settings.socket_listen_backlog_size,
            send_buffer=settings.socket_send_buffer_bytes,
            receive_buffer=settings.socket_receive_buffer_bytes,
        )

    # Starting.

    def start(self) -> None:
        """Begin to accept and to read. Call it when handlers can answer."""
        control = self._start_control() if self._control_loop is not None else None
        between = control if control is not None and not self.settings.pooled else None
        for acceptor in self.acceptors:
            processors = [
                self._processor(self.loop, acceptor.listener, self.data_requests, between)
                for _ in range(self.settings.num_network_threads)
            ]
            acceptor.start(self.loop, processors, self._clients)
        if isinstance(self.data_requests, PooledRequestChannel):
            self._pools.append(RequestHandlerPool(self.settings.num_io_threads, self.data_requests, self._fatal))
        self.loop.later(IDLE_CHECK_SECONDS, self._every_second)

    def _processor(
        self, loop: EventLoop, listener: str, requests: RequestChannel, between: Callable[[], None] | None
    ) -> Processor:
        processor = Processor(
            len(self.processors),
            loop,
            requests,
            listener=listener,
            max_request_bytes=self.settings.socket_request_max_bytes,
            max_idle_seconds=self.settings.connections_max_idle_ms / 1000,
            make_channel=self._channels.get(listener, Channel),
            on_closed=self._on_closed,
            between_requests=between,
            refusals=self.refusals,
            output=self.output if loop is self.loop else None,
        )
        self.processors.append(processor)
        self.metrics.add(processor)
        return processor

    def _start_control(self) -> Callable[[], None]:
        """The control plane. Inline, its loop is run by the data plane's: whenever it has something, and between two data requests."""
        loop = self._control_loop
        assert loop is not None and self.control_acceptor is not None
        processor = self._processor(loop, self.control_acceptor.listener, self.control_requests, None)
        self.control_acceptor.start(loop, [processor])
        if isinstance(self.control_requests, PooledRequestChannel):
            self._pools.append(RequestHandlerPool(1, self.control_requests, self._fatal))
            thread = threading.Thread(target=self._run_control, args=(loop,), name="control-plane", daemon=True)
            self._threads.append(thread)
            thread.start()
        else:
            self.loop.register(loop.fileno(), READ, lambda events: loop.run_once(0))
        return lambda: loop.run_once(0)

    def _run_control(self, loop: EventLoop) -> None:
        try:
            loop.run()
        except BaseException as error:
            self._fatal(error)

    @property
    def all_acceptors(self) -> list[Acceptor]:
        return [*self.acceptors, *([self.control_acceptor] if self.control_acceptor else [])]

    def _on_closed(self, channel: Channel) -> None:
        self.settings.limits.closed(channel.peer.rpartition(":")[0])
        self._user_on_closed(channel)

    def _clients(self) -> Iterator[Channel]:
        """The connections of the data plane."""
        for processor in self.processors:
            if processor.loop is self.loop:
                yield from processor.channels.values()

    def _every_second(self) -> None:
        for processor in self.processors:
            if processor.loop is self.loop:
                processor.close_idle()
            else:
                processor.loop.post(processor.close_idle)
        for channel in self.output.too_slow(self._clients()):
            channel.processor.close(
                channel, f"almost none of {channel.out_bytes} bytes was read, while other connections wait for memory"
            )
        if self.memory is None:
            self._shed()
        elif (slow := self.memory.too_slow()) is not None:
            slow.processor.close(
                slow, f"less than {LEAST_RECEIVED} bytes a second came of a request, while others wait for memory"
            )
        self.metrics.sample()
        self.loop.later(IDLE_CHECK_SECONDS, self._every_second)

    def _shed(self) -> None:
        """Close the largest of those incomplete requests that are long in coming, when all together hold too much."""
        now = self.loop.monotonic()
        coming = [channel for channel in self._clients() if channel.frame_since is not None]
        held = sum(channel.received_bytes for channel in coming)
        for channel in sorted(coming, key=lambda channel: -channel.received_bytes):
            if held <= MOST_HELD:
                return
            assert channel.frame_since is not None
            if now > channel.frame_since + IDLE_CHECK_SECONDS:
                held -= channel.received_bytes
                channel.processor.close(
                    channel, f"{channel.received_bytes} bytes of an incomplete request were held, with too many others"
                )

    def handler_idle_seconds(self) -> float:
        """How long the handlers of the data plane have waited for work, each on average."""
        return self._pools[-1].idle_seconds if self._pools else self.loop.idle_seconds

    # Running and stopping.

    def run(self) -> None:
        """Serve on this thread until `stop`. An error that a handler let through ends the server and is raised here."""
        try:
            self.loop.run()
        except BaseException as error:
            self.fatal_error = error
            raise
        if self.fatal_error is not None:
            raise self.fatal_error

    def _stop_after(self, error: BaseException) -> None:
        self.fatal_error = error
        self.loop.stop()

    def stop(self) -> None:
        self.loop.post(self.loop.stop)

    def resize_handlers(self, size: int) -> None:
        """Change `num.io.threads` while the server runs."""
        if not self._pools:
            raise InvalidArgument("requests are handled on the network thread here: there is no pool of handlers to resize")
        self._pools[-1].resize(size)  # the data plane's is made last

    def shutdown(self) -> None:
        """Take no more connections and requests, answer those that are here, send what is ready, close everything.

        A request that waits for something is not answered any more, nor is anything after a fatal error: nobody knows what
        the answer would be worth.
        """
        for acceptor in self.all_acceptors:
            acceptor.stop()
        for pool in self._pools:
            pool.shutdown()
        if self._control_loop is not None:
            self._control_loop.stop()
        for thread in self._threads:
            thread.join(timeout=5)
        if self.fatal_error is None:
            self._drain()
        for processor in self.processors:
            processor.close_all()
        self.loop.close()
        if self._control_loop is not None:
            self._control_loop.close()

    def _drain(self) -> None:
        for processor in self.processors:
            processor.stop_reading()
        until = self.loop.monotonic() + DRAIN_SECONDS
        loops = [loop for loop in (self.loop, self._control_loop) if loop is not None]
        for loop in loops:
            loop.run_once(0)
        while any(processor.is_sending for processor in self.processors) and self.loop.monotonic() < until:
            for loop in loops:
                loop.run_once(DRAIN_STEP_SECONDS)

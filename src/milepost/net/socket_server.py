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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from milepost.errors import InvalidArgument
from milepost.net.acceptor import Acceptor
from milepost.net.channel import Channel
from milepost.net.connection_limits import ConnectionLimits
from milepost.net.event_loop import READ, EventLoop
from milepost.net.handler_pool import RequestHandlerPool
from milepost.net.processor import Processor
from milepost.net.request import Request
from milepost.net.request_channel import Handler, PooledRequestChannel, RequestChannel

logger = logging.getLogger("milepost.net")

CONTROL_PLANE_QUEUE = 20
IDLE_CHECK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Kafka's socket settings under Kafka's names and defaults; `pooled` is ours."""

    num_network_threads: int = 3
    num_io_threads: int = 8
    queued_max_requests: int = 500
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    socket_listen_backlog_size: int = 50
    connections_max_idle_ms: int = 600_000
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    pooled: bool = False


class SocketServer:
    def __init__(
        self,
        listeners: Sequence[Listener],
        handler: Handler,
        settings: ServerSettings | None = None,
        *,
        control_listener: Listener | None = None,
        on_completed: Callable[[Request], None] | None = None,
        on_closed: Callable[[Channel], None] = lambda channel: None,
        fatal: Callable[[BaseException], None] | None = None,
    ):
        self.settings = settings or ServerSettings()
        self.loop = EventLoop()
        self._control_loop = EventLoop() if control_listener else None
        self._fatal = fatal or self._stop_after
        self._user_on_closed = on_closed
        self.fatal_error: BaseException | None = None
        self.data_requests = self._request_channel(handler, on_completed, self.settings.queued_max_requests)
        self.control_requests = self._request_channel(handler, on_completed, CONTROL_PLANE_QUEUE)
        self.acceptors: list[Acceptor] = []
        self.control_acceptor: Acceptor | None = None
        try:
            for listener in listeners:
                self.acceptors.append(self._bind(listener))
            self.control_acceptor = self._bind(control_listener) if control_listener else None
        except BaseException:
            # Nobody gets to see this server, so nobody else can close what it has.
            for acceptor in self.acceptors:
                acceptor.stop()
            for loop in filter(None, (self.loop, self._control_loop)):
                loop.close()
            raise
        self._pools: list[RequestHandlerPool] = []
        self._threads: list[threading.Thread] = []
        self.processors: list[Processor] = []

    def _request_channel(self, handler: Handler, on_completed: Callable[[Request], None] | None, queued: int) -> RequestChannel:
        if self.settings.pooled:
            return PooledRequestChannel(handler, on_completed, queued_max_requests=queued)
        return RequestChannel(handler, on_completed)

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
                self._processor(self.loop, self.data_requests, between) for _ in range(self.settings.num_network_threads)
            ]
            acceptor.start(self.loop, processors)
        if isinstance(self.data_requests, PooledRequestChannel):
            self._pools.append(RequestHandlerPool(self.settings.num_io_threads, self.data_requests, self._fatal))
            for processor in self.processors:
                processor.runs_on_this_thread()
        self.loop.later(IDLE_CHECK_SECONDS, self._close_idle)

    def _processor(self, loop: EventLoop, requests: RequestChannel, between: Callable[[], None] | None) -> Processor:
        processor = Processor(
            len(self.processors),
            loop,
            requests,
            max_request_bytes=self.settings.socket_request_max_bytes,
            max_idle_seconds=self.settings.connections_max_idle_ms / 1000,
            on_closed=self._on_closed,
            between_requests=between,
        )
        self.processors.append(processor)
        return processor

    def _start_control(self) -> Callable[[], None]:
        """The control plane. Inline, its loop is run by the data plane's: whenever it has something, and between two data requests."""
        loop = self._control_loop
        assert loop is not None and self.control_acceptor is not None
        processor = self._processor(loop, self.control_requests, None)
        self.control_acceptor.start(loop, [processor])
        if isinstance(self.control_requests, PooledRequestChannel):
            self._pools.append(RequestHandlerPool(1, self.control_requests, self._fatal))
            thread = threading.Thread(target=self._run_control, args=(loop, processor), name="control-plane", daemon=True)
            self._threads.append(thread)
            thread.start()
        else:
            self.loop.register(loop.fileno(), READ, lambda events: loop.run_once(0))
        return lambda: loop.run_once(0)

    def _run_control(self, loop: EventLoop, processor: Processor) -> None:
        processor.runs_on_this_thread()
        loop.run()

    def _on_closed(self, channel: Channel) -> None:
        self.settings.limits.closed(channel.peer.rpartition(":")[0])
        self._user_on_closed(channel)

    def _close_idle(self) -> None:
        for processor in self.processors:
            if processor.loop is self.loop:
                processor.close_idle()
        self.loop.later(IDLE_CHECK_SECONDS, self._close_idle)

    # Running and stopping.

    def run(self) -> None:
        """Serve on this thread until `stop`. An error that a handler let through ends the server and is raised here."""
        for processor in self.processors:
            if self.settings.pooled and processor.loop is self.loop:
                processor.runs_on_this_thread()
        self.loop.run()
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
        """Take no more connections, end the handlers, send what is ready, close everything."""
        for acceptor in [*self.acceptors, *([self.control_acceptor] if self.control_acceptor else [])]:
            acceptor.stop()
        for pool in self._pools:
            pool.shutdown()
        if self._control_loop is not None:
            self._control_loop.stop()
        for thread in self._threads:
            thread.join(timeout=5)
        self.loop.run_once(0)
        for processor in self.processors:
            processor.close_all()
        self.loop.close()
        if self._control_loop is not None:
            self._control_loop.close()

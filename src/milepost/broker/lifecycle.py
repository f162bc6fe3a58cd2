"""The life of a broker, the same for every kind.

    start   others hear of it, then sockets are read, then the logs are looked after. Loaded and bound it was when it was made
    run     one thread: sockets, requests, timers
    stop    others take what they can; then no more connections, coordinators end their timers, logs are closed, the marker of a clean
            stop is written last

`with Life(AloneBroker(config)) as broker: broker.bootstrap_servers` runs it on a thread of its own; what ends that thread is raised when
the block ends. For other people's programs there is `broker/embedded`.
"""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Generic, TypeVar

from milepost.broker.broker import Broker
from milepost.broker.secured_listeners import Reloading

logger = logging.getLogger("milepost.broker")

B = TypeVar("B", bound=Broker)


class Life(Generic[B]):
    def __init__(self, broker: B):
        self.broker = broker
        self.thread = threading.Thread(target=self._run_apart, name="milepost-broker", daemon=True)
        self.failure: BaseException | None = None
        """What ended the thread."""

    def start(self) -> None:
        """Begin to listen. `run` serves."""
        broker = self.broker
        with broker.abandoned_if_it_fails():
            broker.membership.join()
        broker.server.start()
        broker.membership.settle()
        broker.maintenance.start()
        Reloading(broker.channels, broker.loop).start()
        if broker.metrics_endpoint is not None:
            broker.metrics_endpoint.start()

    def run(self) -> None:
        self.broker.server.run()

    def stop(self) -> None:
        """Ask a broker that runs on another thread to stop."""
        self.broker.membership.leave(self.broker.server.stop)

    def close(self) -> None:
        """Let go of everything. The logs are left as after a clean stop, unless it was an error that ended the server."""
        broker = self.broker
        broker.membership.withdraw()
        broker.record_examiner.stop()
        broker.maintenance.stop()
        if broker.metrics_endpoint is not None:
            broker.metrics_endpoint.close()
        broker.server.shutdown()
        broker.dispatcher.slices.close()
        broker.coordinators.close()
        if broker.server.fatal_error is None:
            broker.membership.keep()
            broker.logs.shutdown()
        else:
            broker.logs.abandon()  # their state is unknown: the next start recovers them
        broker.membership.end()

    # On a thread of its own.

    def __enter__(self) -> B:
        self.start()
        self.thread.start()
        return self.broker

    def _run_apart(self) -> None:
        try:
            self.run()
        except BaseException as error:
            logger.error("the broker stopped: %s", error)
            self.failure = error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
        self.thread.join()
        self.close()
        if self.failure is not None:
            raise self.failure

"""`/metrics` and `/healthz` of a broker, over HTTP on a port of its own (`milepost.metrics.port`).

    /metrics   every metric in the text format of Prometheus; the names are those of `milepost.metrics.dialect`
    /healthz   200 while the broker serves, 503 when none of its data directories can be used

The broker's own loop serves it. Text is made in slices of a millisecond with requests in between, so ten thousand partitions keep
nobody waiting, and it is not of one moment: numbers that belong together may differ by what happened meanwhile. Whoever asks
while a text is being made gets the same one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from milepost.broker.telemetry.broker_metrics import BrokerMetrics
from milepost.metrics import prometheus
from milepost.metrics.names import Dialect
from milepost.net.http_server import FAILED, Give, HttpServer, Page

if TYPE_CHECKING:
    from milepost.broker.parts import Parts

logger = logging.getLogger("milepost.broker")

SLICE_SECONDS = 0.001
PAUSE_SECONDS = 0.001


class MetricsEndpoint:
    def __init__(self, broker: Parts):
        """Bound at once; served from `start` on."""
        self._broker = broker
        self._waiting: list[Give] = []
        config = broker.config
        assert config.milepost_metrics_port is not None
        self._dialect = Dialect(config.milepost_metrics_dialect)
        self._server = HttpServer(
            config.milepost_metrics_host,
            config.milepost_metrics_port,
            {"/metrics": self._metrics, "/healthz": self._health},
        )

    @property
    def host(self) -> str:
        return self._server.address[0]

    @property
    def port(self) -> int:
        return self._server.address[1]

    @property
    def url(self) -> str:
        host, port = self._server.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def start(self) -> None:
        self._server.start(self._broker.server.loop)

    def close(self) -> None:
        self._server.close()

    @cached_property
    def _known(self) -> BrokerMetrics:
        return BrokerMetrics(self._broker)

    def _metrics(self, give: Give) -> None:
        self._waiting.append(give)
        if len(self._waiting) == 1:
            self._go_on(self._text(), [])

    def _text(self) -> Iterator[str]:
        yield from prometheus.pieces(self._known.registry, self._dialect)

    def _go_on(self, pieces: Iterator[str], made: list[str]) -> None:
        """Make the text for a moment, and go on later if that did not do."""
        loop = self._broker.loop
        end = loop.monotonic() + SLICE_SECONDS
        try:
            for piece in pieces:
                made.append(piece)
                if loop.monotonic() >= end:
                    loop.later(PAUSE_SECONDS, lambda: self._go_on(pieces, made))
                    return
            page = Page("".join(made).encode(), prometheus.CONTENT_TYPE)
        except Exception:
            # A metric that cannot be read is a bug, and no reason to stop serving records.
            logger.exception("the metrics could not be read")
            page = FAILED
        waiting, self._waiting = self._waiting, []
        for give in waiting:
            give(page)

    def _health(self, give: Give) -> None:
        logs = self._broker.logs
        offline = "".join(f"offline: {reason}\n" for reason in logs.offline.values())
        give(Page(f"ok\n{offline}".encode()) if logs.directories else Page(f"no data directory\n{offline}".encode(), status=503))

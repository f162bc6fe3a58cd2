"""Requests of a broker to its controller, whoever that is by then: asked again until somebody answers who is in office.

No answer, an unknown controller, or at the top of an answer 41 NOT_CONTROLLER, 77 STALE_BROKER_EPOCH (we registered anew, or the controller
has not seen it yet) or 31 CLUSTER_AUTHORIZATION_FAILED (it has not heard of us yet): again after a moment, to whoever is controller then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from milepost.cluster.told import ToldCluster
from milepost.errors import MilepostError
from milepost.loop import Timers
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.message import Message
from milepost.replica.peers import Peers

logger = logging.getLogger("milepost.cluster")

ASK_AGAIN = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
RETRY_SECONDS = 0.1
TIMEOUT_SECONDS = 30.0


class ControllerLink:
    def __init__(self, cluster: ToldCluster, peers: Peers, timers: Timers):
        self._cluster = cluster
        self._peers = peers
        self._timers = timers
        self._is_closed = False

    def ask(
        self,
        make: Callable[[], Message | None],
        version: int | None,
        on_answer: Callable[[Any], object],
        *,
        purpose: str = "to-controller",
    ) -> None:
        """Send what `make` gives, made anew for each try; None gives up."""
        if self._is_closed:
            return
        request, controller = make(), self._cluster.controller
        if request is None:
            return

        def again() -> None:
            self._timers.later(RETRY_SECONDS, lambda: self.ask(make, version, on_answer, purpose=purpose))

        def answered(response: Any) -> None:
            if response.error_code in ASK_AGAIN:
                again()
            else:
                on_answer(response)

        def failed(error: MilepostError) -> None:
            logger.info("the controller does not answer %s: %s", type(request).__name__, error)
            again()

        if controller is None:
            again()
        else:
            self._peers.send(controller, request, version, answered, failed, purpose=purpose, timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        self._is_closed = True

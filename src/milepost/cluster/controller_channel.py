"""Requests of a broker to the controller, repeated until the current controller answers.

Retried after a moment, with the controller of that moment: no answer, an unknown controller, or as top-level error NOT_CONTROLLER (41),
STALE_BROKER_EPOCH (77; this broker has registered again, which one of the two has not seen yet) or CLUSTER_AUTHORIZATION_FAILED (31; the
controller has not seen the registration yet).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.errors import MilepostError
from milepost.loop import Timers
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.message import Message
from milepost.replica.peers import Peers

logger = logging.getLogger("milepost.cluster")

ASK_AGAIN = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
RETRY_SECONDS = 0.1
TIMEOUT_SECONDS = 30.0


class ControllerChannel:
    def __init__(self, cluster: ControllerMetadata, peers: Peers, timers: Timers):
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
            logger.info("request %s to the controller failed: %s", type(request).__name__, error)
            again()

        if controller is None:
            again()
        else:
            self._peers.send(controller, request, version, answered, failed, purpose=purpose, timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        self._is_closed = True

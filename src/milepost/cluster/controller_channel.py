"""Requests of a broker to the controller, repeated until the current controller answers.

Retried after a moment, with the controller of that moment: no answer, an unknown controller, or as top-level error NOT_CONTROLLER (41),
STALE_BROKER_EPOCH (77; this broker has registered again, which one of the two has not seen yet) or CLUSTER_AUTHORIZATION_FAILED (31; the
controller has not seen the registration yet). All of these pass as a rule; that one of them lasts is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.errors import MilepostError
from milepost.loop import Timers
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.message import Message
from milepost.replica.peers import Peers

logger = logging.getLogger("milepost.cluster")

ASK_AGAIN = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
RETRY_SECONDS = 0.1
TIMEOUT_SECONDS = 30.0
TRIES_UNTIL_SAID = 50


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
        tries: int = 1,
    ) -> None:
        """Send what `make` gives, made anew for each try; None gives up."""
        if self._is_closed:
            return
        request, controller = make(), self._cluster.controller
        if request is None:
            return

        def again(reason: object) -> None:
            logger.log(
                {1: logging.INFO, TRIES_UNTIL_SAID: logging.WARNING}.get(tries, logging.DEBUG),
                "%s to the controller: try %d without success: %s; trying again every %g s",
                type(request).__name__,
                tries,
                reason,
                RETRY_SECONDS,
            )
            self._timers.later(RETRY_SECONDS, lambda: self.ask(make, version, on_answer, purpose=purpose, tries=tries + 1))

        def answered(response: Any) -> None:
            code = response.error_code
            if code in ASK_AGAIN:
                again(f"the answer is {error_name(code)} ({code})")
            else:
                on_answer(response)

        def failed(error: MilepostError) -> None:
            again(error)

        if controller is None:
            again("no broker is known to be it")
        else:
            self._peers.send(controller, request, version, answered, failed, purpose=purpose, timeout=TIMEOUT_SECONDS)

    def close(self) -> None:
        self._is_closed = True

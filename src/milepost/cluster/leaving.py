"""A broker that stops politely: the controller moves what it leads to others first (ControlledShutdown).

The answer names what it still leads. That is tried again a few times; then it goes anyway, and the others notice. If it is the controller
itself, the others are told first who leads now, as long as they listen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.cluster.controller_link import ControllerLink
from milepost.cluster.member import Member
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.loop import Timers
from milepost.protocol.messages import ControlledShutdownRequest

if TYPE_CHECKING:
    from milepost.config.broker import BrokerConfig

logger = logging.getLogger("milepost.cluster")

ANSWER_SECONDS = 10.0
TELLING_SECONDS = 0.02
TELLING_TRIES = 50


class Leaving:
    def __init__(self, member: Member, link: ControllerLink, versions: ProtocolVersions, timers: Timers):
        self._member = member
        self._link = link
        self._versions = versions
        self._timers = timers
        self.is_leaving = False

    def leave(self, done: Callable[[], object], config: BrokerConfig) -> None:
        """`done` is called once. A second call, of somebody who is in a hurry, ends it at once."""
        if self.is_leaving or not self._member.is_registered:
            self.is_leaving = True
            done()
            return
        self.is_leaving = True
        self._try(done, config.controlled_shutdown_max_retries, config.controlled_shutdown_retry_backoff_ms / 1000)

    def _try(self, done: Callable[[], object], tries_left: int, pause: float) -> None:
        is_open = True

        def answered(response: Any) -> None:
            nonlocal is_open
            if not is_open:
                return
            is_open = False
            given_up.cancel()
            if response.error_code == 0 and not response.remaining_partitions:
                self._when_told(done)
            elif tries_left <= 1:
                logger.warning("broker %d stops though it leads partitions that nobody else can", self._member.broker_id)
                done()
            else:
                self._timers.later(pause, lambda: self._try(done, tries_left - 1, pause))

        def late() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                logger.warning(
                    "broker %d stops though no controller answered within %g s", self._member.broker_id, ANSWER_SECONDS
                )
                done()

        given_up = self._timers.later(ANSWER_SECONDS, late)
        self._link.ask(
            lambda: (
                ControlledShutdownRequest(broker_id=self._member.broker_id, broker_epoch=self._member.broker_epoch)
                if is_open
                else None
            ),
            self._versions.controlled_shutdown,
            answered,
            purpose="shutdown",
        )

    def _when_told(self, done: Callable[[], object], tries_left: int = TELLING_TRIES) -> None:
        controller = self._member.controller
        if controller is None or not controller.office.channels.waiting or not tries_left:
            done()
        else:
            self._timers.later(TELLING_SECONDS, lambda: self._when_told(done, tries_left - 1))

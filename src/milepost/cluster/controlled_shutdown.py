"""Controlled shutdown: before a broker stops, the controller moves its leaderships to other brokers.

The response names what it still leads. That is retried a few times; then the broker stops anyway, and its session ends. If it is the
controller itself, it first waits until the other brokers have received the new leaders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.cluster.controller_channel import ControllerChannel
from milepost.cluster.member import ClusterMember
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.loop import Timers
from milepost.protocol.messages import ControlledShutdownRequest

if TYPE_CHECKING:
    from milepost.config.broker import BrokerConfig

logger = logging.getLogger("milepost.cluster")

ANSWER_SECONDS = 10.0
LOOK_SECONDS = 0.02
MOST_LOOKS = 50


class ControlledShutdown:
    def __init__(self, member: ClusterMember, controller_channel: ControllerChannel, versions: ProtocolVersions, timers: Timers):
        self._member = member
        self._controller_channel = controller_channel
        self._versions = versions
        self._timers = timers
        self.is_shutting_down = False

    def start(self, done: Callable[[], object], config: BrokerConfig) -> None:
        """`done` is called once. A second call stops at once."""
        if self.is_shutting_down or not self._member.is_registered:
            self.is_shutting_down = True
            done()
            return
        self.is_shutting_down = True
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
                self._when_sent(done)
            elif tries_left <= 1:
                logger.warning(
                    "broker %d stops although it still leads partitions: no other replica can take them", self._member.broker_id
                )
                done()
            else:
                self._timers.later(pause, lambda: self._try(done, tries_left - 1, pause))

        def late() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                logger.warning("broker %d stops: no controller answered within %g s", self._member.broker_id, ANSWER_SECONDS)
                done()

        given_up = self._timers.later(ANSWER_SECONDS, late)
        self._controller_channel.ask(
            lambda: (
                ControlledShutdownRequest(broker_id=self._member.broker_id, broker_epoch=self._member.broker_epoch)
                if is_open
                else None
            ),
            self._versions.controlled_shutdown,
            answered,
            purpose="shutdown",
        )

    def _when_sent(self, done: Callable[[], object], tries_left: int = MOST_LOOKS) -> None:
        controller = self._member.controller
        if controller is None or not controller.parts.channels.waiting or not tries_left:
            done()
        else:
            self._timers.later(LOOK_SECONDS, lambda: self._when_sent(done, tries_left - 1))

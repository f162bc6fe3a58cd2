"""Whether this broker may still act as leader after it was away: asleep, or busy with one thing for too long.

A process that was stopped for longer than its ZooKeeper session lives may have been replaced without knowing. So the loop notes the time
of its turns; whoever is about to act as leader looks how long ago the last turn was. A gap longer than the session raises the fence:
clients are told to look for the leader (6 NOT_LEADER_OR_FOLLOWER) until ZooKeeper has answered. That ZooKeeper is silent does not raise it:
a broker that is awake and has its followers can go on, for nobody can be elected meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from milepost.loop import Timer, Timers

logger = logging.getLogger("milepost.replica")

TURNS_PER_SESSION = 6


class Fence:
    def __init__(
        self,
        monotonic: Callable[[], float],
        timers: Timers,
        session_seconds: float,
        ask: Callable[[Callable[[], object]], object],
    ):
        """`ask` asks ZooKeeper for anything and calls back when it answered in a session of ours."""
        self._monotonic = monotonic
        self._timers = timers
        self._session_seconds = session_seconds
        self._ask = ask
        self._last_turn = monotonic()
        self._is_raised = False
        self._timer: Timer | None = None

    def start(self) -> None:
        self.is_raised()
        self._last_turn = self._monotonic()
        self._timer = self._timers.later(self._session_seconds / TURNS_PER_SESSION, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def is_raised(self) -> bool:
        if not self._is_raised:
            away = self._monotonic() - self._last_turn
            if away > self._session_seconds:
                logger.warning("nothing was done for %.1f s, longer than the session lasts: who leads is asked first", away)
                self._is_raised = True
                self._last_turn = self._monotonic()
                self._ask(self._lower)
        return self._is_raised

    def _lower(self) -> None:
        self._is_raised = False

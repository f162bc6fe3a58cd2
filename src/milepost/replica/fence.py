"""Whether this broker may still act as leader after it was away: asleep, or busy with one thing for too long.

A process that was stopped for longer than its ZooKeeper session lives may have been replaced without knowing. So the loop notes the time
of its turns, and before the broker acts as leader it checks how long ago the last turn was. After a gap longer than the session it is
fenced: clients get NOT_LEADER_OR_FOLLOWER (6) until ZooKeeper has answered. A silent ZooKeeper does not fence it: a broker that is awake
and has its followers can go on, because no other leader can be elected meanwhile.
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
        self._is_fenced = False
        self._timer: Timer | None = None

    def start(self) -> None:
        self.is_fenced()
        self._last_turn = self._monotonic()
        self._timer = self._timers.later(self._session_seconds / TURNS_PER_SESSION, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def is_fenced(self) -> bool:
        if not self._is_fenced:
            away = self._monotonic() - self._last_turn
            if away > self._session_seconds:
                logger.warning("event loop stalled for %.1f s, longer than the session; re-checking leadership", away)
                self._is_fenced = True
                self._last_turn = self._monotonic()
                self._ask(self._lower)
        return self._is_fenced

    def _lower(self) -> None:
        self._is_fenced = False

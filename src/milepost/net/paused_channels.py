"""Connections that are left alone until there is memory for what they send (`memory_pool`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from milepost.net.channel import Channel


class PausedChannels:
    """Of one processor."""

    def __init__(self, post: Callable[[Callable[[], object]], object], resume: Callable[[Channel], object]):
        self._post = post
        self._resume = resume
        self._waiting: deque[Channel] = deque()

    def add(self, channel: Channel) -> None:
        channel.is_paused_for_memory = True
        self._waiting.append(channel)

    def memory_available(self) -> None:
        """Called when memory was released, on any thread."""
        self._post(self._resume_all)

    def _resume_all(self) -> None:
        """Who waited longest first. Those for whom there is nothing yet wait on, in this order."""
        waiting, self._waiting = self._waiting, deque()
        for channel in waiting:
            channel.is_paused_for_memory = False
            self._resume(channel)

"""Where requests wait that cannot be answered yet: for data to arrive, or for their time to run out.

A waiting operation watches one or more keys (partitions). Whatever changes a key calls `check`: each operation that
watches it gets the key and checks whether it can complete now. A timer completes it anyway when its time is up.
Either way it completes once, and is forgotten under all its keys.

Who waits for the same keys again and again may stay (`watch`), and keeps an eye on the clock by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from milepost.loop import Timer, Timers
from milepost.topic_partition import TopicPartition

COMMITTED, START = "committed", "start"
"""In front of a partition in a key: what all replicas have to have, or where their logs begin. A partition alone: its end."""


def start_key(partition: TopicPartition) -> Hashable:
    """What those wait for who want all replicas to have dropped records."""
    return START, partition


class Watcher(Protocol):
    @property
    def keys(self) -> Sequence[Hashable]: ...

    @property
    def is_waiting(self) -> bool: ...

    def attempt(self, key: Hashable) -> bool:
        """Something about the key changed. Whether it need not be called again."""
        ...


class Waiting:
    """One operation that waits."""

    __slots__ = ("_complete", "_is_done", "_try_complete", "keys", "timer")

    is_waiting = True

    def __init__(self, keys: Sequence[Hashable], try_complete: Callable[[Hashable], bool], complete: Callable[[], object]):
        self.keys = keys
        self._try_complete = try_complete
        self._complete = complete
        self._is_done = False
        self.timer: Timer | None = None

    def attempt(self, key: Hashable) -> bool:
        if not self._is_done and self._try_complete(key):
            self.finish()
        return self._is_done

    def finish(self) -> None:
        if not self._is_done:
            self._is_done = True
            if self.timer is not None:
                self.timer.cancel()
            self._complete()


class Purgatory:
    def __init__(self, timers: Timers):
        self._timers = timers
        # In the order in which they came; a dict because one that is done leaves from anywhere.
        self.watchers: dict[Hashable, dict[Watcher, None]] = {}

    def __len__(self) -> int:
        return len(self.waiting())

    def waiting(self) -> list[Watcher]:
        """Each of those that wait, once."""
        watchers = {id(each): each for watchers in self.watchers.values() for each in watchers if each.is_waiting}
        return list(watchers.values())

    def wait(
        self, keys: Sequence[Hashable], try_complete: Callable[[Hashable], bool], complete: Callable[[], object], seconds: float
    ) -> Waiting:
        """Complete as soon as `try_complete` says so of one of the keys that changed, at the latest after `seconds`."""
        waiting = Waiting(keys, try_complete, complete)
        self.watch(waiting)
        waiting.timer = self._timers.later(seconds, lambda: self._expire(waiting))
        return waiting

    def watch(self, watcher: Watcher) -> None:
        """Tell it of every change of its keys, until it says that this is enough or is forgotten."""
        for key in watcher.keys:
            self.watchers.setdefault(key, {})[watcher] = None

    def check(self, key: Hashable) -> None:
        """Something about the key changed."""
        if key in self.watchers:
            for waiting in list(self.watchers[key]):
                if waiting.attempt(key):
                    self.forget(waiting)

    def _expire(self, waiting: Waiting) -> None:
        waiting.finish()
        self.forget(waiting)

    def cancel(self, waiting: Waiting) -> None:
        """Forget an operation whose client has disconnected."""
        if waiting.timer is not None:
            waiting.timer.cancel()
        self.forget(waiting)

    def forget(self, watcher: Watcher) -> None:
        for key in watcher.keys:
            watchers = self.watchers.get(key)
            if watchers is not None:
                watchers.pop(watcher, None)
                if not watchers:
                    del self.watchers[key]

"""kazoo's handler with cheaper promises.

A new controller reads thousands of znodes, each with a promise of kazoo's. One of those has a lock and a condition, and its callbacks go
through a queue to another thread: half of the work of reading a znode. These have neither, and a callback of a success runs where the
answer was read. One of a failure goes through the queue as ever: when a connection is lost kazoo fails everything that waits, one after
the other, and a callback that asks again would fail again, for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

_NONE = object()


class Promise:
    """What kazoo expects of its `AsyncResult`. A callback runs once: it is taken out of the list before."""

    __slots__ = ("_callbacks", "_failure", "_handler", "value")

    def __init__(self, handler: SequentialThreadingHandler):
        self._handler = handler
        self._failure: Any = _NONE
        self._callbacks: list[Callable[[Promise], object]] = []
        self.value: Any = None

    def ready(self) -> bool:
        return self._failure is not _NONE

    def successful(self) -> bool:
        return self._failure is None

    @property
    def exception(self) -> Any:
        return None if self._failure is _NONE else self._failure

    def set(self, value: Any = None) -> None:
        self.value, self._failure = value, None
        self._call()

    def set_exception(self, exception: BaseException) -> None:
        self._failure = exception
        self._call()

    def rawlink(self, callback: Callable[[Promise], object]) -> None:
        self._callbacks.append(callback)
        if self.ready():
            self._call()

    def unlink(self, callback: Callable[[Promise], object]) -> None:
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def _call(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:  # another thread was faster
                return
            if self._failure is not None and self._handler.running:
                self._handler.completion_queue.put(partial(callback, self))
            else:
                callback(self)

    def wait(self, timeout: float | None = None) -> bool:
        if not self.ready():
            done = threading.Event()
            self.rawlink(lambda _: done.set())
            done.wait(timeout)
        return self.ready()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not (self.wait(timeout) if block else self.ready()):
            raise KazooTimeoutError()
        if self._failure is not None:
            raise self._failure
        return self.value

    def get_nowait(self) -> Any:
        return self.get(block=False)


class PromiseHandler(SequentialThreadingHandler):  # type: ignore[misc]
    def async_result(self) -> Promise:
        return Promise(self)

"""The one lock of a broker whose requests are handled by a pool of threads: one thing runs at a time.

Logs, partitions and coordinators know no locks. Inline, one thread runs everything that touches them. With a pool
(`request.channel.mode=pooled`) each handler and each task of the loop goes through the gate first: under the GIL they could not
run beside each other anyway, except while the kernel is at work.

Two kinds of work go before any waiting data request: requests of the control plane, which so wait for one data request at most,
and tasks of the loop, behind which all sockets wait. Within each kind the order is first come, first served: a long request, which
leaves and comes back for each of its slices, lets everything pass that came meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from milepost.loop import Timer
from milepost.net.event_loop import EventLoop
from milepost.net.request import Request
from milepost.net.request_channel import Handler


class ExclusiveGate:
    def __init__(self, first_listener: str | None = None):
        """`first_listener`: the one whose requests go first."""
        self._first_listener = first_listener
        self._condition = threading.Condition()
        self._is_taken = False
        self._first: deque[object] = deque()
        self._others: deque[object] = deque()

    @contextmanager
    def passing(self, *, first: bool) -> Iterator[None]:
        line, ticket = self._first if first else self._others, object()
        with self._condition:
            line.append(ticket)
            while self._is_taken or (self._first or self._others)[0] is not ticket:
                self._condition.wait()
            line.popleft()
            self._is_taken = True
        try:
            yield
        finally:
            with self._condition:
                self._is_taken = False
                self._condition.notify_all()

    def handler(self, handle: Handler) -> Handler:
        """The same handler, one request at a time."""

        def handle_in_turn(request: Request) -> None:
            with self.passing(first=request.channel.listener == self._first_listener):
                handle(request)

        return handle_in_turn


class GatedLoop:
    """A loop as the broker sees it: whatever it gives to the loop is run in turn."""

    def __init__(self, loop: EventLoop, gate: ExclusiveGate):
        self._loop = loop
        self._gate = gate

    @property
    def monotonic(self) -> Callable[[], float]:
        return self._loop.monotonic

    @property
    def now(self) -> float:
        return self._loop.now

    def later(self, seconds: float, task: Callable[[], object]) -> Timer:
        return self._loop.later(seconds, partial(self.run_in_turn, task))

    def post(self, task: Callable[[], object]) -> None:
        self._loop.post(partial(self.run_in_turn, task))

    def next_pass(self, task: Callable[[], object]) -> None:
        self._loop.next_pass(partial(self._run_in_turn_last, task))

    def _run_in_turn_last(self, task: Callable[[], object]) -> None:
        with self._gate.passing(first=False):
            task()

    def run_in_turn(self, task: Callable[..., object], *arguments: object) -> None:
        with self._gate.passing(first=True):
            task(*arguments)

"""One life of one program: what is given to it happens while it lives, and not while it is stopped.

A program that is paused (SIGSTOP, a long collection, a frozen machine) finds everything that came meanwhile waiting, in order, when it goes
on; its clock has gone on, too. One whose disk is slow needs a while for each thing it does. After `kill` nothing of it ever runs again.
"""

from __future__ import annotations

from collections import deque

from tests.simulation.world import Task, Timer, World


class Process:
    def __init__(self, world: World, name: str):
        self.world = world
        self.name = name
        self.is_alive = True
        self.slowness = 0.0
        """Seconds that everything takes."""
        self.paused_until = 0.0
        self._busy_until = 0.0
        self._inbox: deque[Task] = deque()

    # What it takes its time from.

    def monotonic(self) -> float:
        return self.world.now

    @property
    def now(self) -> float:
        return self.world.now

    def now_ms(self) -> int:
        return self.world.now_ms()

    def post(self, task: Task) -> None:
        self.world.at(self.world.now, lambda: self.run(task))

    def next_pass(self, task: Task) -> None:
        """Behind everything that is known by now to happen at this moment."""
        self.post(task)

    def later(self, seconds: float, task: Task) -> Timer:
        timer = Timer(task)

        def due() -> None:
            if timer.task is not None:
                self.run(lambda: timer.task() if timer.task is not None else None)

        self.world.after(seconds, due)
        return timer

    def run(self, task: Task) -> None:
        """Now, or as soon as the program goes on; after everything that came before."""
        if not self.is_alive:
            return
        if self._inbox or self.world.now < self._ready:
            self._inbox.append(task)
            if len(self._inbox) == 1:
                self.world.at(self._ready, self._take_next)
        else:
            self._do(task)

    @property
    def _ready(self) -> float:
        return max(self.paused_until, self._busy_until)

    def _do(self, task: Task) -> None:
        self._busy_until = self.world.now + self.slowness
        task()

    def _take_next(self) -> None:
        """The oldest of what waits. It stays in the inbox meanwhile: what it gives rise to comes after the rest."""
        if not self.is_alive:
            return
        if self.world.now >= self._ready:
            self._do(self._inbox[0])
            self._inbox.popleft()
        if self._inbox:
            self.world.at(self._ready, self._take_next)

    # What can happen to it.

    @property
    def is_paused(self) -> bool:
        return self.world.now < self.paused_until

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.now + seconds)

    def kill(self) -> None:
        self.is_alive = False

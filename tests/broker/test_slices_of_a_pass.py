"""Many requests that come at the same moment: their first slices together are not much longer than a few."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from milepost.broker import slices
from milepost.broker.slices import Slices
from milepost.net.output_budget import OutputBudget

STEP_SECONDS = 0.0001


class ManualLoop:
    """Time passes when somebody works."""

    def __init__(self) -> None:
        self.now = self.time = 100.0
        self.waiting: deque[Callable[[], object]] = deque()

    def monotonic(self) -> float:
        return self.time

    def next_pass(self, task: Callable[[], object]) -> None:
        self.waiting.append(task)

    def run_pass(self) -> float:
        """The next long work; how long it took."""
        self.now = self.time
        self.waiting.popleft()()
        return self.time - self.now


def asking(*, is_urgent: bool = False) -> Any:
    request = SimpleNamespace(keep_frame=lambda: None)
    return SimpleNamespace(is_long=False, goes_on=False, is_urgent=is_urgent, is_connected=True, request=request)


def test_requests_of_many_connections_that_are_ready_together_share_a_pass():
    loop = ManualLoop()
    broker: Any = SimpleNamespace(loop=loop, server=SimpleNamespace(output=OutputBudget()))
    works: Slices[Any] = Slices(broker, lambda context: None)
    done: list[int] = []

    def work(number: int, steps: int) -> Iterator[None]:
        for _ in range(steps):
            loop.time += STEP_SECONDS
            yield
        done.append(number)

    def context() -> Any:
        return asking()

    for number in range(100):
        works.run(work(number, 25), context())
    for number in range(100, 200):
        works.run(work(number, 1), context())
    assert loop.time - 100 < 0.045  # 200 ms, were each given its 2 ms
    assert done == list(range(100, 200))  # who has little to do is served at once
    while loop.waiting:
        assert loop.run_pass() < 0.003
    assert sorted(done) == list(range(200))


def test_urgent_request_does_not_wait_for_those_that_are_longest(monkeypatch):
    """What the controller says, while somebody asks for the longest answers there are."""
    monkeypatch.setattr(slices, "FREE_SLICES", 2)
    monkeypatch.setattr(slices, "MOST_AT_ONCE", 1)
    loop = ManualLoop()
    broker: Any = SimpleNamespace(loop=loop, server=SimpleNamespace(output=OutputBudget()))
    works: Slices[Any] = Slices(broker, lambda context: None)
    done: list[str] = []

    def work(name: str, steps: int) -> Iterator[None]:
        for _ in range(steps):
            loop.time += slices.SLICE_SECONDS
            yield
        done.append(name)

    works.run(work("longest", 20), asking())
    works.run(work("held", 5), asking())
    works.run(work("urgent", 5), asking(is_urgent=True))
    while loop.waiting:
        loop.run_pass()
    assert done == ["urgent", "longest", "held"]

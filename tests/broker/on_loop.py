"""A broker that runs in this process, looked at and touched on the thread that owns it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from milepost.broker.broker import Broker
from tests.waiting import PATIENCE

T = TypeVar("T")


def on_loop(broker: Broker, task: Callable[[], T]) -> T:
    """What the task returns, on the broker's loop: what it did for a client who has an answer is done to the end by then."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(task())
        except BaseException as error:
            answer.set_exception(error)

    broker.loop.post(run)
    return answer.result(PATIENCE)

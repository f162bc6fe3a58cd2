"""Work in pieces: turns at what only one may do at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost.work import Turns, at_once, pieces


def two_pieces(name: str, done: list[str]) -> Iterator[None]:
    done.append(f"{name} begins")
    yield
    done.append(f"{name} ends")


def test_result_of_work_that_is_done_at_once():
    def work() -> Any:
        yield
        yield
        return "done"

    assert at_once(work()) == "done"


def test_elements_come_some_at_a_time():
    assert [len(piece) for piece in pieces(range(450))] == [200, 200, 50]
    assert list(pieces([])) == []


def test_second_work_on_the_same_thing_begins_when_the_first_has_ended():
    turns = Turns[str]()
    done: list[str] = []
    first, second = turns.of("a", two_pieces("first", done)), turns.of("a", two_pieces("second", done))
    next(first)
    resumed: list[str] = []
    subscribe: Callable[[Callable[[], object]], object] = next(second)
    subscribe(lambda: resumed.append("second"))
    assert (done, resumed) == (["first begins"], [])
    at_once(first)
    assert resumed == ["second"]
    at_once(second)
    assert done == ["first begins", "first ends", "second begins", "second ends"]


def test_work_on_another_thing_does_not_wait():
    turns = Turns[str]()
    done: list[str] = []
    first, second = turns.of("a", two_pieces("first", done)), turns.of("b", two_pieces("second", done))
    next(first)
    at_once(second)
    at_once(first)
    assert done == ["first begins", "second begins", "second ends", "first ends"]


def test_work_that_is_given_up_or_fails_lets_the_next_one_begin():
    def failing() -> Iterator[None]:
        yield
        raise ValueError("no")

    turns = Turns[str]()
    done: list[str] = []
    first, second, third = (turns.of("a", work) for work in (two_pieces("first", done), failing(), two_pieces("third", done)))
    for work in (first, second, third):
        next(work)
    first.close()
    with pytest.raises(ValueError, match="no"):
        at_once(second)
    at_once(third)
    assert done == ["first begins", "third begins", "third ends"]


def test_work_that_is_given_up_while_it_waits():
    turns = Turns[str]()
    done: list[str] = []
    first, second = turns.of("a", two_pieces("first", done)), turns.of("a", two_pieces("second", done))
    next(first)
    next(second)
    second.close()
    at_once(first)
    at_once(turns.of("a", two_pieces("third", done)))
    assert done == ["first begins", "first ends", "third begins", "third ends"]

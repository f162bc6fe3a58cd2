"""Requests of up to 1 MB beside a healthy client that is timed: the worst there were, and every API in its newest version.

The bound is 50 ms and 64 MB (`siege`). Here, where other tests share the cores, only what is far beyond it fails, and arrays are filled
with names that nobody knows; all versions and all fields against the bound itself: `python -m tests.hostile.attack --all`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.hostile.attack.campaign import everything, rows
from tests.hostile.attack.generator import Attack
from tests.hostile.attack.siege import MOST_GROWTH, MOST_WAIT, Row
from tests.hostile.attack.table import HEAD, line
from tests.hostile.attack.target import Target

NEWEST = [api.name for api, _ in everything(newest_only=True)]
LENIENCE = 5
WORST = {("ConsumerGroupHeartbeat", "pattern"), ("ListTransactions", "pattern"), ("Produce", "zstd of tiny records")}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = Target(tmp_path_factory.mktemp("attack"))
    yield target
    target.close()


def is_worst(attack: Attack) -> bool:
    """A hundred bytes that once stopped the broker for ever, or for seconds."""
    return (attack.api.name, attack.kind) in WORST


def is_outermost(attack: Attack) -> bool:
    return attack.kind.split(" of ")[0] in ("plain", "unknown") and "." not in attack.field


def is_far_beyond(row: Row) -> bool:
    return row.wait > LENIENCE * MOST_WAIT or row.growth > LENIENCE * MOST_GROWTH


@pytest.mark.parametrize("is_wanted", [is_worst, is_outermost], ids=["the worst", "every API"])
def test_no_request_of_a_megabyte_stops_the_others(target: Target, is_wanted: Callable[[Attack], bool]) -> None:
    done = list(rows(target, everything(newest_only=True), is_wanted))
    assert {row.attack.api.name for row in done} == ({name for name, _ in WORST} if is_wanted is is_worst else set(NEWEST))
    beyond = [line(row) for row in done if is_far_beyond(row)]
    assert not beyond, "\n".join([HEAD, *beyond])

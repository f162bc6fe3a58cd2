"""Two brokers are asked the same at random, one of them without the way for fetches that repeat: answers, counts and log lines are equal.

Records are read while transactions over them are open, committed or aborted. Some requests are cut short, and some meet an error of the
disk or of ours. What each broker invents, its session and topic ids, is replaced before it is compared, and so are ports and directories.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from milepost.broker.fetch.repeated_consumer import RepeatedConsumerFetch
from tests.broker.fetch.conftest import HANDLE
from tests.broker.fetch.random_fetches import TOPICS, TRANSACTIONAL, WRITERS, Script
from tests.broker.fetch.side import Lines, Side

STEPS = 350


@pytest.mark.parametrize("seed", range(1, 9))
def test_answers_counts_and_log_lines_are_equal(seed, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "milepost")
    # Else what is logged depends on how long ago the last refusal was.
    monkeypatch.setattr("milepost.net.refusals.QUIET_SECONDS", 0.0)
    logged = Lines()
    logging.getLogger("milepost").addHandler(logged)
    sides = [Side(tmp_path / name) for name in ("repeated", "full")]
    full = sides[1].broker
    taken = Counter()

    def handle(self: RepeatedConsumerFetch, request: Any) -> bool:
        is_taken = self._context.broker is not full and HANDLE(self, request)
        taken[is_taken] += 1
        return is_taken

    monkeypatch.setattr(RepeatedConsumerFetch, "handle", handle)
    try:
        for side in sides:
            for topic in (*TOPICS, TRANSACTIONAL):
                side.create(topic)
        producers = [[side.begin(f"writer {number}") for number in range(WRITERS)] for side in sides]
        assert producers[0] == producers[1]
        script = Script(seed, producers[0])
        seen: Counter[str] = Counter()
        for number in range(STEPS):
            step = script.next_step()
            answers = [step(side) for side in sides]
            assert answers[0] == answers[1], f"step {number}"
            seen.update(kinds(answers[0]))
        assert sides[0].counts() == sides[1].counts()
        lines = [side.lines(logged) for side in sides]
        assert lines[0] == lines[1]
    finally:
        logging.getLogger("milepost").removeHandler(logged)
        for side in sides:
            side.close()
    assert taken[True] > 50
    assert seen["aborted"] and seen["undecided"]
    assert any("connection closed" in line for line in lines[0])


def kinds(answer: Any) -> Iterator[str]:
    """What the answer of a fetch shows of transactions."""
    for *_, (high_watermark, last_stable_offset, _), aborted, _, _ in (
        answer[3] if isinstance(answer, tuple) and len(answer) == 4 else ()
    ):
        if aborted:
            yield "aborted"
        if last_stable_offset < high_watermark:
            yield "undecided"

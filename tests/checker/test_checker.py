"""The checker finds each of 24 planted anomalies, and nothing in what a cluster without a flaw does."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.checker import check
from tests.checker.good_run import GoodRun
from tests.checker.history import Decided, History, Outcome, Poll, Record, Send, Transaction, sealed
from tests.checker.planted import PLANTED
from tests.checker.read_rules import allowed_regressions


@given(st.integers(0, 2**32), st.integers(0, 400))
def test_good_history_has_no_findings(seed, steps):
    assert check(GoodRun(Random(seed), steps).history) == []


def test_there_are_24_planted_anomalies():
    assert len(PLANTED) == 24


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLANTED)
def test_planted_anomaly_is_found_by_its_name(name, seed):
    history = GoodRun(Random(seed), steps=400).history
    assert check(history) == []
    PLANTED[name](history)
    assert name.partition(":")[0] in {finding.rule for finding in check(history)}


def sent(value: str, outcome: Outcome = Outcome.OK, **fields) -> Send:
    return Send("p", "t-0", sealed(value), 1.0, 2.0, outcome, **fields)


def poll(*records: Record, **fields) -> Poll:
    marks = {"leader_epoch": 1, "high_watermark": 9, "last_stable_offset": 9, "end_offset": 9} | fields
    return Poll("r", "t-0", 3.0, 4.0, records, **marks)


def rules(history: History) -> list[str]:
    return [finding.rule for finding in check(history)]


def test_value_of_an_aborted_transaction_is_read():
    record = Record(0, sealed("a"))
    history = History(
        [sent("a", offset=0, transaction="x")], [poll(record)], [Transaction("x", "p", 2.0, 2.5, False, Outcome.OK)]
    )
    assert rules(history) == ["aborted-read"]
    history.polls = [poll(record, is_committed=False)]
    assert rules(history) == []


def test_value_whose_answer_was_lost_may_be_there_or_not():
    history = History([sent("a", Outcome.UNKNOWN)])
    assert rules(history) == []
    history.final["t-0"] = (Record(0, sealed("a")),)
    assert rules(history) == []


def test_acknowledged_by_the_leader_alone_may_be_lost():
    history = History([sent("a", offset=0, acks_all=False), sent("b", offset=1)], final={"t-0": (Record(1, sealed("b")),)})
    assert rules(history) == []


def test_deleted_on_purpose_is_not_lost():
    history = History([sent("a", offset=0), sent("b", offset=1)], final={"t-0": (Record(1, sealed("b")),)}, starts={"t-0": 1})
    assert rules(history) == []


def test_controller_writes_when_the_next_one_is_elected():
    history = History(decided=[Decided("/brokers/topics/t/partitions/0/state", 3, 3, 1.0)])
    assert rules(history) == []
    history.decided.append(Decided("/brokers/topics/t/partitions/0/state", 3, 4, 2.0))
    assert rules(history) == ["two-controllers"]


def test_new_leader_may_name_an_older_high_watermark_which_is_counted():
    history = History(polls=[poll(), poll(leader_epoch=2, high_watermark=8)])
    assert rules(history) == []
    assert allowed_regressions(history) == 1

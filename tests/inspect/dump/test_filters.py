"""Which batches and records a dump shows."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument
from milepost.inspect.dump.filters import Filter, parse_range
from milepost.record.batch import RecordBatch
from milepost.record.records import Record
from tests.inspect.logs import TIME, batch

BATCH = RecordBatch(batch(10, 5))


@pytest.mark.parametrize(
    ("chosen", "may_show"),
    [
        (Filter(), True),
        (Filter(offset_from=14), True),
        (Filter(offset_from=15), False),
        (Filter(offset_to=10), True),
        (Filter(offset_to=9), False),
        (Filter(time_from=TIME + 14), True),
        (Filter(time_from=TIME + 15), False),
        (Filter(producer_id=-1), True),
        (Filter(producer_id=7), False),
    ],
)
def test_a_header_rules_out_what_it_can(chosen, may_show):
    assert chosen.may_show(BATCH, None) is may_show


@pytest.mark.parametrize(
    ("chosen", "offsets"),
    [
        (Filter(), [10, 11, 12, 13, 14]),
        (Filter(offset_from=12), [12, 13, 14]),
        (Filter(offset_to=11), [10, 11]),
        (Filter(offset_from=11, offset_to=12), [11, 12]),
        (Filter(time_from=TIME + 13), [13, 14]),
        (Filter(time_to=TIME + 10), [10]),
        (Filter(key=b"k12"), [12]),
        (Filter(key=b""), []),
    ],
)
def test_records_pass_every_filter_or_are_left_out(chosen, offsets):
    assert [record.offset for record in BATCH.records() if chosen.shows(record)] == offsets


def test_a_record_without_a_timestamp_is_never_before_a_time():
    assert not Filter(time_to=TIME).shows(Record(0, -1, None, None))


def test_the_state_of_the_transaction_is_asked_for_only_when_it_matters():
    assert Filter(transaction_state="open").may_show(BATCH, lambda asked: "open")
    assert not Filter(transaction_state="open").may_show(BATCH, lambda asked: "none")


@pytest.mark.parametrize(
    ("text", "limits"), [("10:20", (10, 20)), ("10:", (10, None)), (":20", (None, 20)), ("7", (7, 7)), (" 1 : 2 ", (1, 2))]
)
def test_a_range_of_offsets_may_leave_out_either_end(text, limits):
    assert parse_range(text) == limits


@pytest.mark.parametrize("text", ["", ":", "a:b", "1:2:3", "1-2", "1.5"])
def test_a_range_that_is_none_is_named_with_the_forms_that_are(text):
    with pytest.raises(InvalidArgument, match="FROM:TO"):
        parse_range(text)


def test_limits_the_wrong_way_round_are_refused():
    with pytest.raises(InvalidArgument, match="the offset filter runs from 5 to 4"):
        Filter(offset_from=5, offset_to=4)
    with pytest.raises(InvalidArgument, match="the time filter runs from 5 to 4"):
        Filter(time_from=5, time_to=4)

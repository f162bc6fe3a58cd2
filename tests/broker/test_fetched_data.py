"""Fetching over the wire: offsets, limits, waiting, epochs, sessions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost.protocol.messages import (
    FetchRequest,
)
from tests.broker.data import batch, fetch, fetch_request, produce, values
from tests.broker.on_loop import on_loop
from tests.broker.wire import Wire
from tests.waiting import until

# Fetch.


@pytest.mark.parametrize("version", range(4, 13))
def test_a_fetch_starts_with_the_batch_that_holds_its_offset(wire, topic, version):
    produce(wire, batch(b"a", b"b", b"c"))
    produce(wire, batch(b"d"))
    found = fetch(wire, 1, version=version)
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 4, 4)
    assert values(found.records) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("version", range(13, 19))
def test_newer_fetches_name_topics_by_id(wire, topic, broker, version):
    produce(wire, batch(b"a"))
    for topic_id, code in ((broker.cluster.topics["t"].topic_id, 0), (b"z" * 16, 100)):
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchRequest.Topic(topic_id=topic_id, partitions=[part])])
        assert wire.ask(request, version).responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (-5, 1), (2, 1), (2**63 - 1, 1), (1, 0)])
def test_an_offset_outside_the_log(wire, topic, offset, code):
    produce(wire, batch(b"a"))
    found = fetch(wire, offset)
    assert (found.error_code, len(found.records)) == (code, 0)


def test_a_batch_larger_than_the_limits_is_given_whole_once(wire, topic):
    produce(wire, batch(b"x" * 5000))
    produce(wire, batch(b"y" * 5000))
    assert values(fetch(wire, 0, partition_max_bytes=10, max_bytes=10).records) == [b"x" * 5000]


def test_a_fetch_waits_for_data_and_is_woken_by_it(wire, topic, broker):
    with ThreadPoolExecutor(1) as pool, Wire(broker.bootstrap_servers) as other:
        fetching = pool.submit(fetch, wire, 0, max_wait_ms=50_000)
        until(lambda: on_loop(broker, lambda: len(broker.replicas.purgatory)) == 1)
        assert not fetching.done()
        produce(other, batch(b"a"))
        assert values(fetching.result().records) == [b"a"]


def test_a_fetch_for_nothing_is_over_when_its_time_is(wire, topic):
    start = time.monotonic()
    assert len(fetch(wire, 0, max_wait_ms=300).records) == 0
    assert time.monotonic() - start > 0.25


def test_min_bytes_counts_over_the_whole_answer(wire, topic):
    produce(wire, batch(b"a"))
    start = time.monotonic()
    found = fetch(wire, 0, max_wait_ms=300, min_bytes=1_000_000)
    assert values(found.records) == [b"a"] and time.monotonic() - start > 0.25


def test_a_fetch_with_another_leader_epoch(wire, topic):
    for epoch, code in ((5, 75), (0, 0), (-1, 0)):
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, current_leader_epoch=epoch, partition_max_bytes=100)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=[part])])
        assert wire.ask(request, 12).responses[0].partitions[0].error_code == code


def test_a_client_that_says_it_is_a_follower_is_refused(wire, topic):
    assert wire.ask(fetch_request(0, replica_id=2), 11).error_code == 31


# Sessions.


def test_a_session_answers_only_what_changed(wire, topic):
    produce(wire, batch(b"a"))
    first = wire.ask(fetch_request(0, session_id=0, session_epoch=0), 11)
    assert first.session_id > 0 and values(first.responses[0].partitions[0].records) == [b"a"]
    moved = fetch_request(1, session_id=first.session_id, session_epoch=1)
    assert wire.ask(moved, 11).responses == []
    produce(wire, batch(b"b"))
    again = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_id=first.session_id, session_epoch=2, topics=[]), 11)
    assert values(again.responses[0].partitions[0].records) == [b"b"]


@pytest.mark.parametrize(("shift", "epoch", "code"), [(1, 1, 70), (0, 5, 71), (0, 2, 71)])
def test_a_session_that_is_not_known_or_out_of_step(wire, topic, shift, epoch, code):
    session_id = wire.ask(fetch_request(0, session_id=0, session_epoch=0), 11).session_id
    request = fetch_request(0, session_id=session_id + shift, session_epoch=epoch)
    assert wire.ask(request, 11).error_code == code


def test_a_session_forgets_what_it_is_told_to_forget(wire, topic):
    session_id = wire.ask(fetch_request(0, session_id=0, session_epoch=0), 11).session_id
    forgotten = [FetchRequest.ForgottenTopicsData(topic="t", partitions=[0])]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=1, topics=[], forgotten_topics_data=forgotten
    )
    produce(wire, batch(b"a"))
    assert wire.ask(request, 11).responses == []


def test_a_closed_session_is_gone(wire, topic, broker):
    session_id = wire.ask(fetch_request(0, session_id=0, session_epoch=0), 11).session_id
    assert wire.ask(fetch_request(0, session_id=session_id, session_epoch=-1), 11).session_id == 0
    assert wire.ask(fetch_request(0, session_id=session_id, session_epoch=1), 11).error_code == 70

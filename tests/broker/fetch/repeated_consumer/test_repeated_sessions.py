"""Repeated fetches of a consumer and their sessions: epochs, other connections, partitions that are forgotten."""

from __future__ import annotations

import pytest

from milepost.protocol.messages import FetchRequest
from tests.broker.fetch.readers import FAR_AWAY, Reader, at, offsets
from tests.broker.topics import produce
from tests.broker.wire import Wire


def test_epoch_that_is_not_the_next_is_refused_and_changes_nothing(way, connection, wire):
    produce(wire, "t", [b"v"])
    reader = Reader(connection, in_session=True).warm(0)
    reader.ask(at(0, FAR_AWAY))
    for wrong in (-1, 1, 5, 1 << 30):
        reader.wire.send(reader.request(at(0, 0), session_epoch=reader.session_epoch + wrong), reader.version)
        assert reader.answer().error_code == 71
    assert offsets(reader.ask(at(0, 0))[0]) == [0]


def test_session_that_was_closed_is_not_found(way, connection, wire):
    reader = Reader(connection, in_session=True).warm(0)
    reader.ask(at(0, FAR_AWAY))
    with Wire(connection._address) as other:
        closing = FetchRequest(session_id=reader.session_id, session_epoch=-1, max_bytes=1 << 20)
        assert other.ask(closing, 16).session_id == 0
    reader.send(at(0, 0))
    assert reader.answer().error_code == 70


def test_session_of_another_connection_cannot_be_opened_anew_by_id_0(way, connection, wire):
    """The connection that opens a session is not taken for one that goes on with it."""
    Reader(connection, in_session=True).warm(0).ask(at(0, FAR_AWAY))
    opening = Reader(connection, in_session=True)
    opening.ask(at(0, 0))
    opening.session_id = 0
    opening.send(at(0, 0))
    assert opening.answer().error_code == 70


def test_client_without_a_session_may_ask_for_one_at_any_time(way, connection, wire):
    produce(wire, "t", [b"v"])
    reader = Reader(connection).warm(0)
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    reader.session_epoch = 5
    reader.send(at(0, 0))
    assert reader.answer().error_code == 70
    reader.in_session, reader.session_epoch = True, 0
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    assert reader.session_id != 0
    assert reader.ask(at(0, 1)) == {}


def test_session_whose_place_another_took_is_not_found(way, connection, wire):
    reader = Reader(connection, in_session=True).warm(0)
    reader.ask(at(0, FAR_AWAY))
    old, reader.session_epoch = reader.session_id, 0
    reader.ask(at(0, FAR_AWAY))
    assert reader.session_id != old
    reader.session_id = old
    reader.send(at(0, 0))
    assert reader.answer().error_code == 70


def test_session_that_goes_on_on_another_connection_has_what_was_changed_there(way, connection, wire):
    for number in range(2):
        produce(wire, "t", [b"v"], partition=number)
    first = Reader(connection, in_session=True).warm(0)
    first.ask(at(0, 0))
    with Wire(connection._address) as other:
        second = Reader(other, in_session=True)
        second.session_id, second.session_epoch = first.session_id, first.session_epoch
        assert second.ask(at(1, 0)).keys() == {0, 1}
        first.session_epoch = second.session_epoch
        assert first.ask(at(0, 1), at(1, 0)).keys() == {1}
        second.session_epoch = first.session_epoch
        assert second.ask(at(1, 0)).keys() == {1}


def test_partition_that_another_connection_forgot_is_taken_in_again(way, connection, wire):
    for number in range(2):
        produce(wire, "t", [b"v"], partition=number)
    first = Reader(connection, in_session=True).warm(0, 1)
    assert first.ask(at(0, 0), at(1, 0)).keys() == {0, 1}
    with Wire(connection._address) as other:
        second = Reader(other, in_session=True)
        second.session_id, second.session_epoch = first.session_id, first.session_epoch
        forgotten = FetchRequest.ForgottenTopicsData(topic_id=first.topic_id, partitions=[1])
        assert second.ask(at(0, 0), forgotten_topics_data=[forgotten]).keys() == {0}
        first.session_epoch = second.session_epoch
    assert first.ask(at(0, 0), at(1, 0)).keys() == {0, 1}


def test_partition_that_is_forgotten_is_answered_no_more(way, connection, wire):
    for number in range(2):
        produce(wire, "t", [b"v"], partition=number)
    reader = Reader(connection, in_session=True).warm(0, 1)
    assert reader.ask(at(0, 0), at(1, 0)).keys() == {0, 1}
    forgotten = FetchRequest.ForgottenTopicsData(topic_id=reader.topic_id, partitions=[1])
    for _ in range(3):
        assert reader.ask(at(0, 0), forgotten_topics_data=[forgotten]).keys() == {0}
    assert reader.ask(at(0, 0), at(1, 0), forgotten_topics_data=[forgotten]).keys() == {0}
    for _ in range(2):
        produce(wire, "t", [b"v"], partition=1)
        assert reader.ask(at(0, 0)).keys() == {0}
    assert reader.ask(at(1, 0)).keys() == {0, 1}


def test_served_partitions_go_to_the_end_of_their_session(way, connection, wire):
    for number in range(3):
        for _ in range(2):
            produce(wire, "t", [b"v" * 100], partition=number)
    reader = Reader(connection, in_session=True, max_bytes=1)
    reader.ask(*(at(number, FAR_AWAY) for number in range(3)))
    reader.ask(*(at(number, FAR_AWAY) for number in range(3)))
    served = []
    for found in [reader.ask(*(at(number, 0) for number in range(3))), *(reader.ask() for _ in range(5))]:
        served += [number for number, part in found.items() if part.records]
    assert served == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(("first", "second"), [(12, 13), (12, 18), (18, 12), (13, 7)])
def test_session_by_names_is_none_by_topic_ids_nor_the_other_way_round(way, broker, connection, wire, first, second):
    produce(wire, "t", [b"v"])
    reader = Reader(connection, in_session=True, version=first).warm(0)
    with Wire(broker.bootstrap_servers) as elsewhere:
        other = Reader(elsewhere, in_session=True, version=second)
        other.session_id, other.session_epoch = reader.session_id, reader.session_epoch
        for part in ([], [at(0, 0)]):
            elsewhere.send(other.request(*part), second)
            assert other.answer().error_code == 106
    assert offsets(reader.ask(at(0, 0))[0]) == [0]


@pytest.mark.parametrize(("opened", "continued"), [(12, 16), (12, 18), (13, 12), (18, 11)])
def test_session_by_name_is_not_gone_on_with_by_id(opened, continued, connection, wire):
    """Nor the other way round: a client learns the id of a topic late, when the broker has just come back."""
    produce(wire, "t", [b"v"])
    reader = Reader(connection, version=opened, in_session=True).warm(0)
    reader.version = continued
    for parts in ([], [at(0, 0)], []):
        reader.send(*parts)
        assert (reader.answer().error_code, reader.session_epoch) == (106, 3)
        reader.session_epoch = 2
    reader.session_epoch = 0
    assert offsets(reader.ask(at(0, 0))[0]) == [0]
    assert reader.ask(at(0, 1)) == {}

"""Quotas of clients are stored and found again: AlterClientQuotas, DescribeClientQuotas. Expected codes are those of Kafka 4.3.0."""

from __future__ import annotations

import math

import pytest

from milepost.protocol.messages import AlterClientQuotasRequest, DescribeClientQuotasRequest
from tests.broker.wire import Wire

EXACT, DEFAULT, ANY = range(3)
RATE = {"producer_byte_rate": 1000.0}
Entity = list[tuple[str, str | None]]


def alter(wire: Wire, *entries: tuple[Entity, dict[str, float | None]], validate_only: bool = False, version: int = 1):
    """[(error code, entity)]; None takes a quota away."""
    entry = AlterClientQuotasRequest.Entry
    asked = [
        entry(
            entity=[entry.Entity(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[entry.Op(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
        )
        for entity, quotas in entries
    ]
    answers = wire.ask(AlterClientQuotasRequest(entries=asked, validate_only=validate_only), version).entries
    assert all((answer.error_message is None) == (answer.error_code == 0) for answer in answers)
    return [(answer.error_code, [(part.entity_type, part.entity_name) for part in answer.entity]) for answer in answers]


def describe(wire: Wire, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1):
    """(error code, [(entity, quotas)])."""
    asked = [
        DescribeClientQuotasRequest.Component(entity_type=kind, match_type=match_type, match=name)
        for kind, match_type, name in components
    ]
    response = wire.ask(DescribeClientQuotasRequest(components=asked, strict=strict), version)
    if response.error_code:
        assert response.error_message
        return response.error_code, response.entries
    assert response.error_message == ""
    return 0, [
        (
            [(part.entity_type, part.entity_name) for part in entry.entity],
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries
    ]


@pytest.fixture
def stored(wire: Wire) -> Wire:
    """A broker with one quota of each kind."""
    for entity in (
        [("user", "u1")],
        [("user", None)],
        [("user", "u1"), ("client-id", "c1")],
        [("user", None), ("client-id", "c1")],
        [("client-id", "c1")],
    ):
        assert [code for code, _ in alter(wire, (entity, RATE))] == [0]
    assert alter(wire, ([("ip", "127.0.0.1")], {"connection_creation_rate": 10.0})) == [(0, [("ip", "127.0.0.1")])]
    return wire


U1, USER, U1_C1, USER_C1, C1, IP = (
    [("user", "u1")],
    [("user", None)],
    [("client-id", "c1"), ("user", "u1")],
    [("client-id", "c1"), ("user", None)],
    [("client-id", "c1")],
    [("ip", "127.0.0.1")],
)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [U1, USER, U1_C1, USER_C1, C1, IP]),
        ([], True, []),
        ([("user", EXACT, "u1")], False, [U1, U1_C1]),
        ([("user", EXACT, "u1")], True, [U1]),
        ([("user", DEFAULT, None)], False, [USER, USER_C1]),
        ([("user", ANY, None)], False, [U1, USER, U1_C1, USER_C1]),
        ([("user", ANY, None)], True, [U1, USER]),
        ([("user", EXACT, "u1"), ("client-id", EXACT, "c1")], False, [U1_C1]),
        ([("user", ANY, None), ("client-id", ANY, None)], True, [U1_C1, USER_C1]),
        ([("ip", ANY, None)], False, [IP]),
        ([("user", EXACT, "nobody")], False, []),
    ],
)
@pytest.mark.parametrize("version", range(2))
def test_filter_finds_the_entities_that_match_all_of_it(stored, components, strict, found, version):
    code, entries = describe(stored, *components, strict=strict, version=version)
    assert (code, [entity for entity, _ in entries]) == (0, found)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("ip", ANY, None), ("user", ANY, None)], 42),
        ([("group", ANY, None)], 35),
        ([("user", ANY, None), ("user", ANY, None)], 42),
        ([("user", 9, None)], 42),
        ([("", ANY, None)], 42),
        ([("user", EXACT, None)], 42),
        ([("user", DEFAULT, "x")], 42),
        ([("user", ANY, "x")], 42),
    ],
)
def test_filter_that_makes_no_sense_is_refused(stored, components, code):
    assert describe(stored, *components) == (code, None)


@pytest.mark.parametrize("version", range(2))
def test_quotas_of_an_entity_are_set_changed_and_taken_away_one_by_one(wire, version):
    assert alter(wire, (U1, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}), version=version) == [(0, U1)]
    assert alter(wire, (U1, {"producer_byte_rate": 2000.0, "consumer_byte_rate": 5.0}), version=version) == [(0, U1)]
    quotas = {"consumer_byte_rate": 5.0, "producer_byte_rate": 2000.0, "request_percentage": 12.5}
    assert describe(wire, version=version) == (0, [(U1, quotas)])
    assert alter(wire, (U1, dict.fromkeys(quotas)), version=version) == [(0, U1)]
    assert describe(wire, version=version) == (0, [])


@pytest.mark.parametrize(
    ("entity", "quotas"),
    [
        ([], RATE),
        ([("group", "x")], RATE),
        ([("", "x")], RATE),
        ([("user", "")], RATE),
        ([("user", "a"), ("user", "b")], RATE),
        ([("ip", "127.0.0.1"), ("user", "x")], RATE),
        ([("ip", "not an ip")], {"connection_creation_rate": 10.0}),
        ([("ip", "127.0.0.1")], RATE),
        ([("ip", "127.0.0.1")], {"connection_creation_rate": 1.5}),
        ([("user", "u1")], {"connection_creation_rate": 10.0}),
        ([("user", "u1")], {"nonsense": 10.0}),
        ([("user", "u1")], {"producer_byte_rate": -1.0}),
        ([("user", "u1")], {"producer_byte_rate": 1.5}),
        ([("user", "u1")], {"request_percentage": math.nan}),
        ([("user", "u1")], {"request_percentage": math.inf}),
        ([("user", "u1")], {"consumer_byte_rate": 10.0, "producer_byte_rate": -1.0}),
    ],
)
def test_quota_that_makes_no_sense_is_refused_and_nothing_is_stored(wire, entity, quotas):
    ((code, answered),) = alter(wire, (entity, quotas))
    assert (code, answered) == (42, sorted(entity))
    assert describe(wire) == (0, [])


def test_zero_is_no_quota(wire):
    entry = AlterClientQuotasRequest.Entry
    asked = entry(
        entity=[entry.Entity(entity_type="user", entity_name="u1")],
        ops=[entry.Op(key="producer_byte_rate", value=0.0, remove=False)],
    )
    (answer,) = wire.ask(AlterClientQuotasRequest(entries=[asked]), 1).entries
    assert (answer.error_code, answer.error_message) == (42, "producer_byte_rate = 0.0: give a number above 0")


def test_entity_that_comes_twice_is_answered_once_and_the_others_are_stored(wire):
    answers = alter(wire, (U1, RATE), (C1, RATE), (U1, {"consumer_byte_rate": 5.0}))
    assert sorted(answers) == [(0, C1), (42, U1)]
    assert describe(wire) == (0, [(C1, RATE)])


def test_quota_that_is_only_checked_is_not_stored(wire):
    assert alter(wire, (U1, RATE), (C1, {"nonsense": 1.0}), validate_only=True) == [(0, U1), (42, C1)]
    assert describe(wire) == (0, [])


def test_taking_away_what_is_not_there_is_fine(wire):
    assert alter(wire, (U1, {"producer_byte_rate": None, "nonsense": None}), (C1, {})) == [(0, U1), (0, C1)]


def test_quotas_survive_a_restart(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        alter(wire, (USER_C1, RATE))
    brokers.stop(broker)
    with Wire(brokers.start().bootstrap_servers) as wire:
        assert describe(wire) == (0, [(USER_C1, RATE)])

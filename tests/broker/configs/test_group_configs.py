"""Settings of groups (type 32), and ListConfigResources. Codes and synonyms are those of Kafka 4.3.0."""

from __future__ import annotations

import pytest

from milepost.protocol.messages import ConsumerGroupHeartbeatRequest, ListConfigResourcesRequest
from tests.broker.settings import APPEND, BROKER, DELETE, GROUP, SET, TOPIC, alter, configs, replace
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def heartbeat(wire: Wire, group: str, epoch: int = 0):
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)
    if epoch == 0:
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 1000, ["visits"], []
    return wire.ask(request, 1)


def test_a_group_has_the_brokers_settings_until_it_has_its_own(wire):
    assert configs(wire, GROUP, "readers") == {
        ASSIGNMENT: (
            *("0", 4),
            [("group.consumer.assignment.interval.ms", "0", 4), ("group.consumer.assignment.interval.ms", "1000", 5)],
        ),
        HEARTBEAT: ("5000", 5, [("group.consumer.heartbeat.interval.ms", "5000", 5)]),
        SESSION: ("45000", 5, [("group.consumer.session.timeout.ms", "45000", 5)]),
    }
    assert alter(wire, GROUP, "readers", (SESSION, SET, "50000")) == (0, None)
    assert configs(wire, GROUP, "readers", SESSION) == {
        SESSION: ("50000", 8, [(SESSION, "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)])
    }
    assert configs(wire, GROUP, "others", SESSION)[SESSION][:2] == ("45000", 5)
    assert alter(wire, GROUP, "readers", (SESSION, DELETE, None), ("nope", DELETE, None)) == (0, None)
    assert configs(wire, GROUP, "readers", SESSION)[SESSION][:2] == ("45000", 5)


def test_settings_of_a_group_are_replaced_as_a_whole(wire):
    assert replace(wire, GROUP, "readers", consumer_session_timeout_ms="47000") == (0, None)
    assert replace(wire, GROUP, "readers", consumer_heartbeat_interval_ms="6000") == (0, None)
    found = configs(wire, GROUP, "readers")
    assert (found[SESSION][:2], found[HEARTBEAT][:2]) == (("45000", 5), ("6000", 8))


def test_what_is_only_checked_is_not_stored(wire):
    assert alter(wire, GROUP, "readers", (SESSION, SET, "50000"), validate_only=True) == (0, None)
    assert configs(wire, GROUP, "readers", SESSION)[SESSION][:2] == ("45000", 5)


@pytest.mark.parametrize(
    ("name", "operation", "code"),
    [
        ("readers", (SESSION, SET, "44999"), 40),
        ("readers", (SESSION, SET, "60001"), 40),
        ("readers", (SESSION, SET, "x"), 40),
        ("readers", (HEARTBEAT, SET, "4999"), 40),
        ("readers", (HEARTBEAT, SET, "15001"), 40),
        ("readers", (ASSIGNMENT, SET, "-1"), 40),
        ("readers", (ASSIGNMENT, SET, "15001"), 40),
        ("readers", ("nope", SET, "1"), 40),
        ("readers", ("share.auto.offset.reset", SET, "earliest"), 40),
        ("readers", (SESSION, APPEND, "1"), 40),
        ("readers", (SESSION, SET, None), 42),
        ("", (SESSION, SET, "50000"), 42),
    ],
)
def test_what_a_group_cannot_have_is_refused_with_a_sentence(wire, name, operation, code):
    found, message = alter(wire, GROUP, name, operation)
    assert found == code
    assert message
    assert listed(wire, GROUP) == []


def test_the_limits_are_the_brokers(brokers):
    broker = brokers.start({"group.consumer.max.session.timeout.ms": "100000", "group.consumer.min.heartbeat.interval.ms": "10"})
    with Wire(broker.bootstrap_servers) as wire:
        assert alter(wire, GROUP, "readers", (SESSION, SET, "100000"), (HEARTBEAT, SET, "10")) == (0, None)
        assert alter(wire, GROUP, "readers", (SESSION, SET, "100001")) == (
            40,
            "consumer.session.timeout.ms = 100001: this broker allows 45000 to 100000 "
            "(group.consumer.min.session.timeout.ms and .max.).",
        )


def test_the_limits_of_the_assignment_interval_are_the_brokers(brokers):
    limits = {"group.consumer.min.assignment.interval.ms": "500", "group.consumer.max.assignment.interval.ms": "2000"}
    broker = brokers.start({**limits, "group.consumer.assignment.interval.ms": "1000"})
    with Wire(broker.bootstrap_servers) as wire:
        assert alter(wire, GROUP, "readers", (ASSIGNMENT, SET, "2000")) == (0, None)
        assert alter(wire, GROUP, "readers", (ASSIGNMENT, SET, "499")) == (
            40,
            "consumer.assignment.interval.ms = 499: this broker allows 500 to 2000 "
            "(group.consumer.min.assignment.interval.ms and .max.).",
        )


def test_what_was_set_before_the_limits_were_narrowed_counts_as_the_nearest_limit(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert alter(wire, GROUP, "readers", (SESSION, SET, "60000"), (HEARTBEAT, SET, "5000"), (ASSIGNMENT, SET, "9000")) == (0, None)
    brokers.stop(broker)
    limits = {
        "group.consumer.max.session.timeout.ms": "50000",
        "group.consumer.min.heartbeat.interval.ms": "7000",
        "group.consumer.max.assignment.interval.ms": "2000",
    }
    with Wire(brokers.start(limits).bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        assert heartbeat(wire, "readers").heartbeat_interval_ms == 7000
        found = configs(wire, GROUP, "readers")
        assert [found[name][:2] for name in (SESSION, HEARTBEAT, ASSIGNMENT)] == [("50000", 8), ("7000", 8), ("2000", 8)]
        # What is said again has to be within the limits.
        assert alter(wire, GROUP, "readers", (ASSIGNMENT, SET, "9000"))[0] == 40


def joins(wire: Wire, group: str, member: str) -> int:
    """The epoch in which a member of a group joins."""
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, rebalance_timeout_ms=1000)
    request.subscribed_topic_names, request.topic_partitions = ["visits"], []
    answer = wire.ask(request, 1)
    assert answer.error_code == 0
    return answer.member_epoch


def test_the_assignment_interval_is_the_groups_else_the_brokers_also_when_either_changes(wire):
    create(wire, wanted("visits"))
    interval = "group.consumer.assignment.interval.ms"
    assert [joins(wire, "readers", member) for member in "ab"] == [2, 3]
    assert alter(wire, BROKER, "0", (interval, SET, "15000")) == (0, None)
    assert joins(wire, "readers", "c") == 3
    assert alter(wire, GROUP, "readers", (ASSIGNMENT, SET, "0")) == (0, None)
    assert joins(wire, "readers", "d") == 5
    assert alter(wire, GROUP, "readers", (ASSIGNMENT, DELETE, None)) == (0, None)
    assert joins(wire, "readers", "e") == 5
    code, message = alter(wire, BROKER, "0", (interval, SET, "15001"))
    assert (code, message) == (
        42,
        "group.consumer.assignment.interval.ms = 15001 is not within group.consumer.min.assignment.interval.ms = 0 "
        "and group.consumer.max.assignment.interval.ms = 15000: change the first, or the limit it breaks.",
    )


def test_heartbeats_must_come_within_the_session(brokers):
    broker = brokers.start({"group.consumer.min.session.timeout.ms": "1000"})
    with Wire(broker.bootstrap_servers) as wire:
        found, message = alter(wire, GROUP, "readers", (SESSION, SET, "5000"))
    assert (found, message) == (
        40,
        "consumer.heartbeat.interval.ms = 5000 is not below consumer.session.timeout.ms = 5000: lower the first or raise the second.",
    )


def test_members_are_told_their_groups_heartbeat_interval_also_after_a_restart(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        joined = heartbeat(wire, "readers")
        assert (joined.error_code, joined.heartbeat_interval_ms) == (0, 5000)
        alter(wire, GROUP, "readers", (HEARTBEAT, SET, "7000"))
        assert heartbeat(wire, "readers", joined.member_epoch).heartbeat_interval_ms == 7000
        assert heartbeat(wire, "others").heartbeat_interval_ms == 5000
    brokers.stop(broker)
    with Wire(brokers.start().bootstrap_servers) as wire:
        assert heartbeat(wire, "readers", joined.member_epoch).heartbeat_interval_ms == 7000
        assert configs(wire, GROUP, "readers", HEARTBEAT)[HEARTBEAT][:2] == ("7000", 8)
        alter(wire, GROUP, "readers", (HEARTBEAT, DELETE, None))
        assert heartbeat(wire, "readers", joined.member_epoch).heartbeat_interval_ms == 5000


def test_settings_that_cannot_be_remembered_do_not_hold(wire, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("milepost.cluster.change_log.ChangeLog.append", full)
    assert alter(wire, GROUP, "readers", (SESSION, SET, "50000"))[0] == 56
    assert configs(wire, GROUP, "readers", SESSION)[SESSION][:2] == ("45000", 5)


# ListConfigResources.


def listed(wire: Wire, *types: int, version: int = 1):
    request = ListConfigResourcesRequest(resource_types=list(types)) if version else ListConfigResourcesRequest()
    response = wire.ask(request, version)
    assert response.error_code == 0
    return [(found.resource_name, found.resource_type) for found in response.config_resources]


def test_what_has_settings_is_listed_by_type(wire):
    create(wire, wanted("visits"), wanted("clicks"))
    alter(wire, GROUP, "readers", (SESSION, SET, "50000"))
    groups, loggers, brokers, topics = [("readers", 32)], [("0", 8)], [("0", 4)], [("visits", 2), ("clicks", 2)]
    assert listed(wire) == [*groups, *loggers, *brokers, *topics]
    assert listed(wire, GROUP) == groups
    assert listed(wire, TOPIC) == topics
    assert listed(wire, BROKER, GROUP) == [*groups, *brokers]
    assert listed(wire, 8) == loggers
    assert listed(wire, 16) == listed(wire, version=0) == []


@pytest.mark.parametrize("kind", [0, 1, 99])
def test_a_type_that_does_not_exist_is_35(wire, kind):
    response = wire.ask(ListConfigResourcesRequest(resource_types=[TOPIC, kind]), 1)
    assert (response.error_code, response.config_resources) == (35, [])

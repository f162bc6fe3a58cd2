"""DescribeAcls, CreateAcls and DeleteAcls at a broker that is alone: what they take, what they find, and what a restart leaves of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.requests import create_acls, delete_acls
from milepost.errors import InvalidConfiguration, KafkaStorage
from milepost.protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest, FetchRequest
from tests.broker.attaching import attached
from tests.broker.conftest import SETTINGS, Brokers
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire
from tests.golden_fixture import Golden

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLOSED = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3
Row = tuple[int, str, int, str, str, int, int]
VISITS: Row = (TOPIC, "visits", LITERAL, "User:alice", "*", READ, ALLOW)
ALL_V: Row = (TOPIC, "v", PREFIXED, "User:bob", "10.0.0.1", WRITE, DENY)
READERS: Row = (GROUP, "readers", LITERAL, "User:alice", "*", READ, ALLOW)
FIELDS = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


def add(wire: Wire, *rows: Row, version: int = 3) -> list[int]:
    creations = [CreateAclsRequest.Creation(**dict(zip(FIELDS, row, strict=True))) for row in rows]
    return [result.error_code for result in wire.ask(CreateAclsRequest(creations=creations), version).results]


def filter_fields(row: tuple) -> dict:
    names = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter")
    return dict(zip((*names, "operation", "permission_type"), row, strict=True))


EVERYTHING = (ANY, None, ANY, None, None, ANY, ANY)


def found(wire: Wire, row: tuple = EVERYTHING, version: int = 3) -> set[Row]:
    answer = wire.ask(DescribeAclsRequest(**filter_fields(row)), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    return {
        (each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)
        for each in answer.resources
        for acl in each.acls
    }


def remove(wire: Wire, *rows: tuple, version: int = 3) -> list[tuple[int, set[Row]]]:
    filters = [DeleteAclsRequest.Filter(**filter_fields(row)) for row in rows]
    return [
        (
            result.error_code,
            {
                (
                    each.resource_type,
                    each.resource_name,
                    each.pattern_type,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
                for each in result.matching_acls
                if not each.error_code
            },
        )
        for result in wire.ask(DeleteAclsRequest(filters=filters), version).filter_results
    ]


@pytest.fixture
def admin(brokers: Brokers) -> Iterator[Wire]:
    broker = brokers.start(CLOSED)
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_added_found_and_removed(admin, version):
    assert add(admin, VISITS, ALL_V, READERS, VISITS, version=version) == [0, 0, 0, 0]
    assert add(admin, VISITS, version=version) == [0]
    assert found(admin, version=version) == {VISITS, ALL_V, READERS}
    of_alice = (ANY, None, ANY, "User:alice", None, ANY, ANY)
    assert found(admin, of_alice, version) == {VISITS, READERS}
    assert found(admin, (TOPIC, "visits", MATCH, None, None, ANY, ANY), version) == {VISITS, ALL_V}
    in_groups = (GROUP, None, ANY, None, None, ANY, ANY)
    assert remove(admin, in_groups, of_alice, in_groups, version=version) == [
        (0, {READERS}),
        (0, {VISITS, READERS}),
        (0, {READERS}),
    ]
    assert found(admin, version=version) == {ALL_V}


def test_each_rule_of_a_request_is_answered_by_itself(admin):
    wrong = [
        (ANY, "visits", LITERAL, "User:alice", "*", READ, ALLOW),
        (0, "visits", LITERAL, "User:alice", "*", READ, ALLOW),
        (TOPIC, "visits", MATCH, "User:alice", "*", READ, ALLOW),
        (TOPIC, "visits", ANY, "User:alice", "*", READ, ALLOW),
        (TOPIC, "visits", LITERAL, "alice", "*", READ, ALLOW),
        (TOPIC, "visits", LITERAL, "User:alice", "*", ANY, ALLOW),
        (TOPIC, "visits", LITERAL, "User:alice", "*", READ, ANY),
        (TOPIC, "", LITERAL, "User:alice", "*", READ, ALLOW),
        (CLUSTER, "visits", LITERAL, "User:alice", "*", READ, ALLOW),
    ]
    assert add(admin, *wrong, VISITS) == [42] * len(wrong) + [0]
    assert found(admin) == {VISITS}


@pytest.mark.parametrize(
    "row", [(0, None, ANY, None, None, ANY, ANY), (ANY, None, 0, None, None, ANY, ANY), (ANY, None, ANY, None, None, 99, ANY)]
)
def test_filter_that_makes_no_sense_is_refused_and_removes_nothing(admin, row):
    add(admin, VISITS)
    assert remove(admin, row, (GROUP, None, ANY, None, None, ANY, ANY)) == [(42, set()), (0, set())]
    assert admin.ask(DescribeAclsRequest(**filter_fields(row)), 3).error_code == 42
    assert found(admin) == {VISITS}


def test_without_an_authorizer_there_is_none_to_obey(wire):
    answer = wire.ask(DescribeAclsRequest(**filter_fields(EVERYTHING)), 3)
    assert (answer.error_code, answer.error_message) == (54, "No Authorizer is configured.")
    assert add(wire, VISITS) == [54]
    assert remove(wire, EVERYTHING) == [(54, set())]


def test_number_of_rules_is_bounded(admin, monkeypatch):
    monkeypatch.setattr(create_acls, "MOST_ACLS", 3)
    rows = [(TOPIC, f"t{number}", LITERAL, "User:alice", "*", READ, ALLOW) for number in range(5)]
    assert add(admin, *rows) == [0, 0, 0, 44, 44]
    assert add(admin, *rows) == [0, 0, 0, 44, 44]
    remove(admin, (TOPIC, "t0", LITERAL, None, None, ANY, ANY))
    assert add(admin, rows[3], rows[4]) == [0, 44]


def test_what_a_deletion_looks_at_is_bounded(admin, monkeypatch):
    monkeypatch.setattr(delete_acls, "MOST_SCANS", 2)
    monkeypatch.setattr(delete_acls, "MOST_MATCHES", 4)
    add(admin, VISITS, ALL_V, READERS)
    of_nobody = [(ANY, None, ANY, f"User:u{number}", None, ANY, ANY) for number in range(3)]
    assert [code for code, _ in remove(admin, *of_nobody)] == [0, 0, 44]
    of_visits = (TOPIC, "visits", MATCH, None, None, ANY, ANY)
    assert [code for code, _ in remove(admin, of_visits, of_visits, of_visits)] == [0, 0, 44]
    assert found(admin) == {READERS}


# In force, and kept.


def fetched(wire: Wire) -> int:
    Topic = FetchRequest.Topic
    topic = Topic(topic="visits", partitions=[Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)])
    answer = wire.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[topic]), 12)
    return answer.responses[0].partitions[0].error_code


MINE = [
    (CLUSTER, "kafka-cluster", LITERAL, "User:ANONYMOUS", "*", 2, ALLOW),
    (TOPIC, "*", LITERAL, "User:ANONYMOUS", "127.0.0.1", READ, ALLOW),
]
NOT_MINE: Row = (TOPIC, "vis", PREFIXED, "User:*", "*", 2, DENY)


def test_rule_holds_from_the_next_request_on_and_after_a_restart(brokers):
    broker = brokers.start(CLOSED)
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        assert add(wire, *MINE) == [0, 0]
    brokers.stop(broker)
    broker = brokers.start({"authorizer.class.name": STANDARD})
    with Wire(broker.bootstrap_servers) as wire:
        assert found(wire) == set(MINE)
        assert fetched(wire) == 0
        assert add(wire, NOT_MINE) == [0]
        assert fetched(wire) == 29
        assert remove(wire, (TOPIC, None, PREFIXED, None, None, ANY, ANY)) == [(0, {NOT_MINE})]
        assert fetched(wire) == 0
        add(wire, NOT_MINE)
    brokers.stop(broker)
    broker = brokers.start({"authorizer.class.name": STANDARD})
    with Wire(broker.bootstrap_servers) as wire:
        assert fetched(wire) == 29


def test_rules_that_were_answered_survive_a_kill(brokers, tmp_path):
    """The files are as a kill leaves them: copied while the broker runs."""
    broker = brokers.start(CLOSED)
    with Wire(broker.bootstrap_servers) as wire:
        add(wire, VISITS, ALL_V)
        remove(wire, (TOPIC, "visits", LITERAL, None, None, ANY, ANY))
        add(wire, READERS)
        copy = tmp_path / "copy"
        copy.mkdir()
        for file in (tmp_path / "data").glob("m*"):
            (copy / file.name).write_bytes(file.read_bytes())
    with_copy = brokers.start({**CLOSED, "log.dirs": str(copy)})
    with Wire(with_copy.bootstrap_servers) as wire:
        assert found(wire) == {ALL_V, READERS}


def test_rules_stay_while_no_authorizer_obeys_them(brokers):
    for settings in (CLOSED, {}, CLOSED):
        broker = brokers.start(settings)
        with Wire(broker.bootstrap_servers) as wire:
            if settings:
                add(wire, VISITS)
                assert found(wire) == {VISITS}
        brokers.stop(broker)


def test_one_more_rule_costs_one_more_line_however_many_there_are(brokers, tmp_path):
    broker = brokers.start(CLOSED)
    with Wire(broker.bootstrap_servers) as wire:
        add(wire, *((TOPIC, f"t{number}", LITERAL, "User:alice", "*", READ, ALLOW) for number in range(2000)))
        sizes = [sum(file.stat().st_size for file in (tmp_path / "data").glob("*.changes"))]
        add(wire, VISITS)
        sizes.append(sum(file.stat().st_size for file in (tmp_path / "data").glob("*.changes")))
    assert sizes[1] - sizes[0] == len('00000000 [{"acl":[2,"visits",3,"User:alice","*",3,3],"is":true}]\n')


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([[2, "visits", 3, "User:alice", "*", 3, 9]], InvalidConfiguration),
        ([[9, "visits", 3, "User:alice", "*", 3, 3]], InvalidConfiguration),
        ([[2, "visits", 3, "User:alice"]], KafkaStorage),
        (["visits"], KafkaStorage),
        ("visits", KafkaStorage),
        ([None], KafkaStorage),
    ],
)
def test_rule_that_cannot_be_read_ends_the_start(tmp_path: Path, brokers, rows, error):
    broker = brokers.start({**CLOSED, "log.dirs": str(tmp_path / "d")})
    brokers.stop(broker)
    file = tmp_path / "d" / "milepost.cluster.json"
    content = (
        json.loads(file.read_text())
        if file.exists()
        else {"version": 2, "topics": {}, "brokers": {}, "quotas": [], "next_producer_id": 0}
    )
    file.write_text(json.dumps({**content, "acls": rows}))
    with pytest.raises(error):
        AloneBroker({**SETTINGS, **CLOSED, "log.dirs": str(tmp_path / "d")})


# Attached directories.


def test_attached_directories_stay_read_only_whatever_the_rules_say(golden: Golden):
    logdir = golden("page_visits/kafka-4.3.0") / "logdir"
    with attached(logdir, settings=CLOSED) as broker, Wire(broker.bootstrap_servers) as wire:
        assert add(wire, VISITS) == [31]
        assert found(wire) == set()
    with attached(logdir, settings={"authorizer.class.name": STANDARD}) as broker, Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(DescribeAclsRequest(**filter_fields(EVERYTHING)), 3).error_code == 31

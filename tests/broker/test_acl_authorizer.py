"""The authorizer of ACLs: super users, resources without rules, what it remembers, and what it says of denials."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from milepost.broker.acl_authorizer import AclAuthorizer, configured_authorizer
from milepost.broker.authorizer import Access
from milepost.config.broker import BrokerConfig
from milepost.errors import InvalidConfiguration
from milepost.security.acl_index import AclIndex
from milepost.security.acls import Operation, ResourceType, from_row
from milepost.security.principal import KafkaPrincipal

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL = "kafka.security.authorizer.AclAuthorizer"
READ_VISITS = Access(Operation.READ, ResourceType.TOPIC, "visits")
ANY_TOPIC = Access(Operation.WRITE, ResourceType.TOPIC, "", is_any=True)


def by(name: str, host: str = "/10.0.0.1") -> SimpleNamespace:
    return SimpleNamespace(principal=KafkaPrincipal("User", name), client_host=host)


def authorizer(*rows: tuple, **settings: object) -> AclAuthorizer:
    made = AclAuthorizer(frozenset(("User:admin",)), **settings)
    made.acls = AclIndex(map(from_row, rows))
    return made


READS = (2, "visits", 3, "User:alice", "*", 3, 3)


def test_rules_decide_and_super_users_pass():
    rules = authorizer(READS)
    assert rules.denies(READ_VISITS, by("alice")) is None
    assert rules.denies(READ_VISITS, by("bob")) == "Authorization failed."
    assert rules.denies(READ_VISITS, by("admin")) is None


def test_super_user_passes_a_denial():
    assert authorizer((2, "visits", 3, "User:*", "*", 2, 2)).denies(READ_VISITS, by("admin")) is None


def test_resource_without_rules_is_closed_unless_a_setting_opens_it():
    orders = Access(Operation.READ, ResourceType.TOPIC, "orders")
    assert authorizer(READS).denies(orders, by("bob")) is not None
    opened = authorizer(READS, allows_without_rules=True)
    assert opened.denies(orders, by("bob")) is None
    assert opened.denies(READ_VISITS, by("bob")) is not None


@pytest.mark.parametrize("opens", [False, True])
def test_until_the_rules_were_read_nobody_but_super_users_may_do_anything(opens):
    rules = AclAuthorizer(frozenset(("User:admin",)), allows_without_rules=opens)
    for access in (READ_VISITS, ANY_TOPIC):
        assert rules.denies(access, by("alice")) is not None
        assert rules.denies(access, by("admin")) is None


def test_rule_that_changes_holds_from_the_next_question_on():
    rules = authorizer(READS)
    assert rules.acls is not None
    seen = [rules.denies(READ_VISITS, by("alice")) is None]
    rules.acls.remove(from_row(READS))
    seen.append(rules.denies(READ_VISITS, by("alice")) is None)
    rules.acls.add(from_row(READS))
    seen.append(rules.denies(READ_VISITS, by("alice")) is None)
    rules.acls.add(from_row((2, "*", 3, "User:*", "10.0.0.1", 3, 2)))
    seen.append(rules.denies(READ_VISITS, by("alice")) is None)
    seen.append(rules.denies(READ_VISITS, by("alice", "/10.0.0.2")) is None)
    assert seen == [True, False, True, False, True]


def test_decision_is_made_once_for_each_principal_host_and_access():
    rules = authorizer(READS)
    decided = []
    index = rules.acls
    rules.acls = SimpleNamespace(  # type: ignore[assignment]
        generation=1, decide=lambda *asked: decided.append(asked) or index.decide(*asked)
    )
    for _ in range(3):
        for who in (by("alice"), by("bob"), by("alice", "/10.0.0.2")):
            rules.denies(READ_VISITS, who)
    assert [(asked[0], asked[1]) for asked in decided] == [
        ("User:alice", "/10.0.0.1"),
        ("User:bob", "/10.0.0.1"),
        ("User:alice", "/10.0.0.2"),
    ]


def test_decisions_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr("milepost.broker.acl_authorizer.MOST_DECISIONS", 10)
    rules = authorizer(READS)
    for number in range(100):
        rules.denies(Access(Operation.READ, ResourceType.TOPIC, f"t{number}"), by("alice"))
        assert len(rules._decisions) <= 10
    rules._decisions.clear()
    rules.denies(Access(Operation.READ, ResourceType.TOPIC, "x" * 250), by("alice"))
    assert not rules._decisions


def test_writing_to_any_topic_is_asked_of_all_rules():
    rules = authorizer((2, "visits", 3, "User:alice", "*", 4, 3))
    assert rules.denies(ANY_TOPIC, by("alice")) is None
    assert rules.denies(ANY_TOPIC, by("bob")) is not None


def test_some_topic_may_be_without_rules():
    one_denied = (2, "visits", 3, "User:alice", "*", 4, 2)
    assert authorizer(one_denied).denies(ANY_TOPIC, by("alice")) is not None
    assert authorizer(one_denied, allows_without_rules=True).denies(ANY_TOPIC, by("alice")) is None
    all_denied = (2, "*", 3, "User:alice", "*", 4, 2)
    assert authorizer(all_denied, allows_without_rules=True).denies(ANY_TOPIC, by("alice")) is not None


def test_denial_is_a_line_a_second_for_a_principal_and_its_address(caplog):
    now = [0.0]
    rules = authorizer(READS, monotonic=lambda: now[0])
    with caplog.at_level(logging.WARNING, "milepost.authorizer"):
        for second, name in ((0.0, "bob"), (0.1, "bob"), (0.2, "eve"), (0.9, "bob"), (1.0, "bob"), (1.1, "bob")):
            now[0] = second
            rules.note_denial(READ_VISITS, by(name))
    assert [record.getMessage() for record in caplog.records] == [
        "denied READ on Topic:visits to User:bob from 10.0.0.1",
        "denied READ on Topic:visits to User:eve from 10.0.0.1",
        "denied READ on Topic:visits to User:bob from 10.0.0.1 (and 2 more of this principal)",
    ]
    assert rules.denials.count == 6


def test_name_of_a_stranger_does_not_make_another_line(caplog):
    with caplog.at_level(logging.WARNING, "milepost.authorizer"):
        authorizer(READS).note_denial(Access(Operation.READ, ResourceType.GROUP, "a\nb" + "c" * 500), by("x\ny"))
    (record,) = caplog.records
    assert record.getMessage() == f"denied READ on Group:a\\x0ab{'c' * 97} to User:x\\x0ay from 10.0.0.1"


# Settings.


@pytest.mark.parametrize("name", [STANDARD, ACL])
def test_both_of_kafkas_classes_are_this_one(name):
    config = BrokerConfig.parse({"authorizer.class.name": name, "super.users": "User:a; User:CN=b,O=c;"})
    made = configured_authorizer(config)
    assert made.super_users == {"User:a", "User:CN=b,O=c"}
    assert not made.allows_without_rules


def test_setting_that_lets_everybody_use_what_no_rule_is_about():
    config = BrokerConfig.parse({"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"})
    assert configured_authorizer(config).allows_without_rules


@pytest.mark.parametrize(
    "given",
    [
        {"super.users": "User:a"},
        {"allow.everyone.if.no.acl.found": "false"},
        {"authorizer.class.name": "com.example.Mine"},
        {"authorizer.class.name": STANDARD, "super.users": "alice"},
        {"authorizer.class.name": STANDARD, "super.users": "User:a,bob;carol"},
    ],
)
def test_setting_that_would_not_be_obeyed_is_refused(given):
    with pytest.raises(InvalidConfiguration):
        BrokerConfig.parse(given)

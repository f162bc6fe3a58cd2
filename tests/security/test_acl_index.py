"""What the rules say, as Kafka's StandardAuthorizer decides."""

from __future__ import annotations

import pytest

from milepost.security.acl_index import AclIndex
from milepost.security.acls import AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType

ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
PREFIXED = PatternType.PREFIXED
HOST = "/10.0.0.1"


def rule(
    permission: Permission,
    operation: Operation,
    name: str,
    principal: str = "User:alice",
    host: str = "*",
    pattern_type: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> AclBinding:
    return AclBinding(ResourcePattern(kind, name, pattern_type), principal, host, operation, permission)


def allowed(index: AclIndex, operation: Operation, name: str, principal: str = "User:alice", host: str = HOST) -> bool:
    return index.decide(principal, host, operation, TOPIC, name).allowed


def test_without_rules_nothing_is_allowed_and_that_is_said():
    assert AclIndex().decide("User:alice", HOST, READ, TOPIC, "visits") == (False, None, False)


def test_rule_allows_its_principal_its_operation_on_its_resource():
    index = AclIndex([rule(ALLOW, READ, "visits")])
    assert allowed(index, READ, "visits")
    assert not allowed(index, WRITE, "visits")
    assert not allowed(index, READ, "visits2")
    assert not allowed(index, READ, "visits", "User:bob")
    assert not index.decide("User:alice", HOST, READ, GROUP, "visits").allowed


def test_rule_about_somebody_else_makes_the_resource_one_with_rules():
    index = AclIndex([rule(ALLOW, READ, "visits", "User:bob")])
    assert index.decide("User:alice", HOST, READ, TOPIC, "visits") == (False, None, True)
    assert index.decide("User:alice", HOST, READ, TOPIC, "orders") == (False, None, False)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (rule(ALLOW, READ, "*"), ["visits", "orders", "v"]),
        (rule(ALLOW, READ, "visits"), ["visits"]),
        (rule(ALLOW, READ, "vis", pattern_type=PREFIXED), ["visits"]),
        (rule(ALLOW, READ, "v", pattern_type=PREFIXED), ["visits", "v"]),
        (rule(ALLOW, READ, "*", pattern_type=PREFIXED), []),
        (rule(ALLOW, READ, "visits-and-more", pattern_type=PREFIXED), []),
    ],
    ids=str,
)
def test_literal_wildcard_and_prefixed_names(given, names):
    index = AclIndex([given])
    assert [name for name in ("visits", "orders", "v") if allowed(index, READ, name)] == names


def test_everybody_is_a_principal():
    index = AclIndex([rule(ALLOW, READ, "visits", "User:*")])
    assert allowed(index, READ, "visits", "User:whoever")
    assert allowed(index, READ, "visits", "User:ANONYMOUS")


def test_host_is_an_address_or_every_address():
    index = AclIndex([rule(ALLOW, READ, "visits", host="10.0.0.1")])
    assert allowed(index, READ, "visits", host="/10.0.0.1")
    assert not allowed(index, READ, "visits", host="/10.0.0.2")


@pytest.mark.parametrize("host", ["/::1", "/[::1]", "/0:0:0:0:0:0:0:1"])
def test_denial_holds_however_an_address_is_spelled(host):
    index = AclIndex([rule(ALLOW, READ, "visits"), rule(DENY, READ, "visits", host="0:0:0:0:0:0:0:1")])
    assert not allowed(index, READ, "visits", host=host)


def test_address_that_came_by_way_of_ipv6_is_the_same():
    index = AclIndex([rule(ALLOW, READ, "visits"), rule(DENY, READ, "visits", host="10.0.0.1")])
    assert not allowed(index, READ, "visits", host="/::ffff:10.0.0.1")


@pytest.mark.parametrize(
    "denial",
    [
        rule(DENY, READ, "visits"),
        rule(DENY, READ, "*"),
        rule(DENY, READ, "vis", pattern_type=PREFIXED),
        rule(DENY, ALL, "visits"),
        rule(DENY, READ, "visits", "User:*"),
        rule(DENY, READ, "visits", host="10.0.0.1"),
    ],
    ids=str,
)
def test_denial_beats_every_permission(denial):
    permissions = [rule(ALLOW, ALL, name) for name in ("visits", "*")] + [rule(ALLOW, READ, "visits", pattern_type=PREFIXED)]
    for order in ([denial, *permissions], [*permissions, denial]):
        decision = AclIndex(order).decide("User:alice", HOST, READ, TOPIC, "visits")
        assert decision == (False, denial, True)


@pytest.mark.parametrize(
    "denial",
    [
        rule(DENY, WRITE, "visits"),
        rule(DENY, READ, "visits", "User:bob"),
        rule(DENY, READ, "visits", host="10.0.0.2"),
        rule(DENY, READ, "visits-old"),
        rule(DENY, READ, "visits", kind=GROUP),
    ],
    ids=str,
)
def test_denial_of_something_else_denies_nothing(denial):
    assert allowed(AclIndex([rule(ALLOW, READ, "visits"), denial]), READ, "visits")


@pytest.mark.parametrize(
    ("given", "implied"),
    [
        (Operation.READ, {DESCRIBE}),
        (Operation.WRITE, {DESCRIBE}),
        (Operation.DELETE, {DESCRIBE}),
        (Operation.ALTER, {DESCRIBE}),
        (Operation.CREATE, set()),
        (Operation.ALTER_CONFIGS, {Operation.DESCRIBE_CONFIGS}),
        (Operation.DESCRIBE_CONFIGS, set()),
        (Operation.DESCRIBE, set()),
        (Operation.CLUSTER_ACTION, set()),
        (Operation.IDEMPOTENT_WRITE, set()),
    ],
)
def test_operations_that_imply_others(given, implied):
    index = AclIndex([rule(ALLOW, given, "visits")])
    assert {each for each in Operation if allowed(index, each, "visits")} == {given} | implied


def test_all_is_every_operation():
    index = AclIndex([rule(ALLOW, ALL, "visits")])
    assert all(allowed(index, each, "visits") for each in Operation)


def test_denial_implies_nothing():
    index = AclIndex([rule(ALLOW, ALL, "visits"), rule(DENY, READ, "visits")])
    assert not allowed(index, READ, "visits")
    assert allowed(index, DESCRIBE, "visits")


def test_rule_that_is_taken_away_holds_no_more_and_leaves_nothing():
    rules = [rule(ALLOW, READ, "visits"), rule(ALLOW, READ, "vis", pattern_type=PREFIXED), rule(DENY, WRITE, "visits")]
    index = AclIndex(rules)
    generations = [index.generation]
    for each in rules:
        index.remove(each)
        generations.append(index.generation)
    assert len(set(generations)) == 4
    assert index.decide("User:alice", HOST, READ, TOPIC, "visits") == (False, None, False)
    assert (len(index), index.patterns()) == (0, [])


def test_rule_that_is_there_is_added_once():
    index = AclIndex([rule(ALLOW, READ, "visits"), rule(ALLOW, READ, "visits")])
    generation = index.generation
    index.add(rule(ALLOW, READ, "visits"))
    index.remove(rule(ALLOW, READ, "orders"))
    assert (len(index), index.generation) == (1, generation)


def test_rules_of_a_pattern_are_replaced_together():
    kept, gone, new = rule(ALLOW, READ, "visits"), rule(ALLOW, WRITE, "visits"), rule(DENY, READ, "visits", "User:bob")
    other = rule(ALLOW, READ, "orders")
    index = AclIndex([kept, gone, other])
    index.replace(kept.pattern, [kept, new])
    assert set(index) == {kept, new, other}


# Whether there may be any topic (KIP-679).


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([rule(ALLOW, WRITE, "visits")], True),
        ([rule(ALLOW, ALL, "visits")], True),
        ([rule(ALLOW, READ, "visits")], False),
        ([rule(ALLOW, WRITE, "visits", "User:bob")], False),
        ([rule(ALLOW, WRITE, "visits", "User:*")], True),
        ([rule(ALLOW, WRITE, "visits", host="10.0.0.2")], False),
        ([rule(ALLOW, WRITE, "visits", kind=GROUP)], False),
        ([rule(ALLOW, WRITE, "visits"), rule(DENY, WRITE, "visits")], False),
        ([rule(ALLOW, WRITE, "visits"), rule(DENY, WRITE, "*")], False),
        ([rule(ALLOW, WRITE, "visits"), rule(DENY, WRITE, "vis", pattern_type=PREFIXED)], False),
        ([rule(ALLOW, WRITE, "visits"), rule(DENY, WRITE, "visits-", pattern_type=PREFIXED)], True),
        ([rule(ALLOW, WRITE, "vis", pattern_type=PREFIXED), rule(DENY, WRITE, "visits")], True),
        ([rule(ALLOW, WRITE, "vis", pattern_type=PREFIXED), rule(DENY, WRITE, "v", pattern_type=PREFIXED)], False),
        ([rule(ALLOW, WRITE, "*"), rule(DENY, WRITE, "v", pattern_type=PREFIXED)], True),
        ([rule(ALLOW, WRITE, "*"), rule(DENY, WRITE, "*")], False),
    ],
    ids=lambda rules: "; ".join(map(str, rules)) if isinstance(rules, list) else str(rules),
)
def test_operation_on_any_topic(rules, is_allowed):
    assert AclIndex(rules).decide_any("User:alice", HOST, WRITE, TOPIC).allowed is is_allowed

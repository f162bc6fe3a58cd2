"""Which rules a filter lets through."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidRequest
from milepost.security.acl_filter import AclFilter
from milepost.security.acl_index import AclIndex
from milepost.security.acls import AclBinding, Operation, PatternType, Permission, ResourcePattern, ResourceType, from_row, row_of

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def binding(name: str, pattern_type: PatternType = PatternType.LITERAL, kind: ResourceType = TOPIC) -> AclBinding:
    return AclBinding(ResourcePattern(kind, name, pattern_type), "User:alice", "*", Operation.READ, Permission.ALLOW)


RULES = {
    "visits": binding("visits"),
    "vis*": binding("vis", PatternType.PREFIXED),
    "visits*": binding("visits", PatternType.PREFIXED),
    "all": binding("*"),
    "orders": binding("orders"),
    "group": binding("visits", kind=GROUP),
}


def found(wanted: AclFilter) -> set[str]:
    index = AclIndex(RULES.values())
    among = {each for pattern in index.candidates(wanted) if wanted.matches_pattern(pattern) for each in index.of(pattern)}
    return {name for name, rule in RULES.items() if rule in among and wanted.matches_entry(rule)}


@pytest.mark.parametrize(
    ("kind", "name", "pattern_type", "expected"),
    [
        (ANY, None, ANY, set(RULES)),
        (2, None, ANY, set(RULES) - {"group"}),
        (3, None, ANY, {"group"}),
        (2, "visits", LITERAL, {"visits"}),
        (2, "visits", PREFIXED, {"visits*"}),
        (2, "visits", ANY, {"visits", "visits*"}),
        (2, "visits", MATCH, {"visits", "visits*", "vis*", "all"}),
        (2, "vis", MATCH, {"vis*", "all"}),
        (2, "*", LITERAL, {"all"}),
        (2, "*", MATCH, {"all"}),
        (2, None, MATCH, set(RULES) - {"group"}),
        (2, None, PREFIXED, {"vis*", "visits*"}),
        (ANY, "visits", ANY, {"visits", "visits*", "group"}),
        (2, "", ANY, set()),
    ],
)
def test_resources(kind, name, pattern_type, expected):
    assert found(AclFilter.numbered(kind, name, pattern_type, None, None, ANY, ANY)) == expected


@pytest.mark.parametrize(
    ("principal", "host", "operation", "permission", "is_there"),
    [
        ("User:alice", None, ANY, ANY, True),
        ("User:bob", None, ANY, ANY, False),
        (None, "*", ANY, ANY, True),
        (None, "10.0.0.1", ANY, ANY, False),
        (None, None, 3, ANY, True),
        (None, None, 2, ANY, False),
        (None, None, ANY, 3, True),
        (None, None, ANY, 2, False),
    ],
)
def test_entries(principal, host, operation, permission, is_there):
    assert bool(found(AclFilter.numbered(2, "orders", LITERAL, principal, host, operation, permission))) is is_there


@pytest.mark.parametrize("numbers", [(0, 3, 3, 3), (99, 3, 3, 3), (2, 0, 3, 3), (2, 5, 3, 3), (2, 3, 0, 3), (2, 3, 3, 0), (2, 3, 3, -1)])
def test_number_that_stands_for_nothing_is_refused(numbers):
    kind, pattern_type, operation, permission = numbers
    with pytest.raises(InvalidRequest):
        AclFilter.numbered(kind, None, pattern_type, None, None, operation, permission)


# New rules.


def test_rule_is_written_down_as_numbers_and_read_back():
    row = (2, "visits", 4, "User:alice", "10.0.0.1", 3, 2)
    assert row_of(from_row(row)) == row
    assert str(from_row(row)) == "DENY READ on Topic:PREFIXED:visits to User:alice from 10.0.0.1"


@pytest.mark.parametrize(
    "row",
    [
        (0, "visits", 3, "User:alice", "*", 3, 3),
        (1, "visits", 3, "User:alice", "*", 3, 3),
        (2, "visits", 1, "User:alice", "*", 3, 3),
        (2, "visits", 2, "User:alice", "*", 3, 3),
        (2, "visits", 3, "User:alice", "*", 1, 3),
        (2, "visits", 3, "User:alice", "*", 0, 3),
        (2, "visits", 3, "User:alice", "*", 3, 1),
        (2, "", 3, "User:alice", "*", 3, 3),
        (2, "visits", 3, "", "*", 3, 3),
        (2, "visits", 3, "alice", "*", 3, 3),
        (2, "visits", 3, "User:", "*", 3, 3),
        (2, "visits", 3, "User:alice", "", 3, 3),
        (2, "v" * 1001, 3, "User:alice", "*", 3, 3),
        (4, "visits", 3, "User:alice", "*", 3, 3),
    ],
    ids=str,
)
def test_rule_that_no_authorizer_would_understand_is_refused(row):
    with pytest.raises(InvalidRequest):
        from_row(row)

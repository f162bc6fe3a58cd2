"""`milepost acls`: rules made, listed, deleted, and which one decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from milepost import Broker
from tests.cli.running import Ran, run

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


@pytest.fixture
def acls() -> Iterator[Callable[..., Ran]]:
    with Broker(config=AUTHORIZER) as broker:
        yield lambda *arguments: run("acls", *arguments, "--bootstrap-server", broker.bootstrap_servers)


def test_rules_are_created_listed_and_deleted(acls):
    assert acls("create", "--resource", "topic:visits", "--principal", "User:alice", "--operation", "read").lines == [
        "permission  principal   host  operation  resource  pattern  name",
        "Allow       User:alice  *     Read       Topic     Literal  visits",
    ]
    ran = acls(
        *("create", "--resource", "topic:vis", "--prefixed", "--principal", "User:bob"),
        *("--operation", "write", "--operation", "describe-configs", "--deny", "--host", "10.0.0.1"),
    )
    assert ran.code == 0
    acls("create", "--resource", "group:*", "--principal", "User:alice", "--operation", "all")
    acls("create", "--resource", "cluster", "--principal", "User:alice", "--operation", "ClusterAction")
    assert acls("list", "--resource", "topic:visits").lines == [
        "permission  principal   host      operation        resource  pattern   name",
        "Deny        User:bob    10.0.0.1  Write            Topic     Prefixed  vis",
        "Deny        User:bob    10.0.0.1  DescribeConfigs  Topic     Prefixed  vis",
        "Allow       User:alice  *         Read             Topic     Literal   visits",
    ]
    assert len(acls("list").lines) == 1 + 5
    assert [json.loads(line) for line in acls("list", "--principal", "User:alice", "--resource", "cluster", "--json").lines] == [
        {
            "permission": "Allow",
            "principal": "User:alice",
            "host": "*",
            "operation": "ClusterAction",
            "resource_type": "Cluster",
            "pattern_type": "Literal",
            "name": "kafka-cluster",
        }
    ]
    assert acls("delete", "--resource", "topic:visits").lines[-1] == "deleted 1 rule"
    assert acls("delete", "--resource", "topic:vis", "--prefixed", "--operation", "write").lines[-1] == "deleted 1 rule"
    assert acls("delete", "--principal", "User:alice").lines[-1] == "deleted 2 rules"
    assert len(acls("list").lines) == 1 + 1
    assert acls("delete", "--resource", "topic:nothing").lines == ["deleted 0 rules"]


def test_rule_that_decides_is_named(acls):
    acls("create", "--resource", "topic:vis", "--prefixed", "--principal", "User:*", "--operation", "read")
    acls("create", "--resource", "topic:visits", "--principal", "User:bob", "--operation", "all", "--deny", "--host", "10.0.0.1")

    def why(principal: str, operation: str, resource: str, *more: str) -> tuple[int, list[str]]:
        ran = acls("why", "--principal", principal, "--operation", operation, "--resource", resource, *more)
        return ran.code, ran.lines

    everybody = "ALLOW READ on Topic:PREFIXED:vis to User:*"
    assert why("User:alice", "read", "topic:visits") == (0, [f"allowed: the rule {everybody}"])
    assert why("User:alice", "describe", "topic:visits") == (0, [f"allowed: the rule {everybody}"])
    assert why("User:bob", "read", "topic:visits") == (0, [f"allowed: the rule {everybody}"])
    assert why("User:bob", "read", "topic:visits", "--host", "10.0.0.1") == (
        1,
        ["denied: the rule DENY ALL on Topic:LITERAL:visits to User:bob from 10.0.0.1"],
    )
    assert why("User:alice", "write", "topic:visits") == (1, ["denied: no rule about Topic visits is for this"])
    assert why("User:alice", "read", "topic:orders") == (
        1,
        ["denied: there is no rule about Topic orders, and allow.everyone.if.no.acl.found is false"],
    )
    assert why("User:root", "alter", "cluster") == (0, ["allowed: User:root is among super.users"])
    assert json.loads(why("User:root", "alter", "cluster", "--json")[1][0]) == {
        "allowed": True,
        "reason": "User:root is among super.users",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["create", "--resource", "topic:visits", "--principal", "User:alice"],
            "a rule needs --resource, --principal and --operation",
        ),
        (
            ["create", "--resource", "topics:v", "--principal", "User:a", "--operation", "read"],
            "'topics' is none of Topic, Group",
        ),
        (
            ["create", "--resource", "topic", "--principal", "User:a", "--operation", "read"],
            "give a name too, such as topic:visits",
        ),
        (["create", "--resource", "topic:v", "--principal", "a", "--operation", "read"], "'a' is no principal: give TYPE:NAME"),
        (
            ["create", "--resource", "topic:v", "--principal", "User:a", "--operation", "peek"],
            "--operation 'peek' is none of All",
        ),
        (["delete"], "this would delete every rule"),
        (["delete", "--deny"], "this would delete every rule"),
    ],
)
def test_rule_that_makes_no_sense_is_a_sentence(acls, arguments, said):
    ran = acls(*arguments)
    assert ran.code == 2
    assert said in " ".join(ran.errors)


def test_broker_without_an_authorizer_says_so():
    with Broker() as broker:
        ran = run("acls", "list", "--bootstrap-server", broker.bootstrap_servers)
    assert (ran.code, ran.lines) == (4, [])
    assert ran.errors == ["milepost: ACLs: the broker answers SECURITY_DISABLED (54): No Authorizer is configured."]

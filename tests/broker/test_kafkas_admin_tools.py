"""What Kafka's own tools change in a broker that runs: levels of features, settings of groups and of the broker.

(`tests/clients` has what they do with topics, records and consumers, `test_hanging_transactions` what they do with transactions.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from tests.broker.conftest import Brokers
from tests.clients.java_tools import JavaTools

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["3.9.1", "4.3.0"])
def tools(request: pytest.FixtureRequest, broker: Broker, tmp_path) -> Iterator[JavaTools]:
    running = JavaTools(request.param, broker.bootstrap_servers, tmp_path / "errors")
    yield running
    running.close()


def levels(tools: JavaTools) -> dict[str, str]:
    """The versions of the tool put different blanks between the columns."""
    found = re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", tools.run("features", "describe"))
    return dict(found)


def test_features_are_described_moved_down_and_up(tools, broker):
    assert levels(tools) == {"group.version": "1", "transaction.version": "2"}
    tools.run("features", "downgrade", "--feature", "transaction.version=1")
    assert levels(tools) == {"group.version": "1", "transaction.version": "1"}
    assert broker.transactions.settings.transaction_version == 1
    tools.run("features", "upgrade", "--feature", "transaction.version=2")
    assert levels(tools) == {"group.version": "1", "transaction.version": "2"}


def test_settings_of_the_broker_change_while_it_runs(tools, broker):
    of_broker = ["--entity-type", "brokers", "--entity-name", "0"]
    tools.run("configs", *of_broker, "--alter", "--add-config", "message.max.bytes=2000000,num.io.threads=16")
    shown = tools.run("configs", *of_broker, "--describe")
    assert "  message.max.bytes=2000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=2000000," in shown
    assert (broker.config.message_max_bytes, broker.config.num_io_threads) == (2_000_000, 16)
    tools.run("configs", *of_broker, "--alter", "--delete-config", "message.max.bytes")
    assert "message.max.bytes" not in tools.run("configs", *of_broker, "--describe")
    of_all = ["--entity-type", "brokers", "--entity-default"]
    tools.run("configs", *of_all, "--alter", "--add-config", "log.cleaner.backoff.ms=50")
    assert "  log.cleaner.backoff.ms=50 " in tools.run("configs", *of_all, "--describe")
    assert broker.logs.cleaner.backoff_ms == 50


@pytest.mark.parametrize("tools", ["4.3.0"], indirect=True)
def test_settings_of_a_group(tools):
    of_group = ["--entity-type", "groups", "--entity-name", "readers"]
    tools.run("configs", *of_group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "  consumer.session.timeout.ms=50000 " in tools.run("configs", *of_group, "--describe")
    assert "readers" in tools.run("configs", "--entity-type", "groups", "--describe")


def test_levels_of_loggers(tools):
    of_loggers = ["--entity-type", "broker-loggers", "--entity-name", "0"]
    tools.run("configs", *of_loggers, "--alter", "--add-config", "milepost.net=DEBUG")
    assert "  milepost.net=DEBUG sensitive=false synonyms={}" in tools.run("configs", *of_loggers, "--describe")
    tools.run("configs", *of_loggers, "--alter", "--delete-config", "milepost.net")
    # That of the logger above it, which the tests have set.
    assert "  milepost.net=ERROR " in tools.run("configs", *of_loggers, "--describe")


@pytest.fixture(params=["3.9.1", "4.3.0"])
def closed(request: pytest.FixtureRequest, brokers: Brokers, tmp_path) -> Iterator[JavaTools]:
    """The tools, at a broker with an authorizer."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = brokers.start({"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"})
    running = JavaTools(request.param, broker.bootstrap_servers, tmp_path / "errors")
    yield running
    running.close()


RULE = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\S+), permissionType=(\S+)\)")
RESOURCE = re.compile(r"resourceType=(\S+), name=(\S+), patternType=(\S+)\)")


def rules(shown: str) -> set[tuple[str, ...]]:
    """Each line names a resource, or a rule of the one before it."""
    found: set[tuple[str, ...]] = set()
    resource: tuple[str, ...] = ()
    for line in shown.splitlines():
        if named := RESOURCE.search(line):
            resource = named.groups()
        found |= {(*resource, *each.groups()) for each in RULE.finditer(line)}
    return found


def test_acls_are_added_listed_and_removed(closed):
    closed.run("acls", "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "visits", "--group", "readers")
    closed.run(
        *("acls", "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Write"),
        *("--topic", "vis", "--resource-pattern-type", "prefixed"),
    )
    closed.run("acls", "--add", "--allow-principal", "User:alice", "--operation", "ClusterAction", "--cluster")
    of_topic = {
        ("TOPIC", "visits", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
        ("TOPIC", "visits", "LITERAL", "User:alice", "*", "DESCRIBE", "ALLOW"),
        ("TOPIC", "vis", "PREFIXED", "User:bob", "10.0.0.1", "WRITE", "DENY"),
    }
    others = {
        ("GROUP", "readers", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
        ("CLUSTER", "kafka-cluster", "LITERAL", "User:alice", "*", "CLUSTER_ACTION", "ALLOW"),
    }
    assert rules(closed.run("acls", "--list")) == of_topic | others
    assert rules(closed.run("acls", "--list", "--topic", "visits", "--resource-pattern-type", "match")) == of_topic
    closed.run("acls", "--remove", "--topic", "visits", "--resource-pattern-type", "match", "--force")
    assert rules(closed.run("acls", "--list")) == others


def test_there_are_no_metrics_of_clients(tools):
    assert tools.run("configs", "--entity-type", "client-metrics", "--describe") == ""

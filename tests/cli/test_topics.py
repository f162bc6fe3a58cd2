"""`milepost topics`, against a broker and against none."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.running import run


def test_topic_is_created_described_listed_and_deleted(ask):
    created = ask("topics", "create", "visits", "--partitions", 2, "--config", "retention.ms=1000")
    assert (created.code, created.lines) == (0, ["created topic visits with 2 partitions, 1 replica each"])
    described = ask("topics", "describe", "visits")
    assert described.lines[0].startswith("topic visits: 2 partitions, id ")
    assert described.lines[1:] == [
        "retention.ms=1000",
        "partition  leader  epoch  replicas  isr  offline",
        "        0       0      0  0         0    -",
        "        1       0      0  0         0    -",
    ]
    assert "visits" in ask("topics", "list").lines
    assert ask("topics", "delete", "visits").lines == ["deleted topic visits"]
    assert "visits" not in ask("topics", "list").lines


def test_everything_as_json(ask):
    made = ask("topics", "create", "as-json", "--json")
    assert json.loads(made.lines[0]) == {"name": "as-json", "partitions": 1, "replication_factor": 1}
    listed = [json.loads(line) for line in ask("topics", "list", "--json").lines]
    assert {"name": "as-json", "partitions": 1, "is_internal": False} in listed
    (described,) = [json.loads(line) for line in ask("topics", "describe", "as-json", "--json").lines]
    assert described["partitions"] == [
        {"partition": 0, "leader": 0, "leader_epoch": 0, "replicas": [0], "isr": [0], "offline": []}
    ]
    assert (described["name"], described["configs"], len(described["topic_id"])) == ("as-json", {}, 22)
    assert json.loads(ask("topics", "delete", "as-json", "--json").lines[0]) == {"name": "as-json", "deleted": True}


def test_without_a_name_all_but_the_internal_topics_are_described(ask):
    for name in ("first", "second"):
        ask("topics", "create", name)
    ask("produce", "first", stdin=b"x\n")
    ask("consume", "first", "--group", "g", "--from-beginning", "--max-messages", 1)
    headings = [line.split(":")[0] for line in ask("topics", "describe").lines if line.startswith("topic ")]
    assert {"topic first", "topic second"} <= set(headings)
    assert "topic __consumer_offsets" not in headings
    assert "__consumer_offsets" not in ask("topics", "list").lines
    assert "__consumer_offsets" in ask("topics", "list", "--internal").lines


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["create", "taken"], "milepost: topic taken: the broker answers TOPIC_ALREADY_EXISTS (36): "),
        (["create", "no/slash"], "milepost: topic no/slash: the broker answers INVALID_TOPIC_EXCEPTION (17): "),
        (["create", "x", "--config", "nonsense=1"], "milepost: topic x: the broker answers INVALID_CONFIG (40): "),
        (["create", "x", "--replication-factor", 3], "milepost: topic x: the broker answers INVALID_REPLICATION_FACTOR (38): "),
        (["describe", "absent"], "milepost: topic absent: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3)"),
        (["delete", "absent"], "milepost: topic absent: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3): "),
    ],
)
def test_refusal_is_one_sentence_and_4(ask, arguments, sentence):
    ask("topics", "create", "taken")
    ran = ask("topics", *arguments)
    assert (ran.code, ran.lines, len(ran.errors)) == (4, [], 1)
    assert ran.errors[0].startswith(sentence)


@pytest.mark.parametrize(
    "arguments",
    [["create"], ["create", "x", "--partitions", 0], ["create", "x", "--config", "novalue"], ["delete"], ["rename", "x"]],
)
def test_wrong_usage_is_2(arguments):
    assert run("topics", *arguments).code == 2


@pytest.mark.parametrize("text", ["host:port", "http://x", ""])
def test_address_that_is_none_is_wrong_usage(text):
    ran = run("topics", "list", "--bootstrap-server", text)
    assert (ran.code, len(ran.errors)) == (2, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "t"],
        ["topics", "describe", "t"],
        ["topics", "delete", "t"],
        ["produce", "t"],
        ["consume", "t"],
        ["groups", "list"],
        ["groups", "describe", "g"],
        ["groups", "delete", "g"],
        ["groups", "reset", "g", "--to-latest"],
        ["config", "describe", "--topic", "t"],
        ["config", "alter", "--broker", 0, "--set", "a=b"],
    ],
)
def test_broker_that_is_not_there_is_4_and_the_address(nobody, arguments):
    ran = run(*arguments, "--bootstrap-server", nobody)
    assert (ran.code, ran.lines, ran.errors) == (4, [], [f"milepost: no broker answers at {nobody}: connection refused"])


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it is done."""
    code = "import sys; from milepost.cli.main import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=180, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("name", ["topics", "produce", "consume", "groups"])
def test_help_needs_no_client(name):
    assert not [
        module
        for module in loaded(name, "--help")
        if module.startswith(("milepost.client", "milepost.protocol", "milepost.inspect"))
    ]


def test_command_loads_no_broker_no_log_and_no_tools(broker):
    modules = loaded("groups", "list", "--bootstrap-server", broker.bootstrap_servers)
    heavy = ("milepost.broker", "milepost.inspect", "milepost.log.log", "milepost.segment", "asyncio", "rich", "cramjam")
    assert "milepost.client.groups" in modules
    assert not [module for module in modules if module.startswith(heavy)]

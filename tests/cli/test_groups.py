"""`milepost groups`: lag, members, and where a group goes on."""

from __future__ import annotations

import json
import zlib

import pytest
from confluent_kafka import Consumer

from milepost.client.cluster import Cluster
from milepost.client.offsets import commit
from milepost.client.producer import Producer
from milepost.topic_partition import TopicPartition
from tests.cli.running import run
from tests.waiting import until


@pytest.fixture(scope="module")
def topic(broker) -> str:
    """Two partitions with ten records each, at 1,700,000,000,000 ms and each a second later."""
    run("topics", "create", "counted", "--partitions", 2, "--bootstrap-server", broker.bootstrap_servers)
    with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
        for number in range(20):
            producer.send("counted", b"v", partition=number % 2, timestamp=1700000000000 + 1000 * (number // 2))
    return "counted"


@pytest.fixture
def group(broker, topic, request) -> str:
    """A group that has read four records of partition 0 and all of partition 1."""
    name = f"group-{zlib.crc32(request.node.name.encode())}"
    with Cluster(broker.bootstrap_servers) as cluster:
        commit(cluster, name, {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 10})
    return name


def test_group_is_listed_and_described_with_its_lag(ask, group):
    assert [group, "Empty", "classic"] in [line.split() for line in ask("groups", "list").lines]
    assert ask("groups", "describe", group).lines == [
        f"group {group}: Empty, classic, 0 members",
        "topic    partition  committed  end  lag  client  host",
        "counted          0          4   10    6  -       -",
        "counted          1         10   10    0  -       -",
    ]


def test_everything_as_json(ask, group):
    assert {"group": group, "state": "Empty", "type": "classic", "protocol_type": ""} in [
        json.loads(line) for line in ask("groups", "list", "--json").lines
    ]
    described = [json.loads(line) for line in ask("groups", "describe", group, "--json").lines]
    assert described[0] == {"group": group, "state": "Empty", "type": "classic", "assignor": "", "members": []}
    assert described[1] == {"topic": "counted", "partition": 0, "committed": 4, "end_offset": 10, "lag": 6, "member_id": None}


def offsets(ask, group: str) -> list[int]:
    return [json.loads(line)["committed"] for line in ask("groups", "describe", group, "--json").lines[1:]]


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-offset", 7], [7, 7]),
        (["--to-offset", 99], [10, 10]),
        (["--to-time", "1700000002500"], [3, 3]),
        (["--to-time", "2023-11-14T22:13:29Z"], [9, 9]),
        (["--to-time", "2100-01-01"], [10, 10]),
    ],
)
def test_reset_moves_the_group_only_when_told_to(ask, group, target, after):
    shown = ask("groups", "reset", group, *target)
    assert (shown.code, shown.errors) == (0, ["nothing was changed: --execute does it"])
    assert [line.split() for line in shown.lines[1:]] == [
        ["counted", "0", "4", str(after[0])],
        ["counted", "1", "10", str(after[1])],
    ]
    assert offsets(ask, group) == [4, 10]
    done = ask("groups", "reset", group, *target, "--execute")
    assert (done.code, done.lines, done.errors) == (0, shown.lines, [])
    assert offsets(ask, group) == after


def test_reset_of_one_partition_and_as_json(ask, group):
    ran = ask("groups", "reset", group, "--to-earliest", "--topic", "counted:1", "--execute", "--json")
    assert [json.loads(line) for line in ran.lines] == [
        {"topic": "counted", "partition": 1, "committed": 10, "new_offset": 0, "executed": True}
    ]
    assert offsets(ask, group) == [4, 0]


def test_reset_before_the_first_consumer(ask, topic):
    nothing = ask("groups", "reset", "unborn", "--to-latest")
    assert (nothing.code, nothing.errors) == (2, ["milepost: group unborn has committed nothing: name the topics with --topic"])
    assert ask("groups", "reset", "unborn", "--to-latest", "--topic", topic, "--execute").code == 0
    assert offsets(ask, "unborn") == [10, 10]


@pytest.mark.parametrize("text", ["counted:2", "counted:x", "counted:", "counted:0,-1"])
def test_reset_of_a_partition_that_is_not_there(ask, group, text):
    ran = ask("groups", "reset", group, "--to-latest", "--topic", text)
    assert (ran.code, ran.errors) == (2, [f"milepost: {text!r} names a partition that is not there: topic counted has 0 to 1"])


def test_group_with_members_shows_them_and_is_not_touched(ask, broker, topic):
    member = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "busy", "client.id": "worker"})
    try:
        member.subscribe([topic])
        until(lambda: member.poll(0.1) or len(member.assignment()) == 2)
        described = ask("groups", "describe", "busy").lines
        assert described[0] == "group busy: Stable, classic, 1 member, assignor range"
        assert [line.split()[:6] for line in described[2:]] == [
            ["counted", "0", "-", "10", "-", "worker"],
            ["counted", "1", "-", "10", "-", "worker"],
        ]
        refused = ask("groups", "reset", "busy", "--to-earliest", "--topic", topic, "--execute")
        sentence = "milepost: group busy is Stable with 1 member: stop them first, then reset it"
        assert (refused.code, refused.lines, refused.errors) == (4, [], [sentence])
        kept = ask("groups", "delete", "busy")
        assert (kept.code, kept.errors) == (4, ["milepost: group busy: the broker answers NON_EMPTY_GROUP (68)"])
    finally:
        member.close()


def test_group_is_deleted(ask, group):
    assert ask("groups", "delete", group).lines == [f"deleted group {group}"]
    again = ask("groups", "delete", group)
    assert (again.code, again.errors) == (4, [f"milepost: group {group}: the broker answers GROUP_ID_NOT_FOUND (69)"])


def test_group_that_is_not_there(ask):
    ran = ask("groups", "describe", "nobody")
    assert (ran.code, ran.lines, len(ran.errors)) == (4, [], 1)
    assert "GROUP_ID_NOT_FOUND (69)" in ran.errors[0]


@pytest.mark.parametrize(
    "arguments",
    [["reset", "g"], ["reset", "g", "--to-earliest", "--to-latest"], ["reset", "g", "--to-time", "soon"], ["describe"]],
)
def test_wrong_usage_is_2(arguments):
    assert run("groups", *arguments).code == 2

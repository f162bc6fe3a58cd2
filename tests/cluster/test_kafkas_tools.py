"""Kafka's own tools, asked through a broker of Kafka's and through one of ours in the same cluster: they say the same, and do the same."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.java_tools import JavaTools
from tests.cluster.asking import leaders, node, partitions_of, until, zookeeper_client
from tests.cluster.kafka_processes import MixedProcesses
from tests.cluster.writing import Writer, create_topic
from tests.waiting import PROCESS_PATIENCE

pytestmark = [pytest.mark.kafka]

CRAWL, FAST = 20_000, 20_000_000
"""For 20 MB: a quarter of an hour, which is longer than anybody waits here, or no time at all."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, zookeeper_server):
    directory = tmp_path_factory.mktemp("tools")
    place = f"{zookeeper_server.address}/{directory.name}"
    with MixedProcesses(directory, place, ["milepost", "kafka", "milepost"]) as cluster:
        create_topic(cluster, "visits", 3, 3)
        with Writer(cluster.bootstrap, "visits", 3) as writer:
            writer.wait_for(100)
        cluster.wait_until_in_sync("visits")
        yield cluster


@pytest.fixture(scope="module")
def tools(cluster, tmp_path_factory):
    """Asked through ours and through Kafka's."""
    errors = tmp_path_factory.mktemp("errors")
    made = [JavaTools("3.9.1", cluster.brokers[number].address, errors / f"{number}.err") for number in (1, 2)]
    yield made
    with contextlib.ExitStack() as stack:
        for each in made:
            stack.callback(each.close)


def test_topics_are_described_alike(tools):
    """Except for the last two columns: without KRaft Kafka does not serve DescribeTopicPartitions, and ours does."""
    printed = (each.run("topics", "--describe", "--topic", "visits") for each in tools)
    ours, kafkas = (re.sub(r"\tElr: .*", "", text) for text in printed)
    assert sorted(ours.splitlines()) == sorted(kafkas.splitlines())
    assert len(re.findall(r"Leader: [123]\tReplicas: ", ours)) == 3


def test_log_directories_have_the_same_sizes(tools):
    ours, kafkas = (json.loads(each.run("log-dirs", "--describe", "--topic-list", "visits").splitlines()[-1]) for each in tools)
    assert sizes(ours) == sizes(kafkas)
    assert len(sizes(ours)) == 9
    for number in range(3):
        assert len({size for (_, partition), size in sizes(ours).items() if partition == f"visits-{number}"}) == 1


def sizes(described):
    return {
        (broker["broker"], partition["partition"]): partition["size"]
        for broker in described["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }


def test_partition_is_moved_back_and_forth(cluster, tools, tmp_path):
    create_topic(cluster, "moves", 1, 1)
    for tool, target in zip(tools, (2, 1), strict=True):
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "moves", "partition": 0, "replicas": [target]}]}))
        move = ("reassign-partitions", "--reassignment-json-file", str(plan))
        tool.run(*move, "--execute")
        until(lambda tool=tool, move=move: "is completed" in tool.run(*move, "--verify"), "the move is completed")
        until(lambda target=target: partitions_of(cluster.bootstrap, "moves")[0].replicas == [target], "it is told so")


def test_move_under_a_throttle_takes_its_time_and_leaves_no_throttle_behind(cluster, tools, tmp_path):
    """From ours to Kafka's, then back: each is slowed down by the other's leader and by its own follower."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("slow", 1, replica_assignment=[[1]])])["slow"].result()
    fill(cluster.bootstrap, "slow", 20_000_000)
    for tool, target in zip(tools, (2, 1), strict=True):
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "slow", "partition": 0, "replicas": [target]}]}))
        move = ("reassign-partitions", "--reassignment-json-file", str(plan))
        assert f"The inter-broker throttle limit was set to {CRAWL} B/s" in tool.run(*move, "--execute", "--throttle", str(CRAWL))
        assert "is still in progress" in tool.run(*move, "--verify")
        assert throttles(tool) == 3
        tool.run(*move, "--execute", "--additional", "--throttle", str(FAST))
        until(lambda target=target: partitions_of(cluster.bootstrap, "slow")[0].replicas == [target], "it is moved")
        until(lambda tool=tool, move=move: "is completed" in tool.run(*move, "--verify"), "the move is completed")
        assert throttles(tool) == 0


def fill(bootstrap, topic, size):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    for _ in range(size // 10_000):
        producer.produce(topic, bytes(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(PROCESS_PATIENCE) == 0


def throttles(tool):
    """In how many places there is one: the topic and the two brokers."""
    asked = [("topics", "slow"), ("brokers", "1"), ("brokers", "2")]
    printed = [tool.run("configs", "--describe", "--entity-type", kind, "--entity-name", name) for kind, name in asked]
    return sum("replication.throttled" in text for text in printed)


def test_preferred_leaders_are_elected(cluster, tools):
    for tool in tools:
        preferred = partitions_of(cluster.bootstrap, "visits")[0].replicas[0]
        assert cluster.brokers[preferred].stop() == 0
        others = ",".join(broker.address for broker in cluster.running)
        until(lambda preferred=preferred, others=others: leaders(others, "visits")[0] != preferred, "another leads")
        cluster.brokers[preferred].start()
        cluster.wait_until_in_sync("visits")
        tool.run("leader-election", "--election-type", "preferred", "--topic", "visits", "--partition", "0")
        until(lambda preferred=preferred: leaders(cluster.bootstrap, "visits")[0] == preferred, "the preferred one leads")


def test_settings_are_changed_through_one_and_seen_through_the_other(tools):
    for changes, sees in (tools, tools[::-1]):
        value = str(1_000_000 + len(changes.bootstrap) + tools.index(changes))
        changes.run(
            "configs", "--entity-type", "topics", "--entity-name", "visits", "--alter", "--add-config", f"retention.ms={value}"
        )
        until(
            lambda sees=sees, value=value: (
                f"retention.ms={value}" in sees.run("configs", "--entity-type", "topics", "--entity-name", "visits", "--describe")
            ),
            "the other sees it",
        )


def test_znodes_of_both_kinds_of_brokers_have_the_same_fields(cluster):
    with zookeeper_client(cluster.zookeeper) as client:
        nodes = {number: node(client, f"/brokers/ids/{number}") for number in (1, 2, 3)}
    assert {tuple(sorted(each)) for each in nodes.values()} == {tuple(sorted(nodes[2]))}
    for each in nodes.values():
        assert {key: type(value) for key, value in each.items()} == {key: type(value) for key, value in nodes[2].items()}

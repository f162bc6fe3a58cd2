"""Kafka's own command-line tools, of 3.9.1 and of 4.3.0, as an operator types them; with them run Kafka's Java clients.

The tools of a version share one JVM (`ToolRunner.java`); the two verifiable consumers have one each.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from tests.clients.client import kafka_clients
from tests.clients.java_tools import TOOL_SECONDS, JavaTools
from tests.clients.served import Served
from tests.clients.situations import CODECS
from tests.waiting import until

pytestmark = pytest.mark.kafka
CLIENTS = kafka_clients("tools", "Java, Scala")
LONG_MS = str(int(1000 * TOOL_SECONDS))


@pytest.fixture(scope="module", params=["3.9.1", "4.3.0"])
def tools(request: pytest.FixtureRequest, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTools]:
    running = JavaTools(request.param, served.bootstrap, tmp_path_factory.mktemp("tools") / "errors")
    yield running
    running.close()


@pytest.fixture
def topic(tools: JavaTools, served: Served) -> str:
    name = served.name()
    tools.run("topics", "--create", "--topic", name, "--partitions", "1")
    return name


def produce(tools: JavaTools, topic: str, lines: list[str], *arguments: str) -> None:
    tools.run("console-producer", "--topic", topic, *arguments, given="".join(f"{line}\n" for line in lines))


def consume(tools: JavaTools, topic: str, count: int, *arguments: str) -> list[str]:
    limits = ["--from-beginning", "--max-messages", str(count), "--timeout-ms", LONG_MS]
    return tools.run("console-consumer", "--topic", topic, *limits, *arguments).splitlines()


def rows(table: str) -> list[list[str]]:
    """The cells of the lines below a table's heading; 3.9.1 ends some rows with blanks and no line break."""
    return [line.split() for line in table.splitlines() if line.strip()][1:]


def test_topics_are_created_described_grown_and_deleted(tools, served):
    topic = served.name()
    created = tools.run("topics", "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=70000000")
    assert f"Created topic {topic}." in created
    tools.run("topics", "--alter", "--topic", topic, "--partitions", "3")
    heading, *partitions = tools.run("topics", "--describe", "--topic", topic).splitlines()
    nodes = served.node_ids
    described = re.search(rf"PartitionCount: 3\tReplicationFactor: {len(nodes)}\tConfigs: (\S+)", heading)
    assert described is not None, heading
    assert set(described[1].split(",")) == {"retention.ms=70000000"} | served.topic_settings
    shown = [dict(field.split(": ") for field in line.split("\t")[2:6]) for line in partitions]
    assert [found["Partition"] for found in shown] == ["0", "1", "2"]
    assert {int(found["Leader"]) for found in shown} == nodes
    for found in shown:
        assert found["Replicas"] == found["Isr"]
        assert found["Replicas"].split(",")[0] == found["Leader"]
        assert {int(replica) for replica in found["Replicas"].split(",")} == nodes
    assert tools.run("topics", "--describe", "--unavailable-partitions") == ""
    tools.run("topics", "--delete", "--topic", topic)
    assert topic not in tools.run("topics", "--list").split()


@pytest.mark.parametrize("codec", CODECS)
def test_the_console_producer_stores_every_codec_as_sent(tools, served, codec):
    topic = served.name()
    lines = [f"{number} {'page visit ' * 10}" for number in range(20)]
    produce(tools, topic, lines, f"--compression-codec={codec}")
    stored = set().union(*(served.codecs(topic, partition) for partition in range(2)))
    assert stored == {CODECS[codec]}


def test_the_console_consumer_reads_what_the_console_producer_wrote(tools, topic):
    parsed = ["--reader-property", "parse.headers=true", "--reader-property", "parse.key=true"]
    produce(tools, topic, [f"h:{n}\tkey {n}\tvalue {n}" for n in range(3)], *parsed)
    shown = [("--formatter-property", f"print.{part}=true") for part in ("key", "headers", "offset")]
    assert consume(tools, topic, 3, *itertools.chain(*shown)) == [f"Offset:{n}\th:{n}\tkey {n}\tvalue {n}" for n in range(3)]


def test_a_group_of_the_consumer_protocol_reads_and_is_described(tools, served, topic):
    group = served.name("group")
    produce(tools, topic, ["a", "b", "c"])
    assert consume(tools, topic, 3, "--group", group, "--command-property", "group.protocol=consumer") == ["a", "b", "c"]
    assert [row[:6] for row in rows(tools.run("consumer-groups", "--describe", "--group", group))] == [
        [group, topic, "0", "3", "3", "0"]
    ]


def test_groups_are_listed_described_reset_and_deleted(tools, served, topic):
    group = served.name("group")
    produce(tools, topic, ["a", "b", "c", "d"])
    assert consume(tools, topic, 3, "--group", group) == ["a", "b", "c"]
    assert group in tools.run("consumer-groups", "--list").split()
    assert [row[:6] for row in rows(tools.run("consumer-groups", "--describe", "--group", group))] == [
        [group, topic, "0", "3", "4", "1"]
    ]
    assert "Empty" in tools.run("consumer-groups", "--describe", "--group", group, "--state")
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--execute"]
    assert "1" in tools.run("consumer-groups", *reset, "--shift-by", "-2").split()
    assert consume(tools, topic, 3, "--group", group) == ["b", "c", "d"]
    assert "Successful" in tools.run("consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
    assert "successful" in tools.run("consumer-groups", "--delete", "--group", group)


def test_a_group_is_reset_to_wherever_it_is_asked(tools, served, topic):
    group = served.name("group")
    produce(tools, topic, ["a", "b", "c"])
    assert consume(tools, topic, 2, "--group", group) == ["a", "b"]

    def reset(*where: str) -> str:
        shown = tools.run("consumer-groups", "--reset-offsets", "--group", group, "--topic", topic, *where)
        *_, of_group, of_topic, partition, offset = shown.split()
        assert (of_group, of_topic, partition) == (group, topic, "0")
        return offset

    where = [("--to-latest", "3"), ("--to-earliest", "0"), ("--to-offset 1", "1"), ("--to-datetime 2020-01-01T00:00:00.000", "0")]
    assert [(way, reset(*way.split(), "--dry-run")) for way, _ in where] == where
    assert rows(tools.run("consumer-groups", "--describe", "--group", group))[0][3] == "2"
    assert reset("--by-duration", "PT1H", "--execute") == "0"
    assert rows(tools.run("consumer-groups", "--describe", "--all-groups", "--offsets"))
    assert consume(tools, topic, 3, "--group", group) == ["a", "b", "c"]
    assert rows(tools.run("consumer-groups", "--describe", "--group", group, "--members")) == []
    if tools.version == "4.3.0":
        assert [group, "Classic", "consumer"] in rows(tools.run("groups", "--list"))


def test_a_streams_application_is_reset(tools, served, topic):
    name = served.name("application")
    produce(tools, topic, ["a", "b"])
    assert consume(tools, topic, 2, "--group", name) == ["a", "b"]
    said = tools.run("streams-application-reset", "--application-id", name, "--input-topics", topic, "--force")
    assert f"Topic: {topic} Partition: 0 Offset: 0" in said
    assert consume(tools, topic, 2, "--group", name) == ["a", "b"]


def test_settings_of_topics_brokers_and_clients_are_changed_and_shown(tools, served, topic):
    of_topic = ["--entity-type", "topics", "--entity-name", topic]
    tools.run("configs", *of_topic, "--alter", "--add-config", "segment.bytes=1048576,cleanup.policy=[compact,delete]")
    shown = tools.run("configs", *of_topic, "--describe")
    assert "segment.bytes=1048576 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576," in shown
    assert "cleanup.policy=compact,delete " in shown
    tools.run("configs", *of_topic, "--alter", "--delete-config", "segment.bytes")
    assert "segment.bytes" not in tools.run("configs", *of_topic, "--describe")
    for node in map(str, served.node_ids):
        of_broker = ["--entity-type", "brokers", "--entity-name", node]
        assert "  num.partitions=2 " in tools.run("configs", *of_broker, "--describe", "--all")
        tools.run("configs", *of_broker, "--alter", "--add-config", "log.cleaner.backoff.ms=16000")
        assert "log.cleaner.backoff.ms=16000" in tools.run("configs", *of_broker, "--describe")
        of_loggers = ["--entity-type", "broker-loggers", "--entity-name", node]
        assert f"  milepost.broker={served.log_level} " in tools.run("configs", *of_loggers, "--describe")
    of_client = ["--entity-type", "clients", "--entity-name", served.name("client")]
    tools.run("configs", *of_client, "--alter", "--add-config", "producer_byte_rate=1048576")
    assert "producer_byte_rate=1048576.0" in tools.run("configs", *of_client, "--describe")
    assert tools.run("configs", "--entity-type", "client-metrics", "--describe") == ""
    if tools.version == "4.3.0":
        of_group = ["--entity-type", "groups", "--entity-name", served.name("group")]
        change = ["configs", *of_group, "--alter", "--add-config", "consumer.session.timeout.ms=50000"]
        if served.keeps_group_settings:
            tools.run(*change)
            assert "consumer.session.timeout.ms=50000" in tools.run("configs", *of_group, "--describe")
        else:
            with pytest.raises(AssertionError, match="a cluster with ZooKeeper keeps no settings of groups"):
                tools.run(*change)


def test_offsets_are_shown_and_records_deleted(tools, served, topic, tmp_path):
    produce(tools, topic, ["a", "b", "c"])
    asked = tmp_path / "delete.json"
    asked.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}))
    assert f"partition: {topic}-0\tlow_watermark: 2" in tools.run("delete-records", "--offset-json-file", str(asked))
    offsets = {"latest": 3, "earliest": 2, "earliest-local": 2, "-1": 3, "-2": 2, "1600000000000": 2}
    shown = {when: tools.run("get-offsets", "--topic", topic, "--time", when) for when in offsets}
    assert shown == {when: f"{topic}:0:{offset}\n" for when, offset in offsets.items()}
    assert tools.run("get-offsets", "--topic", topic, "--time", "max-timestamp").startswith(f"{topic}:0:")


def test_the_broker_describes_itself(tools, served, topic):
    described = json.loads(tools.run("log-dirs", "--describe", "--topic-list", topic).splitlines()[-1])["brokers"]
    assert {broker["broker"] for broker in described} == served.node_ids
    directories = [directory for broker in described for directory in broker["logDirs"]]
    assert sorted(directory["logDir"] for directory in directories) == sorted(served.directories)
    for directory in directories:
        assert directory["error"] is None
        assert [found["partition"] for found in directory["partitions"]] == [f"{topic}-0"]
    versions = tools.run("broker-api-versions")
    fetch = {"3.9.1": "Fetch(1): 4 to 18 [usable: 17]", "4.3.0": "Fetch(1): 4 to 18 [usable: 18]"}[tools.version]
    assert versions.count(fetch) == len(served.node_ids)
    assert tools.ask("cluster", "cluster-id", "--bootstrap-server", served.bootstrap).startswith("Cluster ID: ")
    assert "Feature: transaction.version" in tools.run("features", "describe")
    assert tools.run("reassign-partitions", "--list") == "No partition reassignments found.\n"
    assert tools.run("leader-election", "--election-type", "preferred", "--all-topic-partitions") == ""


def test_transactions_are_committed_and_listed(tools, served, topic):
    name = served.name("transaction")
    load = ["--num-records", "500", "--record-size", "100", "--throughput", "-1", "--transaction-duration-ms", "50"]
    settings = ["--transactional-id", name, "--command-property", f"bootstrap.servers={served.bootstrap}"]
    assert "500 records sent" in tools.ask("producer-perf-test", "--topic", topic, *load, *settings)
    assert len(consume(tools, topic, 500, "--isolation-level", "read_committed")) == 500
    # A commit is answered when it is sure to happen; that it has is written a moment later.
    until(lambda: state_of(tools, name) == "CompleteCommit", "the transaction is complete", TOOL_SECONDS)
    (described,) = rows(tools.run("transactions", "describe", "--transactional-id", name))
    assert int(described[0]) in served.node_ids
    assert (described[1], described[4], described[5]) == (name, "CompleteCommit", "60000")
    producers = rows(tools.run("transactions", "describe-producers", "--topic", topic, "--partition", "0"))
    assert [row[-1] for row in producers] == ["None"]
    for node in map(str, served.node_ids):
        assert rows(tools.run("transactions", "find-hanging", "--broker-id", node)) == []


def state_of(tools: JavaTools, transactional_id: str) -> str:
    return {row[0]: row[3] for row in rows(tools.run("transactions", "list"))}[transactional_id]


def test_an_open_transaction_is_aborted_from_outside(tools, served, topic):
    settings = {"transactional.id": served.name("transaction"), "transaction.timeout.ms": 900_000}
    producer = Producer({"bootstrap.servers": served.bootstrap, **settings})
    producer.init_transactions(TOOL_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, "lost", partition=0)
    assert producer.flush(TOOL_SECONDS) == 0
    of_partition = ["--topic", topic, "--partition", "0"]
    (hanging,) = rows(tools.run("transactions", "describe-producers", *of_partition))
    assert hanging[-1] == "0"
    tools.run("transactions", "abort", *of_partition, "--start-offset", "0")
    (ended,) = rows(tools.run("transactions", "describe-producers", *of_partition))
    assert ended[-1] == "None"
    produce(tools, topic, ["kept"])
    assert consume(tools, topic, 1, "--isolation-level", "read_committed") == ["kept"]


def test_the_performance_tools_move_every_record(tools, served, topic):
    load = ["--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    settings = ["--command-property", f"bootstrap.servers={served.bootstrap}"]
    assert "5000 records sent" in tools.ask("producer-perf-test", "--topic", topic, *load, *settings)
    (row,) = rows(tools.run("consumer-perf-test", "--topic", topic, "--num-records", "5000", "--timeout", LONG_MS))
    assert int(row[6].rstrip(",")) == 5000


def test_verifiable_producer_and_two_verifiable_consumers_agree(tools, served):
    topic, group = served.name(), served.name("group")
    with tools.alone("verifiable-producer", "--topic", topic, "--max-messages", "200", "--acks", "-1") as producer:
        events = [json.loads(line) for line in producer.communicate(timeout=TOOL_SECONDS)[0].splitlines()]
    assert [event["name"] for event in events].count("producer_send_success") == 200
    assert events[-1]["acked"] == 200
    wanted = ["--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--session-timeout", "60000"]
    with ExitStack() as stack:
        members = [stack.enter_context(tools.alone("verifiable-consumer", *wanted)) for _ in range(2)]
        for member in members:
            assert member.stdout is not None
            partitions = 0
            # Both at work: two partitions, so each ends up with one.
            while partitions != 1:
                event = json.loads(member.stdout.readline())
                partitions = len(event["partitions"]) if event["name"] == "partitions_assigned" else partitions
        until(lambda: committed_by(tools, group) == 200, "all 200 records are committed", TOOL_SECONDS)
        for member in members:
            member.terminate()
        rest = [member.communicate(timeout=TOOL_SECONDS)[0] for member in members]
    assert all('"name":"shutdown_complete"' in text for text in rest)


def committed_by(tools: JavaTools, group: str) -> int:
    shown = rows(tools.run("consumer-groups", "--describe", "--group", group))
    return sum(int(row[3]) for row in shown if row[3].isdigit())

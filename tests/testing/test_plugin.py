"""The fixtures in somebody else's project: runs of pytest inside of pytest, with the clients that such a project would test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

TIMEOUT = 300


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project whose warnings are errors."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=TIMEOUT)


def test_plugin_is_found_by_its_entry_point_and_its_fixtures_are_listed(project):
    result = run(project, "--fixtures")
    result.stdout.fnmatch_lines(["*kafka_broker_config*session scope*", "*kafka_broker *session scope*", "*kafka_topic *"])
    run(project, "--markers").stdout.fnmatch_lines(["@pytest.mark.kafka_topic(*"])


def test_run_that_does_not_use_it_loads_nothing_of_milepost(project):
    project.makepyfile(
        """
        import sys

        def test_loaded():
            assert sorted(name for name in sys.modules if name.startswith("milepost")) == [
                "milepost", "milepost._version", "milepost.testing", "milepost.testing.plugin"
            ]
            assert not {"click", "cramjam", "crc32c"} & set(sys.modules)
        """
    )
    run(project).assert_outcomes(passed=1)


def test_confluent_kafka_produces_and_consumes(project):
    project.makepyfile(
        """
        from confluent_kafka import Consumer, Producer

        def test_visits(kafka_broker, kafka_topic):
            producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
            for number in range(10):
                producer.produce(kafka_topic, b"visit %d" % number)
            assert producer.flush(60) == 0
            consumer = Consumer(
                {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
            )
            consumer.subscribe([kafka_topic])
            messages = consumer.consume(10, timeout=60)
            assert [message.value() for message in messages] == [b"visit %d" % number for number in range(10)]
            consumer.close()
        """
    )
    run(project).assert_outcomes(passed=1)


def test_kafka_python_produces_and_consumes(project):
    project.makepyfile(
        """
        from kafka import KafkaConsumer, KafkaProducer

        def test_visits(kafka_broker, kafka_topic):
            producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
            for number in range(10):
                producer.send(kafka_topic, b"visit %d" % number)
            producer.flush()
            producer.close()
            consumer = KafkaConsumer(
                kafka_topic,
                bootstrap_servers=kafka_broker.bootstrap_servers,
                group_id="g",
                auto_offset_reset="earliest",
                consumer_timeout_ms=60_000,
            )
            values = [message.value for _, message in zip(range(10), consumer)]
            assert values == [b"visit %d" % number for number in range(10)]
            consumer.close()
        """
    )
    run(project, "-W", "ignore::DeprecationWarning").assert_outcomes(passed=1)


def test_broker_is_one_for_the_session_and_each_test_has_its_own_topic_that_goes_with_it(project):
    project.makepyfile(
        """
        import pytest
        from milepost.client.admin import list_topics
        from milepost.client.cluster import Cluster

        seen = []

        def topics(broker):
            with Cluster(broker.bootstrap_servers) as cluster:
                return {topic.name: len(topic.partitions) for topic in list_topics(cluster)}

        @pytest.mark.parametrize("page", ["/docs", "/a b?c=%20", "x" * 300])
        def test_fresh(kafka_broker, kafka_topic, page):
            assert topics(kafka_broker) == {kafka_topic: 1}
            seen.append((kafka_broker, kafka_topic))

        @pytest.mark.kafka_topic(partitions=5, config={"cleanup.policy": "compact", "retention.ms": 1000})
        def test_as_marked(kafka_broker, kafka_topic):
            assert topics(kafka_broker) == {kafka_topic: 5}

        def test_that_deletes_its_topic(kafka_broker, kafka_topic):
            kafka_broker.delete_topic(kafka_topic)

        def test_last(kafka_broker):
            assert topics(kafka_broker) == {}
            assert len({id(broker) for broker, _ in seen}) == 1
            assert len({topic for _, topic in seen}) == 3
            assert seen[0][1].startswith("test_fresh--docs--")
        """
    )
    run(project).assert_outcomes(passed=6)


def test_properties_come_from_the_ini_file(project):
    project.makeini("[pytest]\nkafka_broker_config =\n    num.partitions = 3\n    log.segment.bytes=1048576\n")
    project.makepyfile(
        """
        from milepost.client.cluster import Cluster
        from milepost.client.configs import Resource, ResourceType, describe_configs

        def test_partitions(kafka_broker, kafka_topic):
            with Cluster(kafka_broker.bootstrap_servers) as cluster:
                assert len(cluster.topic(kafka_topic).partitions) == 3
                (entry,) = describe_configs(cluster, Resource(ResourceType.TOPIC, kafka_topic), ["segment.bytes"])
                assert entry.value == "1048576"
        """
    )
    run(project).assert_outcomes(passed=1)


def test_project_may_give_the_properties_itself(project):
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_broker_config(tmp_path_factory):
            return {"log.dirs": str(tmp_path_factory.mktemp("kept")), "auto.create.topics.enable": False}
        """
    )
    project.makepyfile(
        """
        def test_directory(kafka_broker, kafka_topic, kafka_broker_config):
            assert kafka_broker.data == kafka_broker_config["log.dirs"]
        """
    )
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("ini", "mark", "sentence"),
    [
        ("num.partitions", "", "*UsageError: kafka_broker_config: 'num.partitions' is no key=value, such as num.partitions=3"),
        ("num.partition=3", "", "*UsageError: kafka_broker: 'num.partition' is no broker property: did you mean num.partitions?"),
        ("", "(3)", "*UsageError: kafka_topic takes partitions=N and config={…} by name; it was given (3,)"),
        ("", "(partition=3)", "*UsageError: kafka_topic takes partitions=N and config={…} by name; it was given {'partition'}"),
        (
            "",
            "(config={'cleanup.policy': 'never'})",
            "*UsageError: kafka_topic: topic test_it-*: the broker answers INVALID_CONFIG (40)*",
        ),
    ],
)
def test_mistake_is_a_sentence(project, ini, mark, sentence):
    project.makeini(f"[pytest]\nkafka_broker_config = {ini}\n")
    project.makepyfile(f"import pytest\n@pytest.mark.kafka_topic{mark}\ndef test_it(kafka_topic): pass\n")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])


def test_every_worker_of_xdist_has_its_own(project):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_port(kafka_broker, kafka_topic, number, worker_id, tmp_path_factory):
            directory = tmp_path_factory.getbasetemp().parent
            (directory / f"{worker_id}.port").write_text(str(kafka_broker.port))
            ports = [file.read_text() for file in directory.glob("*.port")]
            assert len(set(ports)) == len(ports)
        """
    )
    run(project, "-n", "2").assert_outcomes(passed=4)


def test_plugin_costs_no_time_worth_speaking_of():
    """What it imports beyond pytest and the empty milepost: nothing."""
    code = (
        "import pytest, sys; before = set(sys.modules); import milepost.testing.plugin; print(*sorted(set(sys.modules) - before))"
    )
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=os.environ, timeout=TIMEOUT, check=True
    )
    assert process.stdout.split() == ["milepost", "milepost._version", "milepost.testing", "milepost.testing.plugin"]

"""The fixture `kafka_cluster`: brokers as processes, killed and restarted under clients; and in projects where something is missing."""

from __future__ import annotations

import os
import time

import pytest

from milepost.cluster.overview import NO_LEADER
from tests.cluster.asking import until
from tests.cluster.writing import Writer, ensure_nothing_lost, read_all

pytest_plugins = ["pytester"]

TIMEOUT = 300
TOPIC, PARTITIONS = "visits", 6
PATIENT = {"zookeeper.session.timeout.ms": 18_000, "replica.lag.time.max.ms": 30_000}
"""Kafka's own: where nobody has to be missed, nobody is because of a busy machine."""


def test_broker_that_is_killed_is_missed_and_welcomed_back(kafka_cluster):
    cluster = kafka_cluster(2, config={"auto.leader.rebalance.enable": False})
    cluster.create_topic("orders", partitions=2)
    assert cluster.brokers == [1, 2] and cluster.bootstrap_servers == f"{cluster.address(1)},{cluster.address(2)}"
    until(lambda: sorted(part.leader for part in cluster.overview().partitions) == [1, 2], "each leads one")
    victim = cluster.controller
    cluster.kill(victim)
    other = 3 - victim
    assert cluster.brokers == [other]
    until(lambda: [part.leader for part in cluster.overview().partitions] == [other] * 2, "the other leads")
    until(lambda: cluster.controller == other, "the other is controller")
    cluster.restart(victim)
    assert cluster.brokers == [1, 2]
    until(lambda: not cluster.overview().under_replicated, "all are in sync")
    cluster.restart(other)
    until(lambda: NO_LEADER not in [part.leader for part in cluster.overview().partitions], "all have a leader")


def test_broker_that_sleeps_is_replaced_and_wakes_up(kafka_cluster):
    cluster = kafka_cluster(2)
    cluster.create_topic("orders")
    (partition,) = cluster.overview().partitions
    cluster.pause(partition.leader)
    until(lambda: cluster.overview().partitions[0].leader == 3 - partition.leader, "the other leads")
    cluster.resume(partition.leader)
    until(lambda: not cluster.overview().under_replicated, "all are in sync")


def test_two_clusters_know_nothing_of_each_other(kafka_cluster):
    one, two = kafka_cluster(1), kafka_cluster(1)
    one.create_topic("only-here")
    assert [part.topic for part in one.overview().partitions] == ["only-here"]
    assert two.overview().partitions == ()
    assert one.overview().cluster_id != two.overview().cluster_id


def test_rolling_restart_loses_nothing_and_doubles_nothing(kafka_cluster):
    """Every broker in turn, twice, under an idempotent producer that waits for all in-sync replicas."""
    cluster = kafka_cluster(3, config=PATIENT)
    cluster.create_topic(TOPIC, partitions=PARTITIONS, config={"min.insync.replicas": 2})
    with Writer(cluster.bootstrap_servers, TOPIC, PARTITIONS) as writer:
        writer.wait_for(500)
        for number in (1, 2, 3, 1, 2, 3):
            cluster.restart(number)
            writer.wait_for(200)
        time.sleep(0.5)
    assert not writer.failed
    found = read_all(cluster.bootstrap_servers, TOPIC, PARTITIONS, writer.acked)
    ensure_nothing_lost(writer, found)
    assert len(found) == writer.sent
    until(lambda: not cluster.overview().under_replicated, "all are in sync")


# In somebody else's project.


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile("def test_it(kafka_cluster):\n    assert kafka_cluster(1).brokers == [1]\n")
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-rs", timeout=TIMEOUT)


def test_cluster_is_gone_after_the_test(project, kafka_zookeeper):
    project.makepyfile(
        """
        pids = []

        def test_one(kafka_cluster):
            record = kafka_cluster(1)._cluster.record
            pids.append(record.brokers[1].process)

        def test_two():
            assert not pids[0].is_running
        """
    )
    run(project).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("java", "*kafka_cluster: the bundled ZooKeeper needs Java*"),
        ("kazoo", "*kafka_cluster needs kazoo*pip install 'milepost?zookeeper?'*"),
        ("pyspark", "*kafka_cluster: the bundled ZooKeeper comes with PySpark's jars*"),
    ],
)
@pytest.mark.parametrize("is_ci", [False, True])
def test_machine_without_what_it_needs_skips_with_the_reason_and_fails_in_continuous_integration(
    project, monkeypatch, tmp_path, missing, reason, is_ci
):
    if missing == "java":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        project.makeconftest(
            f"""
            import importlib.util, sys

            sys.modules[{missing!r}] = None
            known = importlib.util.find_spec

            def find_spec(name, package=None):
                return None if name == {missing!r} else known(name, package)

            importlib.util.find_spec = find_spec
            """
        )
    monkeypatch.setitem(os.environ, "CI", "true" if is_ci else "")
    result = run(project)
    result.assert_outcomes(errors=1) if is_ci else result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([reason])

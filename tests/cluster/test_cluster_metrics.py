"""What three brokers say of themselves while one of them dies and comes back: sums over all of them are what an alert looks at."""

from __future__ import annotations

import urllib.request

import pytest

from tests.cluster.asking import leaders, metadata, until
from tests.cluster.processes import ClusterProcesses, free_port
from tests.cluster.writing import Writer, create_topic
from tests.waiting import PROCESS_PATIENCE

TOPIC, PARTITIONS = "visits", 3


@pytest.fixture
def cluster(tmp_path, zookeeper):
    cluster = ClusterProcesses(tmp_path, zookeeper)
    for broker in cluster.brokers.values():
        broker.settings["milepost.metrics.port"] = str(free_port())
    with cluster:
        create_topic(cluster, TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        yield cluster


def told(broker, name):
    """A metric without labels, or the first with some."""
    url = f"http://127.0.0.1:{broker.settings['milepost.metrics.port']}/metrics"
    with urllib.request.urlopen(url, timeout=PROCESS_PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.split("{")[0].split()[0] == name)


def total(cluster, name):
    return sum(told(broker, name) for broker in cluster.brokers.values() if broker.is_running)


def test_sums_over_all_brokers_tell_what_happens(cluster):
    manager, controller = "kafka_server_replicamanager", "kafka_controller_kafkacontroller"
    with Writer(cluster.bootstrap, TOPIC, PARTITIONS) as writer:
        writer.wait_for(300)
        assert total(cluster, f"{controller}_globaltopiccount") == 1
        assert total(cluster, f"{controller}_globalpartitioncount") == PARTITIONS
        assert total(cluster, f"{manager}_leadercount") == PARTITIONS
        assert total(cluster, f"{manager}_underreplicatedpartitions") == 0
        assert total(cluster, f"{controller}_preferredreplicaimbalancecount") == 0
        victim = next(
            each for each in leaders(cluster.bootstrap, TOPIC).values() if each != metadata(cluster.bootstrap).controller_id
        )
        cluster.bury(victim)
        until(lambda: victim not in leaders(cluster.bootstrap, TOPIC).values(), "others lead")
        until(lambda: total(cluster, f"{manager}_underreplicatedpartitions") == PARTITIONS, "all are under-replicated")
        assert total(cluster, f"{manager}_atminisrpartitioncount") == PARTITIONS
        assert total(cluster, f"{controller}_preferredreplicaimbalancecount") == 1
        assert total(cluster, f"{controller}_offlinepartitionscount") == 0
        assert total(cluster, "kafka_controller_controllerstats_leaderelectionrateandtimems_count") > 0
        cluster.brokers[victim].start()
        cluster.wait_until_in_sync(TOPIC)
        until(lambda: total(cluster, f"{manager}_isrexpands_total") >= PARTITIONS, "each came back in sync")
        assert total(cluster, f"{manager}_underreplicatedpartitions") == 0
    until(lambda: total(cluster, "kafka_server_replicafetchermanager_maxlag") == 0, "nobody is behind")
    for direction in ("in", "out"):
        assert told(cluster.brokers[victim], "kafka_server_brokertopicmetrics_replicationbytesin_total") > 0
        assert total(cluster, f"kafka_server_brokertopicmetrics_replicationbytes{direction}_total") > 0
    assert not writer.failed

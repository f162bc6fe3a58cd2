"""Settings of brokers that are changed in ZooKeeper, in a simulated cluster."""

from __future__ import annotations

import pytest

from milepost.cluster.zookeeper import entity_configs
from tests.simulation.cluster import Cluster

VERIFICATION = "transaction.partition.verification.enable"


@pytest.mark.parametrize("entity", ["brokers/1", "brokers/<default>"])
def test_verification_of_transactions_that_is_turned_off_is_not_done_for_the_next_batch(entity):
    cluster = Cluster(0)
    started = cluster.brokers[1]
    started.start()
    cluster.world.run(cluster.world.now + 3)
    broker = started.broker
    assert broker.logs.verifies_transactions
    broker.member.run(entity_configs.write(entity, {VERIFICATION: "false"}), lambda stored: None, lambda: None)
    cluster.world.run(cluster.world.now + 3)
    assert broker.config.transaction_partition_verification_enable is False
    assert broker.logs.verifies_transactions is False


def test_life_of_a_broker_in_a_cluster_adds_no_part_to_it():
    cluster = Cluster(0)
    for each in cluster.brokers.values():
        each.start()
    parts = {number: set(vars(each.broker)) for number, each in cluster.brokers.items()}
    cluster.world.run(cluster.world.now + 3)
    cluster.make_topic("visits", 3)
    cluster.world.run(cluster.world.now + 3)
    assert {number: set(vars(each.broker)) for number, each in cluster.brokers.items()} == parts

"""What a client is told of settings that it changes in a cluster with ZooKeeper."""

from __future__ import annotations

from types import SimpleNamespace

from milepost.broker.configs.config_resources import BrokerSettings
from milepost.broker.topology.zookeeper_configs import ZooKeeperChanges
from milepost.work import at_once


class Unconfirmed:
    """The session ended before ZooKeeper answered."""

    def store(self, entity, configs, done):
        done(False)


def test_change_that_zookeeper_did_not_confirm_may_be_stored():
    cluster = SimpleNamespace(broker_configs={}, stored_broker_configs=lambda name: {})
    all_brokers = BrokerSettings(SimpleNamespace(node_id=1, cluster=cluster), "")
    failures = []
    changes = ZooKeeperChanges(Unconfirmed())
    changes.add(all_brokers, {"log.retention.ms": "5"}, failures.append)
    at_once(changes.making())
    assert [str(each) for each in failures] == [
        "ZooKeeper did not confirm the change, which may be stored all the same; send it again"
    ]

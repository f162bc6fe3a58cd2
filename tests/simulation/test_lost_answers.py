"""A broker of a simulated cluster whose connection to ZooKeeper breaks at a note for the others, before or after it took effect."""

from __future__ import annotations

import pytest

from milepost.cluster.zookeeper import entity_configs
from milepost.cluster.zookeeper.operations import Create
from tests.simulation.cluster import Cluster

DIRECTORY_NOTE = "/log_dir_event_notification/log_dir_event_"
VERIFICATION = "transaction.partition.verification.enable"
MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])


def started():
    cluster = Cluster(0)
    for each in cluster.brokers.values():
        each.start()
    run(cluster)
    return cluster


def run(cluster):
    cluster.world.run(cluster.world.now + 3)


def break_once(cluster, session, path, moment):
    """The connection, at the first Create or SetData of this path."""
    model, is_broken = cluster.zookeeper.model, []
    on_write = model.on_write

    def seen(operation):
        if not is_broken and getattr(operation, "path", None) == path:
            is_broken.append(True)
            session.drop_connection()

    def written(operation):
        on_write(operation)
        seen(operation)

    if moment == "before":
        session.on_sent = lambda operations: [seen(each) for each in operations]
    else:
        model.on_write = written
    return is_broken


@MOMENTS
@pytest.mark.parametrize("path", ["/config/brokers/<default>", "/config/changes/config_change_"])
def test_every_broker_hears_of_changed_settings(path, moment):
    cluster = started()
    session, answers = cluster.brokers[1].session, []
    is_broken = break_once(cluster, session, path, moment)
    write = entity_configs.write("brokers/<default>", {VERIFICATION: "false"})
    cluster.brokers[1].broker.member.run(write, answers.append)
    run(cluster)
    assert is_broken
    assert answers == [True]
    assert {each.broker.logs.verifies_transactions for each in cluster.brokers.values()} == {False}


@MOMENTS
def test_controller_hears_of_a_failed_directory(moment):
    cluster = started()
    broker = cluster.brokers[2]
    is_broken = break_once(cluster, broker.session, DIRECTORY_NOTE, moment)
    broker.broker.logs.on_offline("/gone")
    run(cluster)
    assert is_broken
    notes = [write for _, write in cluster.zookeeper.model.writes if isinstance(write, Create) and write.path == DIRECTORY_NOTE]
    assert notes[0].data == b'{"version":1,"broker":2,"event":1}'

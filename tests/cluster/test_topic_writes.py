"""Topics written into ZooKeeper, over connections that are lost before or after a write took effect."""

from __future__ import annotations

import pytest

from milepost.cluster import topic_writes
from milepost.cluster.protocol_versions import LATEST
from milepost.cluster.registration import make_nodes
from milepost.cluster.zookeeper.operations import Create, Delete, Exists, Get
from milepost.cluster.zookeeper.session import Runner
from tests.cluster.zookeeper.lossy_session import ANSWERED, UNANSWERED, UNSENT, LossySession
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelZooKeeper

TOPIC = "/brokers/topics/visits"
ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
FATES = pytest.mark.parametrize("fate", [UNANSWERED, UNSENT])


class Town:
    def __init__(self):
        self.turns, self.server, self.errors = Turns(), ModelZooKeeper(), []
        self.session = LossySession(self.server, self.turns)
        self.runner = Runner(self.session, self.errors.append)
        self.run(make_nodes(LATEST))

    def run(self, steps):
        results = []
        self.runner.run(steps, results.append)
        self.turns.settle()
        assert not self.errors
        return results[0]

    def create(self, topic_id=ID):
        return self.run(topic_writes.create_topic("visits", {0: (1, 2)}, {"retention.ms": "1000"}, topic_id, LATEST))

    def carry_out(self, operation):
        return self.server.carry_out(self.session, operation)

    def data(self, path):
        return self.server.nodes[path].data


@pytest.fixture
def town():
    return Town()


@FATES
@pytest.mark.parametrize("before", [[], [ANSWERED]], ids=["its settings", "its replicas"])
def test_topic_is_created_with_its_settings_though_the_connection_is_lost(town, before, fate):
    town.session.fates = [*before, fate]
    assert town.create() == 0
    assert town.data("/config/topics/visits") == b'{"version":1,"config":{"retention.ms":"1000"}}'
    assert ID.encode() in town.data(TOPIC)


def test_topic_that_another_request_made_while_the_connection_was_lost_exists_already(town):
    other = Town()
    other.create(OTHER_ID)
    town.session.fates = [ANSWERED, UNSENT]
    submit = town.session.submit

    def raced(operations, done):
        if isinstance(operations[0], Create) and operations[0].path == TOPIC and TOPIC not in town.server.nodes:
            submit(operations, done)
            town.carry_out(Create(TOPIC, other.data(TOPIC)))
        else:
            submit(operations, done)

    town.session.submit = raced
    assert town.create() == 36
    assert OTHER_ID.encode() in town.data(TOPIC)


def test_topic_whose_settings_cannot_be_written_is_not_created(town):
    town.session.fates = [UNSENT] * 10
    assert town.create() == -1
    assert TOPIC not in town.server.nodes


@FATES
def test_topic_is_marked_for_deletion_though_the_connection_is_lost(town, fate):
    town.create()
    town.session.fates = [fate]
    assert town.run(topic_writes.delete_topic("visits")) == 0
    assert "/admin/delete_topics/visits" in town.server.nodes


def test_topic_that_was_created_anew_after_its_deletion_is_not_deleted_again(town):
    town.create()
    town.session.fates = [UNANSWERED]
    town.server.on_write = lambda operation: anew() if operation == Create("/admin/delete_topics/visits") else None

    def anew():
        town.server.on_write = lambda operation: None
        for path in (TOPIC, "/admin/delete_topics/visits"):
            town.carry_out(Delete(path))
        town.carry_out(Create(TOPIC, b"anew"))

    assert town.run(topic_writes.delete_topic("visits")) == 0
    assert not town.carry_out(Exists("/admin/delete_topics/visits")).ok
    assert town.carry_out(Get(TOPIC)).data == b"anew"


def to_two_partitions(partitions):
    return dict.fromkeys(range(len(partitions), 2), (2, 1))


@FATES
def test_topic_grows_once_though_the_connection_is_lost(town, fate):
    town.create()
    town.session.fates = [fate]
    assert town.run(topic_writes.grow_topic("visits", to_two_partitions, LATEST)) == 0
    assert b'"partitions":{"0":[1,2],"1":[2,1]}' in town.data(TOPIC)

"""Settings in ZooKeeper: written with a note for everybody, read with the notes that are new."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.cluster.protocol_versions import LATEST
from milepost.cluster.registration import make_nodes
from milepost.cluster.zookeeper import entity_configs
from milepost.cluster.zookeeper.operations import SetData
from milepost.cluster.zookeeper.session import Runner
from milepost.cluster.zookeeper.unreadable import Unreadable
from tests.cluster.zookeeper.lossy_session import ANSWERED, UNANSWERED, UNSENT, LossySession
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelZooKeeper


class Owner:
    def on_connected(self):
        pass

    def on_expired(self):
        pass

    def on_watch(self, event):
        pass


class Town:
    def __init__(self):
        self.turns = Turns()
        self.clock = ManualClock(1_700_000_000_000)
        self.server = ModelZooKeeper(self.clock.now_ms)
        self.session = LossySession(self.server, self.turns)
        self.session.start(Owner())
        self.errors = []
        self.runner = Runner(self.session, self.errors.append)
        self.run(make_nodes(LATEST))

    def run(self, steps):
        results = []
        self.runner.run(steps, results.append)
        self.turns.settle()
        assert not self.errors
        return results[0]

    def data(self, path):
        return self.server.nodes[path].data


def test_written_setting_is_kafkas_node_and_leaves_kafkas_note():
    town = Town()
    assert town.run(entity_configs.write("topics/visits", {"retention.ms": "1000"}))
    assert town.data("/config/topics/visits") == b'{"version":1,"config":{"retention.ms":"1000"}}'
    assert town.data("/config/changes/config_change_0000000000") == b'{"version":2,"entity_path":"topics/visits"}'


@pytest.mark.parametrize("fate", [UNANSWERED, UNSENT])
@pytest.mark.parametrize("before", [[], [ANSWERED]], ids=["the settings", "the note"])
def test_settings_are_stored_and_noted_though_the_connection_is_lost(before, fate):
    town = Town()
    town.run(entity_configs.write("topics/visits", {"retention.ms": "1"}))
    town.session.fates = [*before, fate]
    assert town.run(entity_configs.write("topics/visits", {"retention.ms": "1000"}))
    assert town.data("/config/topics/visits") == b'{"version":1,"config":{"retention.ms":"1000"}}'
    assert town.run(entity_configs.watch_changes(0, town.clock.now_ms())).entities == ["topics/visits"]


@pytest.mark.parametrize("fate", [UNANSWERED, UNSENT])
@pytest.mark.parametrize("lost_at", [0, 1, 2])
def test_first_quota_of_a_user_and_client_is_stored_though_the_connection_is_lost(lost_at, fate):
    town = Town()
    town.session.fates = [ANSWERED] * lost_at + [fate]
    assert town.run(entity_configs.write("users/ann/clients/etl", {"producer_byte_rate": "1000"}))
    assert town.data("/config/users/ann/clients/etl") == b'{"version":1,"config":{"producer_byte_rate":"1000"}}'
    assert town.run(entity_configs.watch_changes(-1, town.clock.now_ms())).entities == ["users/ann/clients/etl"]


def test_settings_that_end_every_connection_are_given_up():
    town = Town()
    town.run(entity_configs.write("topics/visits", {}))
    town.session.fates = [UNSENT] * 100
    assert not town.run(entity_configs.write("topics/visits", {"retention.ms": "1000"}))
    assert len(town.session.fates) == 90
    town.session.fates = []
    assert town.run(entity_configs.watch_changes(0, town.clock.now_ms())).entities == []


def test_settings_that_cannot_be_noted_are_not_called_stored():
    town = Town()
    town.run(entity_configs.write("topics/visits", {}))
    town.session.fates = [ANSWERED] + [UNSENT] * 100
    assert not town.run(entity_configs.write("topics/visits", {"retention.ms": "1000"}))


def test_changes_are_told_once_and_each_entity_once():
    town = Town()
    for _ in range(2):
        town.run(entity_configs.write("topics/visits", {}))
    town.run(entity_configs.write("brokers/<default>", {"log.cleaner.threads": "2"}))
    changes = town.run(entity_configs.watch_changes(-1, town.clock.now_ms()))
    assert changes == (["topics/visits", "brokers/<default>"], 2)
    assert town.run(entity_configs.watch_changes(2, town.clock.now_ms())) == ([], 2)


def test_everything_is_read_at_the_start():
    town = Town()
    town.run(entity_configs.write("topics/visits", {"retention.ms": "1000"}))
    town.run(entity_configs.write("brokers/<default>", {"log.retention.ms": "5"}))
    town.run(entity_configs.write("brokers/2", {"log.retention.ms": "6"}))
    town.run(
        entity_configs.write(entity_configs.quota_path({"user": "ann/e", "client-id": None}), {"producer_byte_rate": "1000"})
    )
    stored = town.run(entity_configs.read_all())
    assert stored.topics == {"visits": {"retention.ms": "1000"}}
    assert stored.brokers == {"": {"log.retention.ms": "5"}, "2": {"log.retention.ms": "6"}}
    assert stored.clients.quotas == [{"entity": {"client-id": None, "user": "ann/e"}, "values": {"producer_byte_rate": 1000.0}}]


def test_quotas_of_a_user_and_client_lie_below_the_user():
    assert entity_configs.quota_path({"client-id": "etl", "user": None}) == "users/<default>/clients/etl"
    assert entity_configs.quota_entity("users/ann%2Fe/clients/<default>") == {"client-id": None, "user": "ann/e"}
    assert entity_configs.quota_path({"ip": "127.0.0.1"}) == "ips/127.0.0.1"


def test_old_changes_are_removed_by_whoever_looks_at_new_ones():
    town = Town()
    town.run(entity_configs.write("topics/old", {}))
    town.clock.advance(60_000)
    town.run(entity_configs.write("topics/younger", {}))
    town.clock.advance(14 * 60_000)
    assert town.run(entity_configs.watch_changes(1, town.clock.now_ms())) == ([], 1)
    assert len(town.server.children["/config/changes"]) == 2, "a quarter of an hour is not more than one"
    town.clock.advance(1)
    town.run(entity_configs.write("topics/new", {}))
    assert town.run(entity_configs.watch_changes(1, town.clock.now_ms())) == (["topics/new"], 2)
    assert town.server.children["/config/changes"] == {"config_change_0000000001", "config_change_0000000002"}


def test_old_change_that_was_not_seen_yet_is_heard_before_it_goes():
    town = Town()
    town.run(entity_configs.write("topics/old", {}))
    town.clock.advance(16 * 60_000)
    assert town.run(entity_configs.watch_changes(-1, town.clock.now_ms())) == (["topics/old"], 0)
    assert town.server.children["/config/changes"] == set()
    town.run(entity_configs.write("topics/new", {}))
    assert town.run(entity_configs.watch_changes(0, town.clock.now_ms())) == (["topics/new"], 1), "numbers go on"


def test_settings_that_make_no_sense_are_left_out_so_that_the_last_good_ones_stay():
    town = Town()
    town.run(entity_configs.write("topics/good", {"retention.ms": "1000"}))
    town.run(entity_configs.write("topics/bad", {"retention.ms": "1000"}))
    town.server.carry_out(town.session, SetData("/config/topics/bad", b"[1, 2]"))
    before = Unreadable.count
    found = town.run(entity_configs.read(["topics/good", "topics/bad", "topics/none"]))
    assert found == {"topics/good": {"retention.ms": "1000"}, "topics/none": {}}
    assert Unreadable.count == before + 1

"""Settings of brokers that are changed in ZooKeeper, in a simulated cluster."""

from __future__ import annotations

import logging

import pytest

from milepost.broker.configs.config_entries import BrokerPlaces, ConfigSource
from milepost.broker.configs.config_resources import BrokerSettings, TopicSettings
from milepost.broker.requests.incremental_alter_configs import APPEND, DELETE, Resource, changed
from milepost.broker.topology.zookeeper_configs import store
from milepost.cluster.zookeeper import entity_configs, znodes
from milepost.cluster.zookeeper.operations import Create, SetData
from milepost.topic_partition import TopicPartition
from tests.simulation.cluster import Cluster
from tests.simulation.session import NAME as ZOOKEEPER

VERIFICATION = "transaction.partition.verification.enable"
VISITS = TopicPartition("visits", 0)
THROTTLED = "follower.replication.throttled.replicas"


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


class Remade:
    """`visits` is on broker 1 alone at first; another topic of that name is made later, with a replica on broker 3."""

    def __init__(self):
        self.cluster = Cluster(0)
        for each in self.cluster.brokers.values():
            each.start()
        self.run(3)

    @property
    def third(self):
        return self.cluster.brokers[3].broker

    def run(self, seconds):
        self.cluster.world.run(self.cluster.world.now + seconds)

    def make(self, replicas, configs):
        node = znodes.TopicNode({0: znodes.Assignment(replicas)}, None)
        self.cluster.write(
            Create(znodes.config_path("topics", "visits"), znodes.config(configs)),
            Create(znodes.topic_path("visits"), znodes.topic(node, self.cluster.versions.topic_znode)),
        )
        self.run(3)

    def delete(self):
        self.cluster.write(Create(znodes.delete_topic_path("visits")))
        self.run(5)
        assert znodes.topic_path("visits") not in self.cluster.zookeeper.model.nodes

    def change(self, configs, entity="topics/visits"):
        self.cluster.brokers[1].broker.member.run(entity_configs.write(entity, configs))
        self.run(3)

    def with_third_away(self, meanwhile):
        """Its session in ZooKeeper ends, and what happens then it hears nothing of."""
        cuts = {("broker-3", ZOOKEEPER), (ZOOKEEPER, "broker-3")}
        self.cluster.network.cut |= cuts
        self.run(5)
        meanwhile()
        self.cluster.network.cut -= cuts
        self.run(5)
        assert self.third.member.is_registered

    def stays_set(self):
        return {
            name
            for name, held in {
                "cluster": self.third.cluster.stored_topics,
                "logs": self.third.logs.topics,
                "throttled": self.third.replication_quotas.follower._partitions,
            }.items()
            if "visits" in held
        }


def test_topic_deleted_and_made_again_while_a_broker_is_away_has_its_new_settings_there():
    remade = Remade()
    remade.make((1,), {"retention.ms": "1000", THROTTLED: "*"})
    remade.change({"retention.ms": "2000", THROTTLED: "*"})
    assert remade.stays_set() == {"cluster", "logs", "throttled"}
    remade.with_third_away(remade.delete)
    assert remade.stays_set() == set()
    remade.make((3,), {"segment.ms": "7000"})
    log = remade.third.logs.logs[VISITS]
    assert (log.config.retention_ms, log.config.segment_ms) == (604_800_000, 7000)


def test_deleted_topic_leaves_no_settings_where_it_had_no_replica():
    remade = Remade()
    remade.make((1,), {"retention.ms": "1000", THROTTLED: "*"})
    remade.change({"retention.ms": "2000", THROTTLED: "*"})
    remade.delete()
    assert remade.stays_set() == set()


def test_new_replica_is_made_with_the_settings_of_now_whatever_was_read_before():
    """A note about a topic that is deleted when its settings are read leaves none, which is no knowledge of the next topic."""
    remade = Remade()
    remade.third.settings.changed("topics/visits", {"retention.ms": "1000"})
    remade.make((3,), {"segment.ms": "7000"})
    log = remade.third.logs.logs[VISITS]
    assert (log.config.retention_ms, log.config.segment_ms) == (604_800_000, 7000)


def test_topic_of_another_id_does_not_inherit_the_settings_of_the_last_of_its_name():
    remade = Remade()
    remade.make((1,), {"retention.ms": "1000"})
    assert remade.third.cluster.topics["visits"].configs == {"retention.ms": "1000"}
    # Broker 3 hears of the new topic without having heard that the old one is gone.
    remade.third.taking_metadata = lambda request: iter(())
    remade.delete()
    del remade.third.taking_metadata
    remade.make((1,), {"segment.ms": "7000"})
    assert remade.third.cluster.topics["visits"].configs == {"segment.ms": "7000"}


def test_settings_whose_nodes_cannot_be_parsed_at_joining_stay_as_they_were():
    remade = Remade()
    remade.make((3,), {"retention.ms": "1000"})
    remade.change({"log.roll.ms": "7000"}, "brokers/<default>")

    def damage():
        remade.cluster.write(SetData("/config/topics/visits", b"[1, 2]"), SetData("/config/brokers/<default>", b"[1, 2]"))

    remade.with_third_away(damage)
    assert remade.third.logs.logs[VISITS].config.retention_ms == 1000
    assert remade.third.config.log_roll_ms == 7000
    assert remade.third.cluster.stored_topics["visits"] == {"retention.ms": "1000"}
    assert remade.third.cluster.stored_brokers[""] == {"log.roll.ms": "7000"}


def test_quota_is_not_stored_over_a_node_that_cannot_be_parsed():
    """It may have the passwords of the user."""
    remade = Remade()
    path = "/config/users/alice"
    remade.cluster.write(Create(path, b"[1, 2]"))
    stored = []
    store(remade.third.member, {"user": "alice"}, {"producer_byte_rate": "1000.0"}, stored.append)
    remade.run(1)
    assert stored == [False]
    assert remade.cluster.zookeeper.model.nodes[path].data == b"[1, 2]"


def shown(settings, *names):
    """name → (value, source), as DescribeConfigs has them."""
    entries = {entry.name: entry for entry in settings.entries(BrokerPlaces(settings.broker))}
    return {name: (entries[name].value, entries[name].source) for name in names}


def told_of(caplog):
    return [
        record.getMessage() for record in caplog.records if record.name == "milepost.broker" and record.levelno == logging.WARNING
    ]


def test_topic_whose_new_settings_cannot_be_applied_keeps_the_old_ones_and_shows_them(caplog):
    remade = Remade()
    remade.make((3,), {"retention.ms": "1000"})
    caplog.clear()
    remade.change({"retention.ms": "soon", "segment.ms": "7000"})
    log = remade.third.logs.logs[VISITS]
    assert (log.config.retention_ms, log.config.segment_ms) == (1000, 604_800_000)
    assert shown(TopicSettings(remade.third, "visits"), "retention.ms", "segment.ms") == {
        "retention.ms": ("1000", ConfigSource.TOPIC),
        "segment.ms": ("604800000", ConfigSource.DEFAULT),
    }
    remade.change({"retention.ms": "2000", "segment.ms": "7000"})
    assert (log.config.retention_ms, log.config.segment_ms) == (2000, 7000)


def test_settings_that_cannot_be_applied_are_warned_of_once_by_each_broker(caplog):
    remade = Remade()
    remade.make((1,), {"retention.ms": "1000"})
    caplog.clear()
    remade.change({"retention.ms": "soon"})
    expected = (
        "topic visits: retention.ms = 'soon' is not allowed: give a whole number from -1 to 9223372036854775807. "
        "Its stored settings are not applied; in force stay retention.ms=1000"
    )
    assert told_of(caplog) == [expected] * len(remade.cluster.brokers)
    remade.with_third_away(lambda: None)  # everything is read again
    assert told_of(caplog).count(expected) == len(remade.cluster.brokers)


def test_change_of_settings_begins_with_what_is_stored_also_where_it_cannot_be_applied():
    remade = Remade()
    remade.make((3,), {"retention.ms": "1000"})
    remade.change({"retention.ms": "soon", "segment.ms": "7000"})
    remove = Resource.Config(name="retention.ms", config_operation=DELETE, value=None)
    _, given = changed(Resource(resource_type=2, resource_name="visits", configs=[remove]), remade.third)
    assert given == {"segment.ms": "7000"}


def test_list_is_appended_to_as_it_is_stored_also_where_it_cannot_be_applied():
    remade = Remade()
    remade.make((3,), {})
    remade.change({"retention.ms": "soon", "cleanup.policy": "compact"})
    append = Resource.Config(name="cleanup.policy", config_operation=APPEND, value="delete")
    _, given = changed(Resource(resource_type=2, resource_name="visits", configs=[append]), remade.third)
    assert given == {"retention.ms": "soon", "cleanup.policy": "compact,delete"}


def test_broker_settings_that_cannot_be_applied_leave_the_old_ones_in_force_and_shown(caplog):
    remade = Remade()
    remade.change({"log.retention.ms": "1000"}, "brokers/<default>")
    caplog.clear()
    remade.change({"log.retention.ms": "soon", "log.roll.ms": "7000"}, "brokers/<default>")
    assert (remade.third.config.log_retention_ms, remade.third.config.log_roll_ms) == (1000, None)
    assert shown(BrokerSettings(remade.third, ""), "log.retention.ms") == {
        "log.retention.ms": ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    }
    assert shown(BrokerSettings(remade.third, "3"), "log.retention.ms", "log.roll.ms") == {
        "log.retention.ms": ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        "log.roll.ms": (None, ConfigSource.DEFAULT),
    }
    assert BrokerSettings(remade.third, "").stored == {"log.retention.ms": "soon", "log.roll.ms": "7000"}
    expected = (
        "broker 3: log.retention.ms = 'soon' is not allowed: give a whole number from -9223372036854775808 to 9223372036854775807. "
        "The settings in ZooKeeper are not applied; in force stay log.retention.ms=1000"
    )
    assert told_of(caplog).count(expected) == 1


def test_topic_setting_that_this_broker_does_not_know_is_warned_of_once_and_the_others_hold(caplog):
    remade = Remade()
    remade.make((3,), {"retention.ms": "1000"})
    caplog.clear()
    remade.change({"retention.ms": "2000", "tiers.of.tomorrow": "7"})
    assert remade.third.logs.logs[VISITS].config.retention_ms == 2000
    expected = "topic visits: 'tiers.of.tomorrow' is no property that this broker knows; it has no effect here"
    assert told_of(caplog) == [expected] * len(remade.cluster.brokers)
    remade.change({"retention.ms": "3000", "tiers.of.tomorrow": "8"})
    remade.change({"log.retention.ms": "9000"}, "brokers/<default>")
    assert remade.third.logs.logs[VISITS].config.retention_ms == 3000
    assert told_of(caplog) == [expected] * len(remade.cluster.brokers)


def test_setting_that_is_not_known_is_warned_of_also_beside_a_value_that_cannot_be_applied(caplog):
    remade = Remade()
    remade.make((3,), {})
    caplog.clear()
    remade.change({"retention.ms": "soon", "tiers.of.tomorrow": "7"})
    assert sorted({text.split(" is ")[0] for text in told_of(caplog)}) == [
        "topic visits: 'tiers.of.tomorrow'",
        "topic visits: retention.ms = 'soon'",
    ]


def test_broker_setting_that_this_broker_does_not_know_is_warned_of_once(caplog):
    remade = Remade()
    caplog.clear()
    remade.change({"metric.of.tomorrow": "7", "log.retention.ms": "1000"}, "brokers/<default>")
    expected = "all brokers: 'metric.of.tomorrow' is no property that this broker knows; it has no effect here"
    assert told_of(caplog) == [expected] * len(remade.cluster.brokers)
    remade.change({"metric.of.tomorrow": "7", "log.retention.ms": "2000"}, "brokers/<default>")
    assert remade.third.config.log_retention_ms == 2000
    assert told_of(caplog) == [expected] * len(remade.cluster.brokers)


def test_setting_that_a_topic_has_and_this_broker_does_not_know_keeps_nobody_from_changing_a_broker():
    remade = Remade()
    remade.make((3,), {"tiers.of.tomorrow": "7"})
    BrokerSettings(remade.third, "3").check({"log.retention.ms": "1000"})

"""What ZooKeeper denies a controller costs the partition, topic or request it belongs to, and nothing else."""

from __future__ import annotations

from milepost.cluster.controller.isr_changes import Proposal
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create
from milepost.topic_partition import TopicPartition
from tests.cluster.controller.town import Town

STATE_OF_0 = znodes.state_path("t", 0)


def told_errors(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def test_partition_whose_state_is_denied_is_asked_for_once_and_the_others_get_leaders(town, caplog):
    town.create_topic("t", {0: (2, 3), 1: (2, 3)})
    town.server.acls[STATE_OF_0] = "read"
    town.kill_broker(2)
    assert (town.state("t", 0), town.state("t", 1)) == ((2, 0, [2, 3], 0), (3, 1, [3], 1))
    assert town.controller.is_active and not town.errors
    # Once when a leader is elected, once when the dead one leaves the in-sync replicas.
    denied = f"ZooKeeper refused SetData {STATE_OF_0}: NO_AUTH (-102)"
    assert [denied in line for line in told_errors(caplog)] == [True, True]


def test_first_leaders_come_though_one_topic_may_not_be_written_below(town, caplog):
    town.server.acls["/brokers/topics/locked"] = "read"
    town.create_topic("locked", {0: (1, 2)})
    town.create_topic("t", {0: (1, 2)})
    assert town.state("t", 0) == (1, 0, [1, 2], 0)
    assert znodes.state_path("locked", 0) not in town.server.nodes
    assert "Create /brokers/topics/locked/partitions: NO_AUTH (-102)" in told_errors(caplog)[0]


def test_notes_that_may_not_be_deleted_keep_no_controller_from_taking_over(town, caplog):
    town.create_topic("t", {0: (2, 3)})
    for path in ("/isr_change_notification", "/log_dir_event_notification", "/admin/delete_topics"):
        town.server.acls[path] = "read create"
        town.write(Create(f"{path}/note", b"{}"))
    caplog.clear()
    town.kill_broker(1)
    assert town.controller.parts.settings.broker_id == 2
    assert not town.errors
    assert town.ask(town.controller.elect_leaders, [TopicPartition("t", 0)], 0) == {TopicPartition("t", 0): 84}
    told = told_errors(caplog)
    for path in ("/isr_change_notification", "/log_dir_event_notification", "/admin/delete_topics"):
        assert f"Delete {path}/note: NO_AUTH (-102)" in " ".join(told)


def test_topic_that_may_not_be_read_keeps_no_other_without_a_leader(town, caplog):
    town.create_topic("locked", {0: (1, 2)})
    town.create_topic("t", {0: (1, 2)})
    town.server.acls["/brokers/topics/locked"] = "write create delete"
    town.kill_broker(1)
    assert town.state("t", 0) == (2, 2, [2], 2)
    assert town.state("locked", 0) == (1, 0, [1, 2], 0)
    assert not town.errors
    assert "a topic is not known: ZooKeeper refused Get /brokers/topics/locked: NO_AUTH (-102)" in told_errors(caplog)[0]


def test_topic_whose_settings_are_denied_is_not_led_uncleanly(caplog):
    town = Town(unclean_leader_election=lambda: True)
    for broker_id in (1, 2, 3):
        town.start_broker(broker_id)
    town.create_topic("t", {0: (2, 3)})
    town.kill_broker(3)
    town.kill_broker(2)
    town.server.acls[znodes.config_path("topics", "t")] = "write"
    town.start_broker(3)
    assert town.state("t", 0) == (-1, 2, [2], 2)
    assert "Get /config/topics/t: NO_AUTH (-102)" in told_errors(caplog)[0]


def test_request_over_a_state_that_is_denied_is_answered_and_the_controller_stays(town):
    town.create_topic("t", {0: (1, 2, 3), 1: (1, 2, 3)})
    town.server.acls[STATE_OF_0] = "read"
    epoch = town.controller.context.brokers[1].epoch
    wanted = {TopicPartition("t", number): Proposal(0, (1, 2), 0) for number in (0, 1)}
    error, verdicts = town.ask(town.controller.alter_partition, 1, epoch, wanted, 3)
    assert (error, [verdict.error for verdict in verdicts.values()]) == (0, [-1, 0])
    assert town.state("t", 1) == (1, 0, [1, 2], 1)


def test_reassignment_that_may_not_be_written_did_not_begin(town):
    town.create_topic("locked", {0: (1, 2)})
    town.create_topic("t", {0: (1, 2)})
    town.server.acls["/brokers/topics/locked"] = "read"
    locked, free = TopicPartition("locked", 0), TopicPartition("t", 0)
    answers = town.ask(town.controller.alter_reassignments, {locked: (2, 3), free: (2, 3)})
    assert [answers[locked][0], answers[free]] == [-1, (0, None)]
    assert "SetData /brokers/topics/locked: NO_AUTH (-102)" in answers[locked][1]
    assert town.controller.context.replicas_of(locked) == (1, 2)
    assert town.controller.context.replicas_of(free) == (2, 3, 1)


def test_producer_ids_that_may_not_be_written_are_answered_with_an_error(town, caplog):
    town.server.acls[znodes.PRODUCER_ID_BLOCK] = "read"
    epoch = town.controller.context.brokers[1].epoch
    assert town.ask(town.controller.allocate_producer_ids, 1, epoch) == (-1, 0, 0)
    assert town.controller.is_active
    assert "SetData /latest_producer_id_block: NO_AUTH (-102)" in told_errors(caplog)[0]


def test_topic_whose_znodes_may_not_be_deleted_does_not_hold_up_another(town, caplog):
    town.create_topic("locked", {0: (1, 2)})
    town.create_topic("t", {0: (1, 2)})
    town.server.acls[znodes.TOPICS + "/locked"] = "read write create"
    town.write(Create(znodes.delete_topic_path("locked")), Create(znodes.delete_topic_path("t")))
    assert "/brokers/topics/t" not in town.server.nodes
    assert "/brokers/topics/locked/partitions" in town.server.nodes
    assert "topic locked is gone from all brokers and stays in ZooKeeper" in told_errors(caplog)[0]
    assert town.controller.is_active and not town.errors

"""Which replicas are in sync, by their leader's word, and partitions that move to other brokers."""

from __future__ import annotations

import pytest

from milepost.cluster.controller.isr_changes import Proposal
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create
from milepost.topic_partition import TopicPartition
from tests.cluster.controller.town import alter


def test_leader_changes_its_in_sync_replicas(town):
    town.create_topic("t", {0: (1, 2, 3)})
    town.take_told()
    verdict = alter(town, 1, (1, 2))
    assert verdict.error == 0
    assert town.state("t", 0) == (1, 0, [1, 2], 1)
    # Everybody hears of it, and nobody needs a LeaderAndIsr.
    assert town.take_told() == [f"{each} UpdateMetadata t:0(L1 e0 isr[1, 2] zk1) live [1, 2, 3]" for each in (1, 2, 3)]


@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        (Proposal(0, (1, 2), 1), 41),
        (Proposal(1, (1, 2), 0), 41),
        (Proposal(-1, (1, 2), 0), 74),
        (Proposal(0, (1, 2, 3), 0), 0),
        (Proposal(0, (1, 2, 3, 9), 0), 107),
        (Proposal(0, (1, 2), -1), 95),
    ],
)
def test_proposals_that_do_not_fit(town, proposal, expected):
    town.create_topic("t", {0: (1, 2, 3)})
    partition = TopicPartition("t", 0)
    epoch = town.controller.context.brokers[1].epoch
    _, verdicts = town.ask(town.controller.alter_partition, 1, epoch, {partition: proposal}, 3)
    assert verdicts[partition].error == expected
    assert town.state("t", 0) == (1, 0, [1, 2, 3], 0)


@pytest.mark.parametrize(("life", "expected"), [("this", 0), ("unknown", 0), ("earlier", 107), ("later", 107)])
def test_replica_is_taken_in_only_in_the_life_in_which_it_was_seen(town, life, expected):
    """KIP-903: a broker that came back may have less than what its leader saw."""
    town.create_topic("t", {0: (1, 2, 3)})
    alter(town, 1, (1, 2))
    brokers = town.controller.context.brokers
    earlier = brokers[3].epoch
    town.sessions[3].expire()
    town.turns.settle()
    now = brokers[3].epoch
    assert now > earlier
    seen = {"this": now, "unknown": -1, "earlier": earlier, "later": now + 1}[life]
    partition = TopicPartition("t", 0)
    proposal = Proposal(0, (1, 2, 3), 1, epochs=(brokers[1].epoch, -1, seen))
    _, verdicts = town.ask(town.controller.alter_partition, 1, brokers[1].epoch, {partition: proposal}, 3)
    assert verdicts[partition].error == expected
    assert town.state("t", 0)[2] == ([1, 2, 3] if expected == 0 else [1, 2])


def test_proposal_of_a_broker_of_a_life_before(town):
    town.create_topic("t", {0: (1, 2, 3)})
    assert town.ask(town.controller.alter_partition, 1, 0, {TopicPartition("t", 0): Proposal(0, (1, 2), 0)}, 3) == (77, {})


def test_reassignment_moves_a_partition(town):
    town.create_topic("t-move", {0: (1, 2)})
    town.take_told()
    partition = TopicPartition("t-move", 0)
    assert town.ask(town.controller.alter_reassignments, {partition: (2, 3)}) == {partition: (0, None)}
    node = znodes.parse_topic(town.server.nodes["/brokers/topics/t-move"].data)
    assert node is not None
    assert node.partitions[0] == znodes.Assignment((2, 3, 1), adding=(3,), removing=(1,))
    assert town.state("t-move", 0) == (1, 1, [1, 2], 1)
    told = town.take_told()
    assert "3 LeaderAndIsr t-move:0(L1 e1 isr[1, 2] pe1 new)" in told
    alter(town, 1, (1, 2, 3), "t-move")
    town.turns.settle()
    assert town.state("t-move", 0) == (2, 3, [2, 3], 4)
    node = znodes.parse_topic(town.server.nodes["/brokers/topics/t-move"].data)
    assert node is not None
    assert node.partitions[0] == znodes.Assignment((2, 3))
    stops = [line for line in town.take_told() if "StopReplica" in line]
    assert stops == ["1 StopReplica t-move:0(e2)", "1 StopReplica t-move:0(e3 delete)"]


def test_reassignment_can_be_cancelled(town):
    town.create_topic("t", {0: (1, 2)})
    partition = TopicPartition("t", 0)
    town.ask(town.controller.alter_reassignments, {partition: (2, 3)})
    assert town.ask(town.controller.alter_reassignments, {partition: None}) == {partition: (0, None)}
    node = znodes.parse_topic(town.server.nodes["/brokers/topics/t"].data)
    assert node is not None
    assert set(node.partitions[0].replicas) == {1, 2}
    assert not node.partitions[0].is_reassigned
    (answer,) = town.ask(town.controller.alter_reassignments, {partition: None}).values()
    assert answer[0] == 85


def test_topic_that_is_deleted_while_it_moves_goes_when_it_has_moved(town):
    town.create_topic("t", {0: (1, 2)})
    town.ask(town.controller.alter_reassignments, {TopicPartition("t", 0): (2, 3)})
    town.write(Create(znodes.delete_topic_path("t")))
    assert znodes.topic_path("t") in town.server.nodes
    alter(town, 1, (1, 2, 3))
    town.turns.settle()
    assert znodes.topic_path("t") not in town.server.nodes
    assert znodes.delete_topic_path("t") not in town.server.nodes


def test_reassignment_goes_on_under_the_next_controller(town):
    town.create_topic("t", {0: (2, 3)})
    partition = TopicPartition("t", 0)
    town.ask(town.controller.alter_reassignments, {partition: (3, 1)})
    town.kill_broker(1)
    assert town.controller.parts.term.epoch == 2
    town.start_broker(1)
    alter(town, 2, (2, 3, 1))
    leader, _, isr, _ = town.state("t", 0)
    assert (leader, sorted(isr)) == (3, [1, 3])


@pytest.mark.parametrize("target", [(), (1, 1), (-1,), (1, 9)])
def test_reassignment_to_nonsense_is_refused(town, target):
    town.create_topic("t", {0: (1, 2)})
    ((code, message),) = town.ask(town.controller.alter_reassignments, {TopicPartition("t", 0): target}).values()
    assert code == 39
    assert "t-0" in message

"""AlterPartition as a leader sends it, in the version of its cluster's protocol."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.cluster.isr_proposals import AlterPartitionProposals, ZnodeProposals
from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.registration import make_nodes, make_path
from milepost.cluster.zookeeper.session import Runner
from milepost.protocol import generated
from milepost.replica.leadership import LeaderState
from milepost.topic_partition import TopicPartition
from tests.cluster.zookeeper.lossy_session import ANSWERED, UNSENT, LossySession
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelZooKeeper

TOPIC_ID = bytes(range(16))


class Cluster:
    node_id = 1
    brokers = (1, 2, 3)

    def id_of(self, topic: str) -> bytes:
        return TOPIC_ID

    def partition_info(self, topic: str, number: int) -> None:
        return None


class Link:
    version: int

    def ask(self, make: Any, version: int, on_answer: Any) -> None:
        self.request, self.version = make(), version


class Log:
    partition = TopicPartition("t", 0)


def proposed(protocol: str) -> tuple[int, Any]:
    """The version, and the topic as the controller reads it."""
    link = Link()
    changer = AlterPartitionProposals(Cluster(), link, protocol_versions(protocol), lambda: 11)  # type: ignore[arg-type]
    state = LeaderState(5, frozenset({1, 2}), (1, 2, 3), 7)
    changer.propose(Log(), state, frozenset({1, 2, 3}), {2: -1, 3: 33}, lambda confirmed: None)  # type: ignore[arg-type]
    sent: list[Any] = []
    generated.request_encoder(56, link.version)(link.request, sent.append)
    return link.version, generated.request_decoder(56, link.version)(b"".join(sent), 0)[0].topics[0]


def test_broker_epochs_are_told_since_3_5():
    for protocol in ("3.5", "3.9"):
        version, topic = proposed(protocol)
        (part,) = topic.partitions
        assert (version, topic.topic_id) == (3, TOPIC_ID)
        assert [(each.broker_id, each.broker_epoch) for each in part.new_isr_with_epochs] == [(1, 11), (2, -1), (3, 33)]
        assert (part.leader_epoch, part.partition_epoch, part.leader_recovery_state) == (5, 7, 0)


@pytest.mark.parametrize(
    ("protocol", "version", "topic"), [("3.4", 2, TOPIC_ID), ("3.2", 1, "t"), ("3.1", 0, "t"), ("2.8", 0, "t"), ("2.7", 0, "t")]
)
def test_older_protocols_tell_ids_of_brokers_alone(protocol, version, topic):
    """The newest version that each controller of that protocol knows."""
    found, told = proposed(protocol)
    assert found == version
    assert topic in (told.topic_id, told.topic_name)
    assert told.partitions[0].new_isr == [1, 2, 3]


def test_note_of_an_older_cluster_is_written_though_the_connection_is_lost_twice():
    turns, server = Turns(), ModelZooKeeper()
    session = LossySession(server, turns)
    runner = Runner(session, lambda error: None)
    runner.run(make_nodes(protocol_versions("2.4")))
    path = "/brokers/topics/t/partitions/0/state"
    runner.run(make_path(path))
    turns.settle()
    proposals = ZnodeProposals(Cluster(), runner.run, turns, lambda: 4)  # type: ignore[arg-type]
    confirmed: list[Any] = []
    state = LeaderState(5, frozenset({1, 2}), (1, 2, 3), 0)
    session.fates = [ANSWERED, UNSENT, UNSENT]
    proposals.propose(Log(), state, frozenset({1}), {}, confirmed.append)  # type: ignore[arg-type]
    turns.settle()
    turns.advance(10)
    assert confirmed[0].error == 0
    assert server.children["/isr_change_notification"] == {"isr_change_0000000000"}

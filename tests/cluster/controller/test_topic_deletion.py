"""Topics that are deleted: from the leaders up, past brokers that are away, and by answers that are lost."""

from __future__ import annotations

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Error, Multi, Result
from milepost.protocol.messages import StopReplicaResponse
from tests.cluster.controller.town import told_as_text
from tests.simulation.zookeeper import ModelSession


def test_topic_is_deleted_though_the_answers_of_zookeeper_are_lost(town, monkeypatch):
    town.create_topic("t", {0: (1, 2, 3)})
    submit = ModelSession.submit
    lost = []

    def lossy(self, operations, done):
        if not lost and any(isinstance(each, Multi) and "Delete(" in str(each) for each in operations):
            lost.append(operations)
            done([Result(Error.CONNECTION_LOSS)] * len(operations))
        else:
            submit(self, operations, done)

    monkeypatch.setattr(ModelSession, "submit", lossy)
    town.write(Create(znodes.delete_topic_path("t")))
    assert lost
    assert znodes.topic_path("t") not in town.server.nodes
    assert znodes.delete_topic_path("t") not in town.server.nodes


def test_topic_is_deleted_from_the_leaves_up(town):
    town.create_topic("t", {0: (1, 2), 1: (2, 3)})
    town.take_told()
    before = len(town.server.writes)
    town.write(Create(znodes.delete_topic_path("t")))
    told = town.take_told()
    assert told[:3] == [
        f"{each} UpdateMetadata t:0(L-2 e0 isr[1, 2] zk0),1(L-2 e0 isr[2, 3] zk0) live [1, 2, 3]" for each in (1, 2, 3)
    ]
    assert [line for line in told if line.startswith("2 StopReplica")] == [
        "2 StopReplica t:0(e-2),1(e-2)",
        "2 StopReplica t:0(e-2 delete),1(e-2 delete)",
    ]
    deleted = [operation.path for _, operation in town.server.writes[before:] if type(operation).__name__ == "Delete"]
    assert deleted == [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/1/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t",
        "/config/topics/t",
        "/admin/delete_topics/t",
    ]
    assert not town.controller.context.topic_ids


def test_deletion_waits_for_a_dead_broker(town):
    town.create_topic("t", {0: (1, 2)})
    town.kill_broker(2)
    town.write(Create(znodes.delete_topic_path("t")))
    assert "/brokers/topics/t" in town.server.nodes
    town.start_broker(2)
    assert "/brokers/topics/t" not in town.server.nodes
    assert not town.errors


def test_answer_of_a_life_before_does_not_hold_up_a_deletion(town):
    town.create_topic("t", {0: (1, 2, 3)})
    town.silent.add(3)
    town.write(Create(znodes.delete_topic_path("t")))
    (before,) = [request for broker_id, request in town.told if broker_id == 2 and "delete" in told_as_text(request)]
    before.broker_epoch = town.controller.context.brokers[3].epoch
    town.kill_broker(3)
    town.start_broker(3)
    # It waited in the controller's queue behind the news of the broker's return.
    town.controller.run(town.controller.deletion.answered(3, before, StopReplicaResponse(error_code=77)))
    town.silent.clear()
    town.turns.advance(1.0)
    assert znodes.topic_path("t") not in town.server.nodes


def test_deletion_of_a_topic_that_does_not_exist_is_forgotten(town):
    town.write(Create(znodes.delete_topic_path("never")))
    assert znodes.delete_topic_path("never") not in town.server.nodes

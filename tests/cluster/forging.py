"""Requests as only a broker or the controller sends them, made by a stranger."""

from __future__ import annotations

from confluent_kafka import Producer

from milepost.log.directory.partition_metadata import topic_id_bytes
from milepost.protocol.messages import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from tests.broker.wire import Wire
from tests.cluster.asking import in_sync, metadata, node, partitions_of, zookeeper_client
from tests.waiting import PROCESS_PATIENCE

TOPIC = "visits"


def wire_to(cluster, broker_id, client_id="wire"):
    return Wire(cluster.brokers[broker_id].address, client_id)


def id_bytes(cluster):
    with zookeeper_client(cluster.zookeeper) as client:
        return topic_id_bytes(node(client, f"/brokers/topics/{TOPIC}")["topic_id"], TOPIC)


def stop_replica(controller, controller_epoch, broker_epoch):
    topic = StopReplicaRequest.TopicState
    part = topic.PartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    return StopReplicaRequest(
        controller_id=controller,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[topic(topic_name=TOPIC, partition_states=[part])],
    )


def lead(cluster, controller, controller_epoch, broker_epoch, leader):
    topic = LeaderAndIsrRequest.TopicState
    part = topic.PartitionState(
        partition_index=0, controller_epoch=controller_epoch, leader=leader, leader_epoch=1_000_000, isr=[1, 2], replicas=[1, 2]
    )
    return LeaderAndIsrRequest(
        controller_id=controller,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[topic(topic_name=TOPIC, topic_id=id_bytes(cluster), partition_states=[part])],
    )


def tell(controller, controller_epoch, broker_epoch):
    broker = UpdateMetadataRequest.LiveBroker
    return UpdateMetadataRequest(
        controller_id=controller,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        live_brokers=[broker(id=1, endpoints=[broker.Endpoint(port=6666, host="10.6.6.6", listener="PLAINTEXT")])],
    )


def ensure_unharmed(cluster):
    """Written with all replicas, read, and the same brokers as ever."""
    errors = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(TOPIC, b"still here", partition=0, on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(PROCESS_PATIENCE) == 0
    assert errors == [None]
    for broker in cluster.brokers.values():
        assert {each.port for each in metadata(broker.address).brokers.values()} == {
            each.port for each in cluster.brokers.values()
        }
        assert in_sync(broker.address, TOPIC)[0] == [1, 2]
        assert partitions_of(broker.address, TOPIC)[0].leader in (1, 2)

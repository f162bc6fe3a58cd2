"""What a broker knows of its cluster after the controller's requests, in all versions that were recorded."""

from __future__ import annotations

from milepost.protocol.messages import UpdateMetadataRequest
from milepost.replica.metadata import Endpoint, PartitionInfo
from milepost.replica.metadata_cache import MetadataCache
from milepost.topic_partition import TopicPartition
from milepost.work import at_once

TopicState = UpdateMetadataRequest.TopicState
LiveBroker = UpdateMetadataRequest.LiveBroker
TOPIC_ID = bytes(range(16))


def request(leader: int = 1, epoch: int = 3, partition: int = 0, brokers: tuple[int, ...] = (1, 2)) -> UpdateMetadataRequest:
    state = TopicState.PartitionState(
        partition_index=partition, controller_epoch=1, leader=leader, leader_epoch=epoch, isr=[1], zk_version=4, replicas=[1, 2],
        offline_replicas=[2],
    )  # fmt: skip
    return UpdateMetadataRequest(
        controller_id=2,
        topic_states=[TopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])],
        live_brokers=[
            LiveBroker(id=each, endpoints=[LiveBroker.Endpoint(port=9090 + each, host="h", listener="REPL", security_protocol=0)])
            for each in brokers
        ],
    )


def test_partitions_add_up_and_brokers_are_replaced():
    cache = MetadataCache()
    at_once(cache.applying(request()))
    at_once(cache.applying(request(leader=2, epoch=4, partition=1, brokers=(2,))))
    assert cache.controller_id == 2
    assert cache.topics == {
        "t": {0: PartitionInfo(1, 3, (1,), (1, 2), (2,), 4, 1), 1: PartitionInfo(2, 4, (1,), (1, 2), (2,), 4, 1)}
    }
    assert list(cache.brokers) == [2]
    assert cache.brokers[2].endpoint("REPL") == Endpoint("REPL", "PLAINTEXT", "h", 9092)
    assert cache.topic_names == {TOPIC_ID: "t"}


def test_topic_that_goes_is_forgotten():
    cache = MetadataCache()
    at_once(cache.applying(request()))
    assert at_once(cache.applying(request(leader=-2))) == [TopicPartition("t", 0)]
    assert not cache.topics
    assert not cache.topic_ids
    assert not cache.topic_names


def test_deleting_what_is_not_known_is_nothing():
    cache = MetadataCache()
    assert at_once(cache.applying(request(leader=-2))) == [TopicPartition("t", 0)]


def test_oldest_version_has_no_listeners():
    cache = MetadataCache()
    ungrouped = UpdateMetadataRequest.UngroupedPartitionState(topic_name="t", partition_index=0, leader=1, isr=[1], replicas=[1])
    at_once(
        cache.applying(
            UpdateMetadataRequest(
                ungrouped_partition_states=[ungrouped], live_brokers=[LiveBroker(id=1, v0_host="old", v0_port=9092)]
            )
        )
    )
    assert cache.brokers[1].endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "PLAINTEXT", "old", 9092)
    assert cache.topics["t"][0].leader == 1


def test_many_partitions_are_taken_over_in_pieces():
    cache = MetadataCache()
    state = UpdateMetadataRequest.TopicState.PartitionState
    states = [state(partition_index=number, leader=1, isr=[1], replicas=[1]) for number in range(1000)]
    topic = UpdateMetadataRequest.TopicState(topic_name="t", topic_id=b"t" * 16, partition_states=states)
    assert len(list(cache.applying(UpdateMetadataRequest(topic_states=[topic])))) == 1000
    assert len(cache.topics["t"]) == 1000

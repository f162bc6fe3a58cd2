"""The replica that a consumer should read from: one in its own rack, if it is in sync and has what is asked for (KIP-392).

As Kafka's RackAwareReplicaSelector: the leader if it stands there itself, else the one that has most.
"""

from __future__ import annotations

from collections.abc import Mapping

from milepost.replica.metadata import BrokerInfo
from milepost.replica.partition import Partition

HERE = -1


def nearest_replica(partition: Partition, rack: str, offset: int, leader_id: int, brokers: Mapping[int, BrokerInfo]) -> int:
    """The broker to read `offset` from; HERE where the leader is as good as any."""
    leader = brokers.get(leader_id)
    if partition.leadership is None:
        return HERE
    if leader is not None and leader.rack == rack:
        return HERE
    leadership = partition.leadership
    near = [
        replica
        for broker_id, replica in leadership.remote.items()
        if broker_id in leadership.state.isr
        and broker_id in brokers
        and brokers[broker_id].rack == rack
        and replica.start_offset <= offset <= replica.end_offset
    ]
    return max(near, key=lambda replica: replica.end_offset).broker_id if near else HERE

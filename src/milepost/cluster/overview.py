"""A cluster as its znodes show it: who is controller, which brokers are there, who leads each partition and who is in sync.

ZooKeeper is asked and no broker: the answer is there also while brokers are not.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.reader import ZooKeeperReader

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    broker_id: int
    epoch: int
    endpoints: tuple[str, ...]
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    is_reassigned: bool

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas) or self.is_offline

    @property
    def is_offline(self) -> bool:
        return self.leader == NO_LEADER


@dataclass(frozen=True, slots=True)
class Overview:
    cluster_id: str | None
    controller: int | None
    controller_epoch: int | None
    brokers: dict[int, BrokerSeen]
    partitions: tuple[PartitionSeen, ...]

    @property
    def under_replicated(self) -> list[PartitionSeen]:
        return [part for part in self.partitions if part.is_under_replicated]

    @property
    def offline(self) -> list[PartitionSeen]:
        return [part for part in self.partitions if part.is_offline]

    def is_in_sync(self, broker_id: int) -> bool:
        """Whether a broker is in sync wherever it has a replica."""
        return broker_id in self.brokers and all(broker_id in part.isr for part in self.partitions if broker_id in part.replicas)


def overview(reader: ZooKeeperReader) -> Overview:
    controller, epoch, cluster_id = reader.get_all([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID])
    return Overview(
        None if cluster_id is None else znodes.parse_cluster_id(cluster_id.data),
        None if controller is None else znodes.controller_id(controller.data),
        int(epoch.data) if epoch is not None and epoch.data.isdigit() else None,
        _brokers(reader),
        tuple(_partitions(reader)),
    )


def _brokers(reader: ZooKeeperReader) -> dict[int, BrokerSeen]:
    (names,) = reader.children([znodes.BROKER_IDS])
    numbers = sorted(int(name) for name in names if name.isdecimal())
    found = {}
    for number, node in zip(numbers, reader.get_all(map(znodes.broker_path, numbers)), strict=True):
        said = None if node is None else znodes.parse_broker(node.data)
        if node is not None and said is not None:
            endpoints = tuple(f"{each.listener}://{each.host}:{each.port}" for each in said.endpoints)
            found[number] = BrokerSeen(number, node.czxid, endpoints, said.rack)
    return found


def _partitions(reader: ZooKeeperReader) -> list[PartitionSeen]:
    (names,) = reader.children([znodes.TOPICS])
    topics = {
        name: said
        for name, node in zip(names, reader.get_all(map(znodes.topic_path, names)), strict=True)
        if node is not None and (said := znodes.parse_topic(node.data)) is not None
    }
    wanted = [(name, number) for name, topic in topics.items() for number in sorted(topic.partitions)]
    states = reader.get_all(znodes.state_path(name, number) for name, number in wanted)
    found = []
    for (name, number), node in zip(wanted, states, strict=True):
        assigned = topics[name].partitions[number]
        state = None if node is None else znodes.parse_state(node.data, node.version)
        # A topic that was just made, or is about to go, has no state.
        leader, epoch, isr = (NO_LEADER, -1, ()) if state is None else (state.leader, state.leader_epoch, state.isr)
        found.append(PartitionSeen(name, number, leader, epoch, isr, assigned.replicas, assigned.is_reassigned))
    return found

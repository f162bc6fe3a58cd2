"""Brokers that come, go, bounce, or move: the children of /brokers/ids and what is in them.

A broker that starts is sent the whole state, its replicas come online, and partitions without a leader get an election. One that fails
leaves every ISR, and its partitions get another leader. One that restarted between two looks (same id, later epoch) is treated as failed
first: it may have lost what was not on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.controller_parts import ControllerParts
from milepost.cluster.controller.reassignment import Reassignment
from milepost.cluster.controller.states import PartitionStatus, ReplicaStatus
from milepost.cluster.controller.topic_deletion import TopicDeletion
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Children, Get
from milepost.cluster.zookeeper.session import Steps
from milepost.replica.metadata import BrokerInfo

logger = logging.getLogger("milepost.cluster")


def read_brokers(known: Mapping[int, BrokerInfo]) -> Steps[dict[int, BrokerInfo]]:
    """Those that are registered, each watched. One whose znode makes no sense is what it was, if it is known, and absent if it is not."""
    (listed,) = yield [Children(znodes.BROKER_IDS, watch=True)]
    ids = sorted(int(name) for name in listed.children if name.isdigit())
    answers = yield [Get(znodes.broker_path(broker_id), watch=True) for broker_id in ids]
    found = {}
    for broker_id, answer in zip(ids, answers, strict=True):
        node = znodes.parse_broker(answer.data) if answer.ok else None
        if node is not None and answer.stat is not None:
            found[broker_id] = BrokerInfo(broker_id, answer.stat.czxid, node.endpoints, node.rack)
        elif answer.stat is not None and broker_id in known and known[broker_id].epoch == answer.stat.czxid:
            found[broker_id] = known[broker_id]
    return found


class BrokerChanges:
    def __init__(self, parts: ControllerParts, deletion: TopicDeletion, reassignment: Reassignment):
        self.parts = parts
        self.context = parts.context
        self.deletion = deletion
        self.reassignment = reassignment

    def changed(self) -> Steps[None]:
        """The list of brokers, or one of them, is not what it was."""
        current = yield from read_brokers(self.context.brokers)
        known = self.context.brokers
        gone = known.keys() - current.keys()
        bounced = {each for each in known.keys() & current.keys() if current[each].epoch > known[each].epoch}
        came = (current.keys() - known.keys()) | bounced
        moved = {each for each in known.keys() & current.keys() if each not in bounced and current[each] != known[each]}
        for broker_id in gone | bounced:
            del self.context.brokers[broker_id]
            self.parts.channels.remove(broker_id)
        if gone or bounced:
            yield from self._failed(gone | bounced)
        for broker_id in sorted(came | moved):
            self.context.brokers[broker_id] = current[broker_id]
            self.parts.channels.remove(broker_id)
            self.parts.channels.add(current[broker_id])
        if came:
            yield from self._started(came)
        if moved:
            self.parts.requests.update_all_brokers()
            self.parts.requests.send()

    def _started(self, broker_ids: set[int]) -> Steps[None]:
        logger.info("brokers started: %s", sorted(broker_ids))
        requests = self.parts.requests
        for broker_id in broker_ids:
            self.context.offline_directories.pop(broker_id, None)
        requests.tell(self.context.brokers.keys() - broker_ids)
        requests.send()
        requests.tell(broker_ids, self.context.partitions)
        requests.send()
        replicas = self.context.replicas_on(broker_ids)
        doomed = self.context.deletion_started
        yield from self.parts.replicas.change(
            [each for each in replicas if each.partition.topic not in doomed], ReplicaStatus.ONLINE
        )
        yield from self.parts.partitions.elect_for_leaderless()
        yield from self.reassignment.resume_for_brokers(broker_ids)
        yield from self.deletion.resume_for(self.context.topics_with_replicas(replicas) & self.context.deleting)

    def _failed(self, broker_ids: set[int]) -> Steps[None]:
        logger.info("brokers failed: %s", sorted(broker_ids))
        for broker_id in broker_ids:
            self.context.offline_directories.pop(broker_id, None)
        self.context.shutting_down -= broker_ids
        yield from self.replicas_lost(self.context.replicas_on(broker_ids))

    def replicas_lost(self, replicas: Iterable[Replica]) -> Steps[None]:
        """Their broker or its directory failed."""
        lost = list(replicas)
        doomed = [each for each in lost if each.partition.topic in self.context.deleting]
        kept = [each for each in lost if each.partition.topic not in self.context.deleting]
        leaderless = [
            partition
            for partition, state in self.context.leadership.items()
            if not self.context.is_online(state.leader, partition)
            and not self.context.is_deleting(partition)
            and self.context.partition_status.get(partition) is PartitionStatus.ONLINE
        ]
        yield from self.parts.partitions.change(leaderless, PartitionStatus.OFFLINE)
        yield from self.parts.partitions.elect_for_leaderless()
        yield from self.parts.replicas.change(kept, ReplicaStatus.OFFLINE)
        if doomed:
            yield from self.deletion.fail(doomed)
        if not leaderless:
            self.parts.requests.update_all_brokers()
            self.parts.requests.send()

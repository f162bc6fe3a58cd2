"""Brokers that come, go, bounce, or move: the children of /brokers/ids and what is in them.

A broker that comes is told everything, its replicas come online, partitions without a leader are tried again. One that goes is taken out of
all in-sync replicas, and what it led gets another leader. One that went and came back between two looks (same id, later epoch) is treated
as gone first: it may have lost what was not on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.office import Office
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
    def __init__(self, office: Office, deletion: TopicDeletion, reassignment: Reassignment):
        self.office = office
        self.context = office.context
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
            self.office.channels.remove(broker_id)
        if gone or bounced:
            yield from self._failed(gone | bounced)
        for broker_id in sorted(came | moved):
            self.context.brokers[broker_id] = current[broker_id]
            self.office.channels.remove(broker_id)
            self.office.channels.add(current[broker_id])
        if came:
            yield from self._started(came)
        if moved:
            self.office.requests.tell_everybody()
            self.office.requests.send()

    def _started(self, broker_ids: set[int]) -> Steps[None]:
        logger.info("brokers came: %s", sorted(broker_ids))
        requests = self.office.requests
        for broker_id in broker_ids:
            self.context.offline_directories.pop(broker_id, None)
        requests.tell(self.context.brokers.keys() - broker_ids)
        requests.send()
        requests.tell(broker_ids, self.context.partitions)
        requests.send()
        replicas = self.context.replicas_on(broker_ids)
        doomed = self.context.deletion_started
        yield from self.office.replicas.change(
            [each for each in replicas if each.partition.topic not in doomed], ReplicaStatus.ONLINE
        )
        yield from self.office.partitions.elect_for_leaderless()
        yield from self.reassignment.resume_for_brokers(broker_ids)
        yield from self.deletion.resume_for(self.context.topics_with_replicas(replicas) & self.context.deleting)

    def _failed(self, broker_ids: set[int]) -> Steps[None]:
        logger.info("brokers went: %s", sorted(broker_ids))
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
        yield from self.office.partitions.change(leaderless, PartitionStatus.OFFLINE)
        yield from self.office.partitions.elect_for_leaderless()
        yield from self.office.replicas.change(kept, ReplicaStatus.OFFLINE)
        if doomed:
            yield from self.deletion.fail(doomed)
        if not leaderless:
            self.office.requests.tell_everybody()
            self.office.requests.send()

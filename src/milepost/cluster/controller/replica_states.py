"""What a replica goes through, and what is done on the way: see `states` for the table.

New                   it is sent LeaderAndIsr, as a new replica
Online                from New: it is on the list of replicas; else it is sent who leads
Offline               it is stopped and leaves the ISR (the last one stays); the other replicas are sent the new ISR
DeletionStarted       it is sent StopReplica with delete
DeletionSuccessful, DeletionIneligible
NonExistent           it is off the list of replicas
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from milepost.cluster.controller.broker_requests import BrokerRequests
from milepost.cluster.controller.context import ControllerContext, Replica
from milepost.cluster.controller.partition_store import read_states, write_states
from milepost.cluster.controller.states import REPLICA_BEFORE, ReplicaStatus
from milepost.cluster.zookeeper.session import Steps
from milepost.cluster.zookeeper.znodes import PartitionState
from milepost.replica.metadata import NO_LEADER
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")


class ReplicaStates:
    def __init__(self, context: ControllerContext, requests: BrokerRequests):
        self.context = context
        self.requests = requests

    def start(self) -> Steps[None]:
        """Initialize the state of every replica; those of live brokers are sent who leads, the others leave the ISR."""
        online, offline = [], []
        for partition in self.context.partitions:
            for broker_id in self.context.replicas_of(partition):
                replica = Replica(partition, broker_id)
                if self.context.is_online(broker_id, partition):
                    self.context.replica_status[replica] = ReplicaStatus.ONLINE
                    online.append(replica)
                else:
                    self.context.replica_status[replica] = ReplicaStatus.DELETION_INELIGIBLE
                    offline.append(replica)
        yield from self.change(online, ReplicaStatus.ONLINE)
        yield from self.change(offline, ReplicaStatus.OFFLINE)

    def change(self, replicas: Iterable[Replica], target: ReplicaStatus) -> Steps[None]:
        """Bring replicas into a state, and send it to the brokers."""
        allowed = [replica for replica in replicas if self._may_become(replica, target)]
        if target is ReplicaStatus.OFFLINE:
            yield from self._go_offline(allowed)
        else:
            for replica in allowed:
                self._change(replica, target)
        self.requests.send()

    def _may_become(self, replica: Replica, target: ReplicaStatus) -> bool:
        current = self.context.replica_status.get(replica, ReplicaStatus.NON_EXISTENT)
        if current in REPLICA_BEFORE[target]:
            return True
        logger.error(
            "replica %d of %s is %s and cannot become %s", replica.broker_id, replica.partition, current.value, target.value
        )
        return False

    def _change(self, replica: Replica, target: ReplicaStatus) -> None:
        partition, broker_id = replica
        known = self.context.leadership.get(partition)
        was = self.context.replica_status.get(replica)
        if target is ReplicaStatus.NON_EXISTENT:
            assignment = self.context.assignment(partition)
            kept = tuple(each for each in assignment.replicas if each != broker_id)
            self.context.assign(partition, assignment._replace(replicas=kept))
            self.context.replica_status.pop(replica, None)
            return
        if target is ReplicaStatus.NEW and known is not None:
            if known.leader == broker_id:
                logger.error("replica %d of %s is new and cannot be its leader", broker_id, partition)
                return
            self._tell([broker_id], partition, known, is_new=True)
        elif target is ReplicaStatus.ONLINE and was is not ReplicaStatus.NEW and known is not None:
            self._tell([broker_id], partition, known, is_new=False)
        elif target is ReplicaStatus.DELETION_STARTED:
            self.requests.stop(broker_id, partition, delete=True)
        self.context.replica_status[replica] = target

    def _tell(self, broker_ids: Iterable[int], partition: TopicPartition, state: PartitionState, *, is_new: bool) -> None:
        self.requests.lead_and_follow(broker_ids, partition, state, self.context.assignment(partition), is_new=is_new)

    # Offline.

    def _go_offline(self, replicas: list[Replica]) -> Steps[None]:
        for replica in replicas:
            self.requests.stop(replica.broker_id, replica.partition, delete=False)
        led = [replica for replica in replicas if replica.partition in self.context.leadership]
        # One broker after the other: two replicas of one partition may be among them.
        for broker_id in dict.fromkeys(replica.broker_id for replica in led):
            partitions = [replica.partition for replica in led if replica.broker_id == broker_id]
            changed = yield from self._leave_isr(broker_id, partitions)
            for partition, state in changed.items():
                if not self.context.is_deleting(partition):
                    others = [each for each in self.context.replicas_of(partition) if each != broker_id]
                    self._tell(others, partition, state, is_new=False)
        for replica in replicas:
            if replica.partition not in self.context.leadership:
                self.requests.update_all_brokers([replica.partition])
            self.context.replica_status[replica] = ReplicaStatus.OFFLINE

    def _leave_isr(self, broker_id: int, partitions: list[TopicPartition]) -> Steps[dict[TopicPartition, PartitionState]]:
        """Take a broker out of the in-sync replicas in ZooKeeper. The last one stays: it alone has everything."""
        changed: dict[TopicPartition, PartitionState] = {}
        remaining = partitions
        while remaining:
            found = yield from read_states(remaining)
            wanted = {}
            for partition, state in found.items():
                if state.controller_epoch > self.context.term.epoch:
                    logger.error("partition %s was written in controller epoch %d", partition, state.controller_epoch)
                    continue
                if broker_id in state.isr:
                    wanted[partition] = without(state, broker_id, self.context.term.epoch)
                else:
                    changed[partition] = state
            if not wanted:
                break
            written = yield from write_states(self.context.term, wanted)
            changed |= written.done
            remaining = written.conflicts
        self.context.leadership |= changed
        return changed


def without(state: PartitionState, broker_id: int, controller_epoch: int) -> PartitionState:
    return state._replace(
        leader=NO_LEADER if state.leader == broker_id else state.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=state.isr if len(state.isr) == 1 else tuple(each for each in state.isr if each != broker_id),
        controller_epoch=controller_epoch,
    )

"""How a topic is deleted: every replica first, and only then the topic itself.

    1  All brokers are sent leader -2: the topic leaves their metadata.
    2  Its replicas are stopped (Offline), then sent StopReplica with delete (DeletionStarted).
    3  When all have said that they did (DeletionSuccessful), the znodes go from the leaves up, /admin/delete_topics/T last.

A replica that is down, or that fails to delete, makes the topic ineligible: it is tried again when that broker is back. A topic that is
being reassigned waits, too. /admin/delete_topics remembers what is to be deleted over a change of controllers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.controller_parts import ControllerParts
from milepost.cluster.controller.states import PartitionStatus, ReplicaStatus
from milepost.cluster.controller_election import delete_notes, write_until_answered
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Children, Delete
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper
from milepost.cluster.zookeeper.session import Steps
from milepost.protocol.messages import StopReplicaRequest
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")

D = ReplicaStatus


class TopicDeletion:
    def __init__(self, parts: ControllerParts):
        self.parts = parts
        self.context = parts.context

    def enqueue(self, topics: Iterable[str]) -> Steps[None]:
        """Topics that are marked for deletion."""
        wanted = set(topics)
        unknown = wanted - self.context.topic_ids.keys()
        if unknown:
            yield from delete_notes(self.parts.term, [znodes.delete_topic_path(topic) for topic in sorted(unknown)])
        wanted -= unknown
        if not self.parts.settings.delete_topic_enable:
            yield from delete_notes(self.parts.term, [znodes.delete_topic_path(topic) for topic in sorted(wanted)])
            return
        self.context.deleting |= wanted
        for partition in self.context.reassigned:
            if partition.topic in wanted:
                self.context.ineligible.add(partition.topic)
        yield from self.resume()

    def make_ineligible(self, topics: Iterable[str]) -> None:
        self.context.ineligible |= self.context.deleting & set(topics)

    def resume_for(self, topics: Iterable[str]) -> Steps[None]:
        """What held these up is over."""
        self.context.ineligible -= set(topics)
        yield from self.resume()

    def fail(self, replicas: Iterable[Replica]) -> Steps[None]:
        """These could not be deleted now: their brokers are gone, or said so."""
        failed = [replica for replica in replicas if replica.partition.topic in self.context.deleting]
        started = [each for each in failed if self.context.replica_status.get(each) in (D.DELETION_STARTED, D.OFFLINE)]
        yield from self.parts.replicas.change(started, D.DELETION_INELIGIBLE)
        self.make_ineligible(replica.partition.topic for replica in failed)

    def answered(self, broker_id: int, request: StopReplicaRequest, response: Any) -> Steps[None]:
        """A broker's answer to StopReplica. One from an earlier registration says nothing about requests since then."""
        known = self.context.brokers.get(broker_id)
        if known is None or known.epoch != request.broker_epoch:
            return
        deleted = deleted_in(request)
        errors = {TopicPartition(each.topic_name, each.partition_index): each.error_code for each in response.partition_errors}
        done: list[Replica] = []
        failed: list[Replica] = []
        for partition in deleted:
            replica = Replica(partition, broker_id)
            if self.context.replica_status.get(replica) is D.DELETION_STARTED:
                code = response.error_code or errors.get(partition, 0)
                (failed if code else done).append(replica)
        yield from self.fail(failed)
        yield from self.parts.replicas.change(done, D.DELETION_SUCCESSFUL)
        yield from self.resume()

    def resume(self) -> Steps[None]:
        """Go on with every topic that can."""
        for topic in sorted(self.context.deleting):
            replicas = self.context.replicas_of_topic(topic)
            states = {self.context.replica_status.get(replica, D.NON_EXISTENT) for replica in replicas}
            if states <= {D.DELETION_SUCCESSFUL}:
                try:
                    yield from self._complete(topic)
                except RefusedByZooKeeper as refused:
                    logger.error("topic %s is gone from all brokers and stays in ZooKeeper: %s", topic, refused)
            elif D.DELETION_STARTED not in states:
                again = [each for each in replicas if self.context.replica_status.get(each) is D.DELETION_INELIGIBLE]
                if topic not in self.context.ineligible:
                    if again:
                        yield from self.parts.replicas.change(again, D.OFFLINE)
                    yield from self._begin(topic)

    def _begin(self, topic: str) -> Steps[None]:
        partitions = self.context.partitions_of(topic)
        if topic not in self.context.deletion_started:
            self.context.deletion_started.add(topic)
            self.parts.requests.update_all_brokers(partitions)
            self.parts.requests.send()
        replicas = self.context.replicas_of_topic(topic)
        alive = [each for each in replicas if self.context.is_reachable(each.broker_id, each.partition)]
        dead = [each for each in replicas if each not in alive]
        status = self.context.replica_status
        yield from self.parts.replicas.change([each for each in dead if status.get(each) is D.OFFLINE], D.DELETION_INELIGIBLE)
        waiting = [each for each in alive if status.get(each) is not D.DELETION_SUCCESSFUL]
        yield from self.parts.replicas.change(waiting, D.OFFLINE)
        yield from self.parts.replicas.change(waiting, D.DELETION_STARTED)
        if dead:
            self.context.ineligible.add(topic)

    def _complete(self, topic: str) -> Steps[None]:
        partitions = self.context.partitions_of(topic)
        yield from self.parts.replicas.change(self.context.replicas_of_topic(topic), D.NON_EXISTENT)
        yield from self.parts.partitions.change(partitions, PartitionStatus.OFFLINE)
        yield from self.parts.partitions.change(partitions, PartitionStatus.NON_EXISTENT)
        # What lies in ZooKeeper now counts, not what we know: it must be empty before the node above can go.
        (below,) = yield [Children(znodes.partitions_path(topic))]
        paths = []
        for number in sorted(below.children, key=lambda name: (len(name), name)):
            paths += [f"{znodes.partitions_path(topic)}/{number}/state", f"{znodes.partitions_path(topic)}/{number}"]
        paths += [znodes.partitions_path(topic), znodes.topic_path(topic)]
        paths += [znodes.config_path("topics", topic), znodes.delete_topic_path(topic)]
        yield from self._delete(paths)
        self.context.forget_topic(topic)
        logger.info("topic %s is deleted", topic)

    def _delete(self, paths: list[str]) -> Steps[None]:
        yield from write_until_answered(self.parts.term, [Delete(path) for path in paths])


def deleted_in(request: StopReplicaRequest) -> list[TopicPartition]:
    """The partitions that a StopReplica asks to delete, in every version of it."""
    if request.topic_states:
        return [
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
            if state.delete_partition
        ]
    if not request.delete_partitions:
        return []
    return [TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes]

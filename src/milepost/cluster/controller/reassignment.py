"""How a partition moves to other brokers (KIP-455): the new replicas join, catch up, and only then do the old ones go.

    begin     the topic's znode lists old and new replicas together, with what is added and what is removed
    A         while a target replica is not in sync: the leader epoch rises, old and new replicas get LeaderAndIsr, the new ones start
    B         all targets are in sync: the new ones are online; a leader among the targets; the old ones leave the in-sync replicas and
              are deleted; the topic's znode lists the targets alone
    cancel    the same, back to the replicas there were

What is in the znode is all there is to remember: another controller goes on where this one stopped. A topic that is deleted
meanwhile moves first and goes then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.controller_parts import ControllerParts
from milepost.cluster.controller.partition_store import read_states, write_states
from milepost.cluster.controller.states import PartitionStatus, ReplicaStatus
from milepost.cluster.controller.topic_deletion import TopicDeletion
from milepost.cluster.controller_election import write_until_answered
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import SetData
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper
from milepost.cluster.zookeeper.session import Steps
from milepost.cluster.zookeeper.znodes import Assignment, TopicNode
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.metadata import NO_LEADER
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")

Answer = tuple[int, str | None]


def towards(current: Assignment, target: tuple[int, ...]) -> Assignment:
    """From wherever the partition is now to `target`: targets first, then what is left of the origin."""
    origin = current.origin
    everything = tuple(dict.fromkeys((*target, *origin)))
    return Assignment(
        everything,
        adding=tuple(each for each in everything if each not in origin),
        removing=tuple(each for each in everything if each not in target),
    )


class Reassignment:
    def __init__(self, parts: ControllerParts, deletion: TopicDeletion):
        self.parts = parts
        self.deletion = deletion
        self.context = parts.context

    # Asking.

    def alter(self, wanted: Mapping[TopicPartition, tuple[int, ...] | None]) -> Steps[dict[TopicPartition, Answer]]:
        """Start moving each partition to the replicas named, or go back (None)."""
        answers: dict[TopicPartition, Answer] = {}
        for partition, target in wanted.items():
            current = self.context.assignment(partition)
            fault = self._fault(partition, current, target)
            if fault is not None:
                answers[partition] = fault
                continue
            try:
                yield from self._begin(partition, current, towards(current, current.origin if target is None else target))
                answers[partition] = (0, None)
            except RefusedByZooKeeper as refused:
                logger.error("partition %s is not reassigned: %s", partition, refused)
                answers[partition] = (ErrorCode.UNKNOWN_SERVER_ERROR, str(refused))
        return answers

    def _fault(self, partition: TopicPartition, current: Assignment, target: tuple[int, ...] | None) -> Answer | None:
        if not current.replicas or self.context.is_deleting(partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}"
        if target is None:
            if current.is_reassigned:
                return self._loss(partition, towards(current, current.origin))
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"partition {partition} is not being reassigned"
        if not target or len(set(target)) != len(target) or min(target) < 0:
            return (
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(target)} of {partition}: at least one, each once, none negative",
            )
        dead = [each for each in target if each not in self.context.brokers and each not in current.replicas]
        if dead:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(target)} of {partition}: {dead} are not alive"
        return self._loss(partition, towards(current, target))

    def _loss(self, partition: TopicPartition, reassignment: Assignment) -> Answer | None:
        """Stricter than Kafka: what a change of plans would drop at once may be all that has the records."""
        known = self.context.leadership.get(partition)
        if known is None or set(known.isr) & set(reassignment.replicas):
            return None
        return (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{partition}: only {list(known.isr)} are in sync, and none of them would be kept; wait until another one is",
        )

    # Moving.

    def _begin(self, partition: TopicPartition, current: Assignment, reassignment: Assignment) -> Steps[None]:
        if current != reassignment:
            yield from self._write(partition, reassignment)
            unneeded = [each for each in current.replicas if each not in reassignment.replicas]
            yield from self._stop(partition, unneeded)
            known = self.context.leadership.get(partition)
            if unneeded and known is not None and known.leader == NO_LEADER:
                yield from self.parts.partitions.change([partition], PartitionStatus.ONLINE)
        yield from self.progress(partition)

    def progress(self, partition: TopicPartition) -> Steps[None]:
        """Go on with one partition, as far as its in-sync replicas allow."""
        assignment = self.context.assignment(partition)
        if not assignment.is_reassigned or partition.topic in self.context.deletion_started:
            return
        found = yield from read_states([partition])
        if partition not in found:
            return
        self.context.leadership[partition] = found[partition]
        if set(assignment.target) <= set(found[partition].isr):
            yield from self._finish(partition, assignment)
        else:
            yield from self._raise_epoch(partition, assignment)
            status = self.context.replica_status
            new = [Replica(partition, each) for each in assignment.adding]
            yield from self.parts.replicas.change([each for each in new if each not in status], ReplicaStatus.NEW)

    def progress_if_complete(self, partition: TopicPartition) -> Steps[None]:
        """The in-sync replicas changed: nothing to do until all targets are among them."""
        known = self.context.leadership.get(partition)
        if known is not None and set(self.context.assignment(partition).target) <= set(known.isr):
            yield from self.progress(partition)

    def _raise_epoch(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        while True:
            found = yield from read_states([partition])
            if partition not in found:
                return
            state = found[partition]._replace(
                leader_epoch=found[partition].leader_epoch + 1, controller_epoch=self.parts.term.epoch
            )
            written = yield from write_states(self.parts.term, {partition: state})
            if partition in written.refused:
                raise written.refused[partition]
            if partition in written.done:
                break
        self.context.leadership[partition] = written.done[partition]
        for broker_id in assignment.replicas:
            # A new replica may be put into any directory; one that was there must not begin anew in another.
            is_new = broker_id in assignment.adding
            self.parts.requests.lead_and_follow([broker_id], partition, written.done[partition], assignment, is_new=is_new)
        self.parts.requests.send()

    def _finish(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        status = self.context.replica_status
        added = [Replica(partition, each) for each in assignment.adding]
        yield from self.parts.replicas.change(
            [each for each in added if status.get(each) is ReplicaStatus.NEW], ReplicaStatus.ONLINE
        )
        final = Assignment(assignment.target)
        self.context.assign(partition, final)
        leader = self.context.leadership[partition].leader
        if leader in final.replicas and self.context.is_online(leader, partition):
            yield from self._raise_epoch(partition, final)
        else:
            yield from self.parts.partitions.change(
                [partition], PartitionStatus.ONLINE, self.parts.partitions.reassignment_election
            )
        yield from self._stop(partition, assignment.removing)
        yield from self._write(partition, final)
        self.parts.requests.update_all_brokers([partition])
        self.parts.requests.send()
        logger.info("partition %s is now on %s", partition, list(final.replicas))
        topic = partition.topic
        if topic in self.context.deleting and all(each.topic != topic for each in self.context.reassigned):
            yield from self.deletion.resume_for([topic])

    def _stop(self, partition: TopicPartition, broker_ids: Iterable[int]) -> Steps[None]:
        """Replicas that are no longer wanted. Nobody waits for their answers."""
        replicas = [Replica(partition, each) for each in broker_ids if Replica(partition, each) in self.context.replica_status]
        if replicas:
            for target in (
                ReplicaStatus.OFFLINE,
                ReplicaStatus.DELETION_STARTED,
                ReplicaStatus.DELETION_SUCCESSFUL,
                ReplicaStatus.NON_EXISTENT,
            ):
                yield from self.parts.replicas.change(replicas, target)

    def _write(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        """Into ZooKeeper first: what it refuses is not believed here."""
        topic = partition.topic
        node = TopicNode({**self.context.assignments[topic], partition.partition: assignment}, self.context.topic_ids.get(topic))
        data = znodes.topic(node, self.parts.settings.versions.topic_znode)
        yield from write_until_answered(self.parts.term, [SetData(znodes.topic_path(topic), data)])
        self.context.assign(partition, assignment)

    # Going on.

    def resume_all(self) -> Steps[None]:
        for partition in self.context.reassigned:
            yield from self.progress(partition)

    def resume_for_brokers(self, broker_ids: Iterable[int]) -> Steps[None]:
        """Those that wait for one of these brokers."""
        wanted = set(broker_ids)
        for partition in self.context.reassigned:
            if wanted & set(self.context.assignment(partition).target):
                yield from self.progress(partition)

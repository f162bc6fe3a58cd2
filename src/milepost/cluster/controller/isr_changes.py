"""In-sync replicas that leaders want changed: asked for by AlterPartition, or written by the leader itself in older clusters.

The leader says which state it knows (leader epoch and partition epoch); only if that is the state there is, its proposal is written. The
answer and an UpdateMetadata to all brokers follow; no LeaderAndIsr is needed, because the leader stays.

| what the leader says | answer |
|---|---|
| a broker epoch that is not its own | 77 STALE_BROKER_EPOCH, for the request |
| an unknown topic id or partition | 100 UNKNOWN_TOPIC_ID, 3 UNKNOWN_TOPIC_OR_PARTITION |
| an epoch newer than ours | 41 NOT_CONTROLLER: ask the one that knows more |
| an older leader epoch | 74 FENCED_LEADER_EPOCH |
| just what there is | 0, and that state |
| an older partition epoch | 95 INVALID_UPDATE_VERSION |
| a replica that is not alive, or is leaving | 107 INELIGIBLE_REPLICA; before version 2 55 OPERATION_NOT_ATTEMPTED |
| a replica with another broker epoch than it is registered with (KIP-903; Kafka looks at it without ZooKeeper only) | the same |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from milepost.cluster.controller.controller_parts import ControllerParts
from milepost.cluster.controller.partition_store import read_states, write_states
from milepost.cluster.controller.reassignment import Reassignment
from milepost.cluster.controller_election import delete_notes
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Children, Get
from milepost.cluster.zookeeper.session import Steps
from milepost.cluster.zookeeper.znodes import PartitionState
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.remote_replica import NO_BROKER_EPOCH
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")


class Proposal(NamedTuple):
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool = False
    epochs: tuple[int, ...] = ()
    """The broker epochs of the replicas in `isr`, in the same order; -1 for one that is not known, none before version 3."""


class Verdict(NamedTuple):
    error: int
    state: PartitionState | None = None


class IsrChanges:
    def __init__(self, parts: ControllerParts, reassignment: Reassignment):
        self.parts = parts
        self.context = parts.context
        self.reassignment = reassignment

    def alter(
        self, broker_id: int, broker_epoch: int, proposals: Mapping[TopicPartition, Proposal], *, version: int
    ) -> Steps[tuple[int, dict[TopicPartition, Verdict]]]:
        """The error of the whole request, and the verdict on each partition."""
        known = self.context.brokers.get(broker_id)
        if known is None or known.epoch != broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH, {}
        verdicts: dict[TopicPartition, Verdict] = {}
        accepted: dict[TopicPartition, PartitionState] = {}
        for partition, proposal in proposals.items():
            verdict = self._judge(partition, proposal, version)
            if verdict.error == 0 and verdict.state != self.context.leadership[partition]:
                assert verdict.state is not None
                accepted[partition] = verdict.state
            else:
                verdicts[partition] = verdict
        if accepted:
            written = yield from write_states(self.parts.term, accepted)
            self.context.leadership |= written.done
            verdicts |= {partition: Verdict(0, state) for partition, state in written.done.items()}
            verdicts |= {
                partition: Verdict(ErrorCode.INVALID_UPDATE_VERSION) for partition in accepted if partition not in verdicts
            }
            verdicts |= {partition: Verdict(ErrorCode.UNKNOWN_SERVER_ERROR) for partition in written.refused}
            self.context.leadership |= yield from read_states(written.conflicts)
            self.parts.requests.update_all_brokers(written.done)
            self.parts.requests.send()
        return 0, {partition: verdicts[partition] for partition in proposals}

    def go_on_moving(self, partitions: list[TopicPartition]) -> Steps[None]:
        """After the answer: a replica that came in sync may be what a reassignment waits for."""
        for partition in partitions:
            if self.context.assignment(partition).is_reassigned:
                yield from self.reassignment.progress_if_complete(partition)

    def _judge(self, partition: TopicPartition, proposal: Proposal, version: int) -> Verdict:
        current = self.context.leadership.get(partition)
        if current is None:
            return Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if proposal.partition_epoch > current.partition_epoch or proposal.leader_epoch > current.leader_epoch:
            return Verdict(ErrorCode.NOT_CONTROLLER)
        if proposal.leader_epoch < current.leader_epoch:
            return Verdict(ErrorCode.FENCED_LEADER_EPOCH)
        if set(proposal.isr) == set(current.isr) and proposal.is_recovering == current.is_recovering:
            return Verdict(0, current)
        if proposal.partition_epoch < current.partition_epoch:
            return Verdict(ErrorCode.INVALID_UPDATE_VERSION)
        if proposal.is_recovering and (not current.is_recovering or len(proposal.isr) > 1):
            return Verdict(ErrorCode.INVALID_REQUEST)
        newcomers = [each for each in proposal.isr if each not in current.isr]
        if any(not self.context.is_online(each, partition) for each in newcomers) or self._has_earlier_life(proposal):
            return Verdict(ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED)
        return Verdict(
            0,
            current._replace(isr=proposal.isr, controller_epoch=self.parts.term.epoch, is_recovering=proposal.is_recovering),
        )

    def _has_earlier_life(self, proposal: Proposal) -> bool:
        """Whether the leader speaks of a replica whose broker has registered anew since, perhaps with less in its log."""
        brokers = self.context.brokers
        return any(
            epoch != NO_BROKER_EPOCH and each in brokers and brokers[each].epoch != epoch
            for each, epoch in zip(proposal.isr, proposal.epochs, strict=False)
        )

    def notified(self) -> Steps[None]:
        """Leaders of an older cluster wrote their states and a notification."""
        (listed,) = yield [Children(znodes.ISR_CHANGES, watch=True)]
        paths = [f"{znodes.ISR_CHANGES}/{name}" for name in sorted(listed.children)]
        if not paths:
            return
        answers = yield [Get(path) for path in paths]
        partitions = dict.fromkeys(
            TopicPartition(*each) for answer in answers if answer.ok for each in znodes.parse_partition_list(answer.data) or ()
        )
        known = [partition for partition in partitions if partition in self.context.leadership]
        self.context.leadership |= yield from read_states(known)
        self.parts.requests.update_all_brokers(known)
        self.parts.requests.send()
        yield from delete_notes(self.parts.term, paths)
        yield from self.go_on_moving(known)

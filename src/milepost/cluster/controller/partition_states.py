"""What a partition goes through, and what is done on the way: see `states` for the table.

    New      nothing is written
    Online   from New: the first leader is the first live replica, all live ones are in sync, and the state's znode is made;
             from Online or Offline: a leader is elected, its epoch rises, the znode is written over the version that was read
    Offline  nothing is written; the replicas' own changes say what became of their leader
    NonExistent

All changes of one call are decided together, written in one round trip for each step, and told to the brokers in one batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from milepost.cluster.controller import leader_elections
from milepost.cluster.controller.broker_requests import BrokerRequests
from milepost.cluster.controller.context import ControllerContext
from milepost.cluster.controller.leader_elections import Choice
from milepost.cluster.controller.partition_store import create_states, read_states, write_states
from milepost.cluster.controller.states import PARTITION_BEFORE, PartitionStatus
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Get
from milepost.cluster.zookeeper.refusals import log_refusals, refusal
from milepost.cluster.zookeeper.session import Separately, Steps
from milepost.cluster.zookeeper.znodes import PartitionState
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")

Election = Callable[[TopicPartition, PartitionState], Choice | None]
Outcome = dict[TopicPartition, int]
"""The error code of each partition that was to change; 0 if it did."""


class PartitionStates:
    def __init__(self, context: ControllerContext, requests: BrokerRequests, *, unclean_by_default: Callable[[], bool]):
        self.context = context
        self.requests = requests
        self.unclean_by_default = unclean_by_default

    # Starting.

    def start(self) -> Steps[None]:
        """Take stock of every partition, and elect leaders for those that have none."""
        for partition in self.context.partitions:
            known = self.context.leadership.get(partition)
            if known is None:
                status = PartitionStatus.NEW
            elif self.context.is_online(known.leader, partition):
                status = PartitionStatus.ONLINE
            else:
                status = PartitionStatus.OFFLINE
            self.context.partition_status[partition] = status
        yield from self.elect_for_leaderless()

    def elect_for_leaderless(self, topics: Iterable[str] | None = None) -> Steps[None]:
        """Try those that are new or offline, and not about to be deleted."""
        chosen = set(topics) if topics is not None else None
        leaderless = [
            partition
            for partition, status in self.context.partition_status.items()
            if status in (PartitionStatus.NEW, PartitionStatus.OFFLINE)
            and not self.context.is_deleting(partition)
            and (chosen is None or partition.topic in chosen)
        ]
        unclean = yield from self._unclean_topics(leaderless)
        yield from self.change(leaderless, PartitionStatus.ONLINE, self.offline_election(unclean))

    # Elections.

    def offline_election(self, unclean_topics: set[str]) -> Election:
        def elect(partition: TopicPartition, state: PartitionState) -> Choice | None:
            live = {each for each in self.context.replicas_of(partition) if self.context.is_online(each, partition)}
            return leader_elections.offline(
                self.context.replicas_of(partition), state.isr, live, unclean_allowed=partition.topic in unclean_topics
            )

        return elect

    def preferred_election(self, partition: TopicPartition, state: PartitionState) -> Choice | None:
        live = {each for each in self.context.replicas_of(partition) if self.context.is_online(each, partition)}
        return leader_elections.preferred(self.context.replicas_of(partition), state.isr, live)

    def reassignment_election(self, partition: TopicPartition, state: PartitionState) -> Choice | None:
        target = self.context.assignment(partition).target
        live = {each for each in target if self.context.is_online(each, partition)}
        return leader_elections.reassigned(target, state.isr, live)

    def shutdown_election(self, partition: TopicPartition, state: PartitionState) -> Choice | None:
        live = {each for each in self.context.replicas_of(partition) if self.context.is_reachable(each, partition)}
        return leader_elections.controlled_shutdown(
            self.context.replicas_of(partition), state.isr, live, self.context.shutting_down
        )

    def _unclean_topics(self, partitions: Iterable[TopicPartition]) -> Steps[set[str]]:
        """Topics that would rather lose records than wait, of those for which it matters now."""
        topics = sorted(
            {
                partition.topic
                for partition in partitions
                if (known := self.context.leadership.get(partition)) is not None
                and not any(self.context.is_online(each, partition) for each in known.isr)
            }
        )
        reads = [Get(znodes.config_path("topics", topic)) for topic in topics]
        answers = yield Separately(reads)
        log_refusals("no unclean election", reads, answers)
        found = set()
        for topic, read, answer in zip(topics, reads, answers, strict=True):
            if refusal(read, answer) is not None:
                continue
            settings = (znodes.parse_config(answer.data) if answer.ok else None) or {}
            wanted = settings.get("unclean.leader.election.enable")
            if self.unclean_by_default() if wanted is None else wanted.strip().lower() == "true":
                found.add(topic)
        return found

    # Changing.

    def change(
        self, partitions: Iterable[TopicPartition], target: PartitionStatus, election: Election | None = None
    ) -> Steps[Outcome]:
        """Bring partitions into a state, and send it to the brokers."""
        outcome = yield from self.change_quietly(partitions, target, election)
        self.requests.send()
        return outcome

    def change_quietly(
        self, partitions: Iterable[TopicPartition], target: PartitionStatus, election: Election | None = None
    ) -> Steps[Outcome]:
        allowed = [partition for partition in partitions if self._may_become(partition, target)]
        status = self.context.partition_status
        if target is not PartitionStatus.ONLINE:
            for partition in allowed:
                if target is PartitionStatus.NON_EXISTENT:
                    status.pop(partition, None)
                else:
                    status[partition] = target
            return dict.fromkeys(allowed, 0)
        new = [partition for partition in allowed if status.get(partition) is PartitionStatus.NEW]
        outcome = yield from self._first_leaders(new)
        others = [
            partition for partition in allowed if status.get(partition) in (PartitionStatus.ONLINE, PartitionStatus.OFFLINE)
        ]
        others = [partition for partition in others if partition not in outcome]
        outcome |= yield from self._elect(others, election or self.offline_election(set()))
        return outcome

    def _may_become(self, partition: TopicPartition, target: PartitionStatus) -> bool:
        current = self.context.partition_status.get(partition, PartitionStatus.NON_EXISTENT)
        if current in PARTITION_BEFORE[target]:
            return True
        logger.error("partition %s is %s and cannot become %s", partition, current.value, target.value)
        return False

    def _first_leaders(self, partitions: list[TopicPartition]) -> Steps[Outcome]:
        outcome: Outcome = {}
        states = {}
        for partition in partitions:
            live = tuple(each for each in self.context.replicas_of(partition) if self.context.is_online(each, partition))
            if live:
                states[partition] = PartitionState(live[0], 0, live, self.context.term.epoch)
            else:
                logger.warning("partition %s has no live replica among %s", partition, self.context.replicas_of(partition))
                outcome[partition] = ErrorCode.LEADER_NOT_AVAILABLE
        made = (yield from create_states(self.context.term, states)) if states else {}
        for partition, state in states.items():
            if partition not in made:  # another controller was there before: its state is read with the next election
                outcome[partition] = ErrorCode.INVALID_REQUEST
                continue
            self._lead(partition, state, state.isr, is_new=True)
            outcome[partition] = 0
        return outcome

    def _elect(self, partitions: list[TopicPartition], election: Election) -> Steps[Outcome]:
        outcome: Outcome = {}
        remaining = partitions
        while remaining:
            found = yield from read_states(remaining)
            chosen = {}
            for partition in remaining:
                error, state = self._choose(partition, found.get(partition), election)
                if state is None:
                    outcome[partition] = error
                else:
                    chosen[partition] = state
            if not chosen:
                break
            written = yield from write_states(self.context.term, chosen)
            for partition, state in written.done.items():
                replicas = self.context.replicas_of(partition)
                recipients = [each for each in replicas if self.context.is_reachable(each, partition)]
                self._lead(partition, state, recipients, is_new=False)
                outcome[partition] = 0
            outcome |= dict.fromkeys(written.refused, ErrorCode.UNKNOWN_SERVER_ERROR)
            remaining = written.conflicts
        return outcome

    def _choose(
        self, partition: TopicPartition, state: PartitionState | None, election: Election
    ) -> tuple[int, PartitionState | None]:
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        if state.controller_epoch > self.context.term.epoch:
            logger.error(
                "partition %s: its state was written in controller epoch %d, newer than this controller's %d",
                partition,
                state.controller_epoch,
                self.context.term.epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH, None
        choice = election(partition, state)
        if choice is None:
            self.context.leadership[partition] = state
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, None
        if choice.is_unclean:
            self.context.unclean_elections += 1
            logger.warning(
                "unclean election: %s leads %s; records that only %s had are lost", choice.leader, partition, list(state.isr)
            )
        return 0, state._replace(
            leader=choice.leader,
            leader_epoch=state.leader_epoch + 1,
            isr=choice.isr,
            controller_epoch=self.context.term.epoch,
            is_recovering=choice.is_unclean and self.requests.versions.leader_and_isr >= 6,
        )

    def _lead(self, partition: TopicPartition, state: PartitionState, recipients: Iterable[int], *, is_new: bool) -> None:
        self.context.leadership[partition] = state
        self.context.partition_status[partition] = PartitionStatus.ONLINE
        self.requests.lead_and_follow(recipients, partition, state, self.context.assignment(partition), is_new=is_new)

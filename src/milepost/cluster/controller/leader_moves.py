"""Leaders that move on request: preferred and unclean elections, controlled shutdown, the balance of leaders."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.controller_parts import ControllerParts
from milepost.cluster.controller.partition_states import Election, Outcome
from milepost.cluster.controller.states import PartitionStatus, ReplicaStatus
from milepost.cluster.zookeeper.session import Steps
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")

PREFERRED, UNCLEAN = 0, 1
"""ElectionType of ElectLeaders."""


class LeaderMoves:
    def __init__(self, parts: ControllerParts):
        self.parts = parts
        self.context = parts.context

    # On demand.

    def elect(self, partitions: Iterable[TopicPartition] | None, kind: int) -> Steps[Outcome]:
        """Of the partitions named, or of all for which it makes sense (None)."""
        named = list(self.context.partitions) if partitions is None else list(partitions)
        outcome: Outcome = {}
        wanted = []
        for partition in named:
            error = self._objection(partition, kind)
            if error == 0:
                wanted.append(partition)
            elif partitions is not None or error != ErrorCode.ELECTION_NOT_NEEDED:
                outcome[partition] = error
        election: Election
        if kind == PREFERRED:
            election, refusal = self.parts.partitions.preferred_election, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        else:
            topics = {partition.topic for partition in wanted}
            election, refusal = self.parts.partitions.offline_election(topics), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        done = yield from self.parts.partitions.change(wanted, PartitionStatus.ONLINE, election)
        replaced = {name: refusal if code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE else code for name, code in done.items()}
        return {name: outcome.get(name, replaced.get(name, 0)) for name in named if name in outcome or name in replaced}

    def _objection(self, partition: TopicPartition, kind: int) -> int:
        known = self.context.leadership.get(partition)
        if known is None or self.context.is_deleting(partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if kind == PREFERRED:
            is_needed = known.leader != self.context.replicas_of(partition)[0]
        else:
            is_needed = not self.context.is_online(known.leader, partition)
        return 0 if is_needed else ErrorCode.ELECTION_NOT_NEEDED

    # Leaving.

    def shut_down(self, broker_id: int) -> Steps[list[TopicPartition]]:
        """Move what a broker leads to others and take it out of the rest; what it still leads then."""
        self.context.shutting_down.add(broker_id)
        replicated = [
            replica.partition
            for replica in self.context.replicas_on([broker_id])
            if len(self.context.replicas_of(replica.partition)) > 1
            and replica.partition in self.context.leadership
            and not self.context.is_deleting(replica.partition)
        ]
        led = [partition for partition in replicated if self.context.leadership[partition].leader == broker_id]
        followed = [partition for partition in replicated if partition not in set(led)]
        yield from self.parts.partitions.change(led, PartitionStatus.ONLINE, self.parts.partitions.shutdown_election)
        for partition in followed:
            self.parts.requests.stop(broker_id, partition, delete=False)
        self.parts.requests.send()
        yield from self.parts.replicas.change([Replica(partition, broker_id) for partition in followed], ReplicaStatus.OFFLINE)
        return [partition for partition in replicated if self.context.leadership[partition].leader == broker_id]

    # Balance.

    def rebalance(self) -> Steps[None]:
        """Give brokers back what they should lead, where more than the allowed share has drifted away."""
        preferred: dict[int, list[TopicPartition]] = {}
        for partition in self.context.partitions:
            replicas = self.context.replicas_of(partition)
            if replicas and not self.context.is_deleting(partition):
                preferred.setdefault(replicas[0], []).append(partition)
        for broker_id, partitions in sorted(preferred.items()):
            drifted = [
                partition
                for partition in partitions
                if (known := self.context.leadership.get(partition)) is not None and known.leader != broker_id
            ]
            if len(drifted) * 100 <= len(partitions) * self.parts.settings.leader_imbalance_per_broker_percentage:
                continue
            ready = [
                partition
                for partition in drifted
                if self.context.is_online(broker_id, partition)
                and broker_id in self.context.leadership[partition].isr
                and not self.context.assignment(partition).is_reassigned
            ]
            if ready:
                logger.info(
                    "preferred leader election: broker %d takes back %d of %d partitions", broker_id, len(ready), len(partitions)
                )
                yield from self.parts.partitions.change(ready, PartitionStatus.ONLINE, self.parts.partitions.preferred_election)

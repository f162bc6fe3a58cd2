"""In-sync replicas that a leader wants changed: asked of the controller by AlterPartition, until it has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.cluster.controller.isr_changes import Proposal, Verdict
from milepost.log.log import Log
from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionRequest, AlterPartitionResponse
from milepost.replica.leadership import Confirmed, LeaderState
from milepost.replica.replicated import ReplicatedPartition

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker

VERSION = 3
RETRY_SECONDS = 0.1
RETRIED = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR)
Topic = AlterPartitionRequest.Topic


class AlterPartitionSender:
    def __init__(self, broker: SimulatedBroker):
        self.broker = broker

    def may_join(self, broker_id: int) -> bool:
        return broker_id in self.broker.metadata.brokers

    def propose(self, log: Log, state: LeaderState, isr: frozenset[int], done: Callable[[Confirmed], object]) -> None:
        broker = self.broker
        name = log.partition
        partition = broker.replicas.partition(name)
        if not isinstance(partition, ReplicatedPartition) or partition.leader_epoch != state.leader_epoch:
            return  # another leads: nobody waits for this any more
        broker.world.note(
            f"{broker.name} proposes {sorted(isr)} for {name} (epoch {state.leader_epoch}, {state.partition_epoch})"
        )

        def again(*_: Any) -> None:
            broker.process.later(RETRY_SECONDS, lambda: self.propose(log, state, isr, done))

        def answered(response: Any) -> None:
            if response.error_code in RETRIED:
                again()
                return
            (part,) = response.topics[0].partitions
            if part.error_code in RETRIED:
                again()
            else:
                broker.world.note(f"{broker.name}: {name} has {part.isr} ({part.partition_epoch}), error {part.error_code}")
                done(Confirmed(part.error_code, frozenset(part.isr), part.partition_epoch))

        controller = broker.metadata.brokers.get(broker.membership.controller_id or broker.metadata.controller_id)
        if controller is None:
            again()
            return
        request = AlterPartitionRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.membership.epoch,
            topics=[
                Topic(
                    topic_id=partition.topic_id,
                    partitions=[
                        Topic.Partition(
                            partition_index=name.partition,
                            leader_epoch=state.leader_epoch,
                            new_isr_with_epochs=[Topic.Partition.NewIsrWithEpoch(broker_id=each) for each in sorted(isr)],
                            leader_recovery_state=0,
                            partition_epoch=state.partition_epoch,
                        )
                    ],
                )
            ],
        )
        broker.peers.send(controller, request, VERSION, answered, again, purpose="to-controller")


def answer_alter_partition(broker: SimulatedBroker, request: Any, version: int, answer: Callable[[Any], object]) -> None:
    controller = broker.membership.controller
    if controller is None:
        answer(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
        return
    topics = {controller.office.requests.topic_id(topic): topic for topic in controller.context.topic_ids}
    proposals = {}
    for topic in request.topics:
        for part in topic.partitions:
            isr = tuple(each.broker_id for each in part.new_isr_with_epochs)
            name = TopicPartition(topics.get(topic.topic_id, "?"), part.partition_index)
            proposals[name] = Proposal(part.leader_epoch, isr, part.partition_epoch, part.leader_recovery_state == 1)

    def done(error: int, verdicts: dict[TopicPartition, Verdict]) -> None:
        response = AlterPartitionResponse(error_code=error, topics=[])
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                verdict = verdicts.get(TopicPartition(topics.get(topic.topic_id, "?"), part.partition_index), Verdict(0))
                answered = AlterPartitionResponse.Topic.Partition(partition_index=part.partition_index, error_code=verdict.error)
                if verdict.state is not None:
                    answered.leader_id, answered.leader_epoch = verdict.state.leader, verdict.state.leader_epoch
                    answered.isr, answered.partition_epoch = list(verdict.state.isr), verdict.state.partition_epoch
                parts.append(answered)
            response.topics.append(AlterPartitionResponse.Topic(topic_id=topic.topic_id, partitions=parts))
        answer(response)

    controller.alter_partition(request.broker_id, request.broker_epoch, proposals, version, done)

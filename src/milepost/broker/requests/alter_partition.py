"""AlterPartition (key 56): a leader asks the controller for other in-sync replicas; see `controller/isr_changes` for what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from milepost.cluster.controller.isr_changes import Proposal, Verdict
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionRequest, AlterPartitionResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.cluster.controller.controller import Controller

IDS_SINCE, EPOCHS_SINCE = 2, 3
Topic = AlterPartitionResponse.Topic


def handle(request: AlterPartitionRequest, context: Context, broker: ClusterParts) -> AlterPartitionResponse | None:
    controller = broker.controller
    if controller is None:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if request.broker_id not in controller.context.brokers or not context.speaks_for(request.broker_id):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names = [(topic, topic.topic_name or name_of(topic.topic_id, broker, controller)) for topic in request.topics]
    proposals = {
        TopicPartition(name, part.partition_index): proposal(part, context.version)
        for topic, name in names
        if name is not None
        for part in topic.partitions
    }

    def answered(error: int, verdicts: dict[TopicPartition, Verdict]) -> None:
        topics = [] if error else [answer_topic(topic, name, verdicts) for topic, name in names]
        context.answer(AlterPartitionResponse(error_code=error, topics=topics))

    controller.alter_partition(request.broker_id, request.broker_epoch, proposals, context.version, answered)
    return None


def name_of(topic_id: bytes, broker: ClusterParts, controller: Controller) -> str | None:
    """A leader may ask before the controller has told itself of a new topic."""
    found = broker.cluster.name_of(topic_id)
    if found is not None:
        return found
    requests = controller.parts.requests
    return next((topic for topic in controller.context.topic_ids if requests.topic_id(topic) == topic_id), None)


def proposal(part: AlterPartitionRequest.Topic.Partition, version: int) -> Proposal:
    isr, epochs = part.new_isr, []
    if version >= EPOCHS_SINCE:
        isr = [each.broker_id for each in part.new_isr_with_epochs]
        epochs = [each.broker_epoch for each in part.new_isr_with_epochs]
    return Proposal(part.leader_epoch, tuple(isr), part.partition_epoch, part.leader_recovery_state == 1, tuple(epochs))


def answer_topic(topic: AlterPartitionRequest.Topic, name: str | None, verdicts: Mapping[TopicPartition, Verdict]) -> Topic:
    unknown = Verdict(ErrorCode.UNKNOWN_TOPIC_ID)
    return Topic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partitions=[
            answer_partition(
                part.partition_index, unknown if name is None else verdicts[TopicPartition(name, part.partition_index)]
            )
            for part in topic.partitions
        ],
    )


def answer_partition(number: int, verdict: Verdict) -> Topic.Partition:
    if verdict.error or verdict.state is None:
        return Topic.Partition(partition_index=number, error_code=verdict.error)
    state = verdict.state
    return Topic.Partition(
        partition_index=number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=int(state.is_recovering),
        partition_epoch=state.partition_epoch,
    )

"""AlterPartition (key 56): a leader asks the controller for other in-sync replicas; see `controller/isr_changes` for what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, called_back
from milepost.cluster.controller.isr_changes import Proposal, Verdict
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionRequest, AlterPartitionResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.cluster.controller.controller import Controller

IDS_SINCE, EPOCHS_SINCE = 2, 3
Asked = AlterPartitionRequest.Topic
Topic = AlterPartitionResponse.Topic


def handle(request: AlterPartitionRequest, context: Context, broker: ClusterParts) -> Work[AlterPartitionResponse]:
    controller = broker.controller
    if controller is None:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if request.broker_id not in controller.context.brokers or not context.speaks_for(request.broker_id):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names = yield from named(request, broker, controller)
    proposals = {}
    for topic, name in names:
        for part in topic.partitions:
            if name is not None:
                proposals[TopicPartition(name, part.partition_index)] = proposal(part, context.version)
            yield

    def ask(done: Callable[[tuple[int, dict[TopicPartition, Verdict]]], None]) -> None:
        controller.alter_partition(
            request.broker_id, request.broker_epoch, proposals, context.version, lambda *judged: done(judged)
        )

    error, verdicts = yield from called_back(ask)
    topics = []
    for topic, name in [] if error else names:
        topics.append((yield from answering_topic(topic, name, verdicts)))
    return AlterPartitionResponse(error_code=error, topics=topics)


def named(request: AlterPartitionRequest, broker: ClusterParts, controller: Controller) -> Work[list[tuple[Asked, str | None]]]:
    """The topics with their names. A leader may ask before the controller has told itself of a new topic."""
    names = []
    of_controller: dict[bytes, str] = {}
    for topic in request.topics:
        name = topic.topic_name or broker.cluster.name_of(topic.topic_id)
        if name is None and not of_controller:
            for known in list(controller.context.topic_ids):
                of_controller[controller.parts.requests.topic_id(known)] = known
                yield
        names.append((topic, name or of_controller.get(bytes(topic.topic_id))))
        yield
    return names


def proposal(part: AlterPartitionRequest.Topic.Partition, version: int) -> Proposal:
    isr, epochs = part.new_isr, []
    if version >= EPOCHS_SINCE:
        isr = [each.broker_id for each in part.new_isr_with_epochs]
        epochs = [each.broker_epoch for each in part.new_isr_with_epochs]
    return Proposal(part.leader_epoch, tuple(isr), part.partition_epoch, part.leader_recovery_state == 1, tuple(epochs))


def answering_topic(topic: Asked, name: str | None, verdicts: Mapping[TopicPartition, Verdict]) -> Work[Topic]:
    unknown = Verdict(ErrorCode.UNKNOWN_TOPIC_ID)
    answered = Topic(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=[])
    for part in topic.partitions:
        verdict = unknown if name is None else verdicts[TopicPartition(name, part.partition_index)]
        answered.partitions.append(answer_partition(part.partition_index, verdict))
        yield
    return answered


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

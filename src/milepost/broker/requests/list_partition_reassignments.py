"""ListPartitionReassignments (key 46): partitions whose replicas are being moved, as the controller knows (41 elsewhere). Alone: none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected
from milepost.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context

Topic = ListPartitionReassignmentsResponse.Topic


def handle(request: ListPartitionReassignmentsRequest, context: Context) -> Work[ListPartitionReassignmentsResponse]:
    admin = context.broker.topology.topics
    if admin.refusal:
        return ListPartitionReassignmentsResponse(error_code=admin.refusal, error_message="this broker is not the controller")
    moving = admin.reassignments()
    if request.topics is not None:
        asked = yield from collected(
            TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
        )
        chosen = set(asked)
        moving = {name: each for name, each in moving.items() if name in chosen}
    topics: dict[str, Topic] = {}
    for name, each in moving.items():
        topics.setdefault(name.topic, Topic(name=name.topic, partitions=[])).partitions.append(
            Topic.Partition(
                partition_index=name.partition,
                replicas=list(each.replicas),
                adding_replicas=list(each.adding),
                removing_replicas=list(each.removing),
            )
        )
        yield
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))

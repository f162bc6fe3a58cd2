"""CreatePartitions (key 37): more partitions for topics that exist. `count` is the new total; fewer than there are is not
possible (37).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.topic_errors import InvalidPartitions, InvalidReplicaAssignment, UnknownTopic
from milepost.broker.topic_requests import MAX_PARTITIONS_AT_ONCE, ensure_assignable, repeated
from milepost.errors import InvalidRequest, MilepostError, PolicyViolation
from milepost.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context
    from milepost.cluster.view import TopicState

KEY = 37
Wanted = CreatePartitionsRequest.Topic
Answer = CreatePartitionsResponse.Result


def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    names = repeated(topic.name for topic in request.topics)
    total = sum(more_of(topic, context.broker) for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if topic.name in names:
                raise InvalidRequest(f"topic {topic.name[:60]!r} is in the request more than once")
            if total > MAX_PARTITIONS_AT_ONCE:
                raise PolicyViolation(
                    f"the request adds {total} partitions, {MAX_PARTITIONS_AT_ONCE} at once are allowed; send several"
                )
            grow(topic, context.broker, request.validate_only)
            results.append(Answer(name=topic.name))
        except MilepostError as error:
            results.append(Answer(name=topic.name, error_code=error.code, error_message=str(error)))
    return CreatePartitionsResponse(results=results)


def more_of(wanted: Wanted, broker: Broker) -> int:
    topic = broker.cluster.topics.get(wanted.name)
    return max(wanted.count - topic.partitions, 0) if topic else 0


def grow(wanted: Wanted, broker: Broker, validate_only: bool) -> None:
    topic = ensure_grows(wanted, broker)
    for partition, assignment in enumerate(wanted.assignments or (), topic.partitions):
        ensure_assignable(partition, assignment.broker_ids, broker.node_id)
    if not validate_only:
        broker.add_partitions(topic.name, wanted.count)


def ensure_grows(wanted: Wanted, broker: Broker) -> TopicState:
    topic = broker.cluster.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopic(f"there is no topic {wanted.name[:60]!r}")
    more = wanted.count - topic.partitions
    if more < 1:
        raise InvalidPartitions(f"topic {topic.name} has {topic.partitions} partitions; {wanted.count} would not be more")
    if wanted.assignments is not None and len(wanted.assignments) != more:
        raise InvalidReplicaAssignment(
            f"{more} partitions are to be added and {len(wanted.assignments)} are assigned by hand; give each a list"
        )
    return topic

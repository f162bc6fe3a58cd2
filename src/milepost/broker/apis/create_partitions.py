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
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.cluster.view import TopicState

KEY = 37
Wanted = CreatePartitionsRequest.Topic
Answer = CreatePartitionsResponse.Result


def handle(request: CreatePartitionsRequest, context: Context) -> Work[CreatePartitionsResponse]:
    context.goes_on = True
    return context.broker.topic_changes.turn.of(growing(request, context.broker))


def growing(request: CreatePartitionsRequest, broker: Parts) -> Work[CreatePartitionsResponse]:
    results: dict[str, Answer] = {}
    totals: dict[str, int] = {}
    plan = Plan(request, broker)
    for topic in plan.topics.values():
        results[topic.name] = result = Answer(name=topic.name)
        try:
            plan.ensure_alone(topic)
            ensure_could_grow(topic, broker)
            totals[topic.name] = topic.count
        except MilepostError as error:
            result.error_code, result.error_message = error.code, str(error)
        yield
    if not request.validate_only:
        for name, failure in (yield from broker.topic_changes.growing(totals)).items():
            results[name].error_code, results[name].error_message = failure.code, str(failure)
    return CreatePartitionsResponse(results=list(results.values()))


class Plan:
    """What a request wants in all: each name once, and not more partitions than at once are allowed."""

    def __init__(self, request: CreatePartitionsRequest, broker: Parts):
        self._repeated = repeated(topic.name for topic in request.topics)
        self._total = sum(more_of(topic, broker) for topic in request.topics)
        self.topics = {topic.name: topic for topic in request.topics}

    def ensure_alone(self, topic: Wanted) -> None:
        """That nothing else in the request speaks against this topic."""
        if topic.name in self._repeated:
            raise InvalidRequest(f"topic {topic.name[:60]!r} is in the request more than once")
        if self._total > MAX_PARTITIONS_AT_ONCE:
            raise PolicyViolation(
                f"the request adds {self._total} partitions, {MAX_PARTITIONS_AT_ONCE} at once are allowed; send several"
            )


def more_of(wanted: Wanted, broker: Parts) -> int:
    topic = broker.cluster.topics.get(wanted.name)
    return max(wanted.count - topic.partitions, 0) if topic else 0


def ensure_could_grow(wanted: Wanted, broker: Parts) -> None:
    topic = ensure_grows(wanted, broker)
    for partition, assignment in enumerate(wanted.assignments or (), topic.partitions):
        ensure_assignable(partition, assignment.broker_ids, broker.node_id)


def ensure_grows(wanted: Wanted, broker: Parts) -> TopicState:
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

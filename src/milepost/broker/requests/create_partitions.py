"""CreatePartitions (key 37): more partitions for topics that exist. `count` is the new total; fewer than there are is not
possible (37). In a cluster by the controller alone (41 elsewhere), and answered when the new partitions have leaders.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected
from milepost.broker.topic_errors import InvalidPartitions, InvalidReplicaAssignment, UnknownTopic
from milepost.broker.topic_requests import TopicPlan
from milepost.broker.topology.protocols import Growth
from milepost.codec.text import counted
from milepost.errors import MilepostError
from milepost.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts

Wanted = CreatePartitionsRequest.Topic
Answer = CreatePartitionsResponse.Result


def handle(request: CreatePartitionsRequest, context: Context) -> Work[CreatePartitionsResponse]:
    context.goes_on = True
    return context.broker.topology.topics.in_turn(growing(request, context.broker))


def growing(request: CreatePartitionsRequest, broker: Parts) -> Work[CreatePartitionsResponse]:
    admin = broker.topology.topics
    results: dict[str, Answer] = {}
    wanted: dict[str, Growth] = {}
    plan = TopicPlan[Wanted]()
    yield from plan.reading(request.topics, partial(more_of, broker=broker))
    if admin.refusal:
        refusals = yield from collected(Answer(name=name, error_code=admin.refusal) for name in plan.topics)
        return CreatePartitionsResponse(results=refusals)
    for topic in plan.topics.values():
        results[topic.name] = result = Answer(name=topic.name)
        try:
            plan.ensure_alone(topic)
            wanted[topic.name] = growth(topic, broker)
        except MilepostError as error:
            result.error_code, result.error_message = error.code, str(error)
        yield
    if not request.validate_only:
        for name, failure in (yield from admin.growing(wanted, request.timeout_ms / 1000)).items():
            results[name].error_code, results[name].error_message = failure.code, str(failure) or None
    return CreatePartitionsResponse(results=list(results.values()))


def more_of(wanted: Wanted, broker: Parts) -> int:
    topic = broker.cluster.topics.get(wanted.name)
    return max(wanted.count - topic.partitions, 0) if topic else 0


def growth(wanted: Wanted, broker: Parts) -> Growth:
    topic = broker.cluster.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopic(f"there is no topic {wanted.name[:60]!r}")
    new = range(topic.partitions, wanted.count)
    if not new:
        raise InvalidPartitions(
            f"topic {topic.name} has {counted(topic.partitions, 'partition')}; {wanted.count} would not be more"
        )
    if wanted.assignments is None:
        return Growth(new, None)
    if len(wanted.assignments) != len(new):
        raise InvalidReplicaAssignment(
            f"{counted(len(new), 'partition')} to be added and {len(wanted.assignments)} assigned by hand: give each a list"
        )
    given = {number: tuple(each.broker_ids) for number, each in zip(new, wanted.assignments, strict=True)}
    for number, broker_ids in given.items():
        broker.topology.topics.ensure_assignable(number, broker_ids)
    return Growth(new, given)

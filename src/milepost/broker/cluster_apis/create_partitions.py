"""CreatePartitions (key 37) in a cluster: by the controller alone (41 elsewhere); answered when the new partitions have leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from milepost.broker.apis.create_partitions import Answer, Plan, Wanted, ensure_grows
from milepost.broker.gathering import Gathering
from milepost.broker.slices import Work, collected
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 37


def handle(request: CreatePartitionsRequest, context: Context) -> Work[CreatePartitionsResponse | None]:
    broker = cast("ClusterParts", context.broker)
    context.goes_on = True
    plan = Plan(request, broker)
    topics = plan.topics.values()
    if broker.controller is None:
        results = yield from collected(Answer(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER) for topic in topics)
        return CreatePartitionsResponse(results=results)
    answers = Gathering[Answer](len(topics), lambda parts: context.answer(CreatePartitionsResponse(results=parts)))
    for place, topic in enumerate(topics):

        def done(code: int, name: str = topic.name, place: int = place) -> None:
            answers.put(place, Answer(name=name, error_code=code, error_message=None))

        try:
            plan.ensure_alone(topic)
            grow(topic, broker, request, done)
        except MilepostError as error:
            answers.put(place, Answer(name=topic.name, error_code=error.code, error_message=str(error)))
        yield
    return None


def grow(wanted: Wanted, broker: ClusterParts, request: CreatePartitionsRequest, done: Callable[[int], None]) -> None:
    topic = ensure_grows(wanted, broker)
    given = None
    if wanted.assignments is not None:
        given = {number: tuple(each.broker_ids) for number, each in enumerate(wanted.assignments, topic.partitions)}
        for number, broker_ids in given.items():
            broker.topics.ensure_assignable(number, broker_ids)
    if request.validate_only:
        done(ErrorCode.NONE)
        return
    new = range(topic.partitions, wanted.count)

    def written(code: int) -> None:
        if code:
            done(code)
        else:
            broker.topics.when_led(wanted.name, new, request.timeout_ms / 1000, done)

    broker.topics.grow(wanted.name, wanted.count, given, written)

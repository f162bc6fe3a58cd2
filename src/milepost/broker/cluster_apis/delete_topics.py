"""DeleteTopics (key 20) in a cluster: by the controller alone (41 elsewhere); answered when nobody is told of the topic any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from milepost.broker.apis.delete_topics import Answer, Wanted, fault_of, find, grouped, refuse
from milepost.broker.gathering import Gathering
from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 20


def handle(request: DeleteTopicsRequest, context: Context) -> Work[DeleteTopicsResponse | None]:
    broker = cast("ClusterParts", context.broker)
    context.goes_on = True
    groups = yield from grouped(request, context)
    if broker.controller is None:
        refusals = collected(refuse(each, ErrorCode.NOT_CONTROLLER, "ask the controller") for group in groups for each in group)
        return DeleteTopicsResponse(responses=(yield from refusals))
    answers = Gathering[Answer](len(groups), lambda parts: context.answer(DeleteTopicsResponse(responses=parts)))
    for place, group in enumerate(groups):
        delete(group, broker, context.version, request.timeout_ms / 1000, lambda answer, place=place: answers.put(place, answer))  # type: ignore[misc]
        yield
    return None


def delete(group: list[Wanted], broker: ClusterParts, version: int, seconds: float, put: Callable[[Answer], object]) -> None:
    refused = fault_of(group, broker, version)
    if refused is not None:
        put(refused)
        return
    topic = find(group[0], broker.cluster)
    assert topic is not None, "or it would have been refused"
    name, topic_id = topic.name, topic.topic_id

    def written(code: int) -> None:
        if code:
            put(refuse(group[0], code, "the topic could not be marked for deletion"))
        else:
            broker.topics.when_gone(name, seconds, lambda code: put(Answer(name=name, topic_id=topic_id, error_code=code)))

    broker.topics.delete(name, written)

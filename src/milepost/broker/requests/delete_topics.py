"""DeleteTopics (key 20): topics that go, by name or, from version 6, by id.

Partitions are gone when the answer is there; their files follow after `file.delete.delay.ms`. Each topic is answered once: one
that is named twice, also once by its name and once by its id, stays (42).

In a cluster by the controller alone (41 elsewhere), and answered when the topic is gone from metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.slices import Work, collected
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from collections.abc import Hashable

    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.cluster.view import ClusterView, TopicState

NO_ID = bytes(16)
Wanted = DeleteTopicsRequest.Topic
Answer = DeleteTopicsResponse.Response


def handle(request: DeleteTopicsRequest, context: Context) -> Work[DeleteTopicsResponse]:
    context.goes_on = True
    return context.broker.topology.topics.in_turn(deleting(request, context))


def deleting(request: DeleteTopicsRequest, context: Context) -> Work[DeleteTopicsResponse]:
    broker = context.broker
    admin = broker.topology.topics
    groups = yield from grouped(request, context)
    if admin.refusal:
        named = (each for group in groups for each in group)
        refusals = yield from collected(refuse(each, admin.refusal, "this broker is not the controller") for each in named)
        return DeleteTopicsResponse(responses=refusals)
    answers: list[Answer] = []
    for group in groups:
        refused = fault_of(group, broker, context.version)
        if refused is None:
            topic = find(group[0], broker.cluster)
            assert topic is not None, "or it would have been refused"
            refused = Answer(name=topic.name, topic_id=topic.topic_id)
        answers.append(refused)
        yield
    names = [each.name for each in answers if each.name and not each.error_code]
    failures = yield from admin.deleting(names, request.timeout_ms / 1000)
    for answer in answers:
        failure = failures.get(answer.name or "")
        if failure is not None and not answer.error_code:
            answer.error_code, answer.error_message = failure.code, str(failure) or None
    return DeleteTopicsResponse(responses=answers)


def grouped(request: DeleteTopicsRequest, context: Context) -> Work[list[list[Wanted]]]:
    """What a request names, that which means the same topic together."""
    wanted = request.topics if context.version >= 6 else (Wanted(name=name) for name in request.topic_names)
    groups: dict[Hashable, list[Wanted]] = {}
    for each in wanted:
        known = find(each, context.broker.cluster)
        groups.setdefault(known.name if known else (each.name, each.topic_id), []).append(each)
        yield
    return list(groups.values())


def find(wanted: Wanted, cluster: ClusterView) -> TopicState | None:
    return cluster.topic_by_id(wanted.topic_id) if wanted.name is None else cluster.topics.get(wanted.name)


def fault_of(group: list[Wanted], broker: Parts, version: int) -> Answer | None:
    """What speaks against deleting a topic that is named like this."""
    wanted = group[0]
    if len(group) > 1:
        return refuse(wanted, ErrorCode.INVALID_REQUEST, f"the topic is in the request {len(group)} times")
    if wanted.name is None and wanted.topic_id == NO_ID:
        return refuse(wanted, ErrorCode.INVALID_REQUEST, "neither a name nor an id: give one of them")
    if wanted.name is not None and wanted.topic_id != NO_ID:
        return refuse(wanted, ErrorCode.INVALID_REQUEST, "a name and an id: give one of them")
    if not broker.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
        return refuse(wanted, code, "delete.topic.enable is false: topics may not be deleted")
    topic = find(wanted, broker.cluster)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID if wanted.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refuse(wanted, code, "there is no such topic")
    return None


def refuse(wanted: Wanted, error_code: int, message: str) -> Answer:
    return Answer(name=wanted.name, topic_id=wanted.topic_id, error_code=error_code, error_message=message)

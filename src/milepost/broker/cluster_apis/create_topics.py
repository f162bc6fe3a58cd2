"""CreateTopics (key 19) in a cluster: by the controller alone; elsewhere 41 NOT_CONTROLLER for each topic, and the client asks it.

A topic is written into ZooKeeper and answered when its partitions have leaders, at the latest after the client's `timeout_ms` (7: it
comes all the same). -1 partitions or replicas: `num.partitions`, `default.replication.factor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from milepost.broker.apis.create_topics import (
    DEFAULT,
    Plan,
    ShownConfigs,
    count_of,
    ensure_not_reserved,
    refused,
    topic_configs,
)
from milepost.broker.cluster_topics import Replicas
from milepost.broker.gathering import Gathering
from milepost.broker.slices import Work, collected
from milepost.broker.topic_errors import InvalidPartitions, InvalidReplicaAssignment, TopicExists
from milepost.config.topic import LogConfig
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 19
Wanted = CreateTopicsRequest.Topic
Answer = CreateTopicsResponse.Topic
Put = Callable[[Answer], object]


def handle(request: CreateTopicsRequest, context: Context) -> Work[CreateTopicsResponse | None]:
    broker = cast("ClusterParts", context.broker)
    context.goes_on = True
    plan = Plan(request, partial(count_of, broker=broker))
    topics = plan.topics.values()
    if broker.controller is None:
        refusals = collected(Answer(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER) for topic in topics)
        return CreateTopicsResponse(topics=(yield from refusals))
    shown = ShownConfigs(broker)
    answers = Gathering[Answer](len(topics), lambda parts: context.answer(CreateTopicsResponse(topics=parts)))
    for place, topic in enumerate(topics):

        def put(answer: Answer, place: int = place) -> None:
            answers.put(place, answer)

        try:
            plan.ensure_alone(topic)
            create(topic, broker, shown, request, put)
            plan.take(topic)
        except MilepostError as error:
            put(refused(topic.name, error))
        yield
    return None


def create(topic: Wanted, broker: ClusterParts, shown: ShownConfigs, request: CreateTopicsRequest, put: Put) -> None:
    broker.ensure_new_topic(topic.name)
    ensure_not_reserved(topic.name)
    replicas = replicas_of(topic, broker)
    configs = topic_configs(topic.configs)
    answer = described(topic.name, replicas, configs, LogConfig.parse(configs, broker.config), shown)
    if request.validate_only:
        put(answer)
        return

    def written(code: int) -> None:
        if code:
            message = str(TopicExists(f"topic {topic.name} already exists")) if code == TopicExists.code else None
            put(Answer(name=topic.name, error_code=code, error_message=message))
            return
        broker.topics.when_led(topic.name, replicas, request.timeout_ms / 1000, led)

    def led(code: int) -> None:
        answer.error_code = code
        answer.topic_id = broker.cluster.id_of(topic.name) or bytes(16)
        put(answer)

    broker.topics.create(topic.name, replicas, configs, written)


def replicas_of(topic: Wanted, broker: ClusterParts) -> Replicas:
    if not topic.assignments:
        if topic.num_partitions < 1 and topic.num_partitions != DEFAULT:
            raise InvalidPartitions(f"{topic.num_partitions} partitions: give at least 1, or {DEFAULT} for the broker's default")
        is_default = topic.replication_factor == DEFAULT
        factor = broker.config.default_replication_factor if is_default else topic.replication_factor
        return broker.topics.assign(count_of(topic, broker), factor)
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise InvalidRequest(
            f"replicas are assigned by hand, so partitions and replication factor must be {DEFAULT}; "
            f"they are {topic.num_partitions} and {topic.replication_factor}"
        )
    given = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
    if sorted(given) != list(range(len(topic.assignments))):
        raise InvalidReplicaAssignment(
            f"partitions {sorted(given)[:20]} are assigned; they must be 0 to {len(topic.assignments) - 1}, each once"
        )
    for number, broker_ids in given.items():
        broker.topics.ensure_assignable(number, broker_ids)
    return dict(sorted(given.items()))


def described(name: str, replicas: Replicas, configs: Mapping[str, str], settings: LogConfig, shown: ShownConfigs) -> Answer:
    return Answer(
        name=name,
        error_message=None,
        num_partitions=len(replicas),
        replication_factor=len(replicas[0]),
        configs=shown.of(configs, settings),
    )

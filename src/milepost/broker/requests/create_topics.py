"""CreateTopics (key 19): new topics, by number of partitions or with every partition assigned by hand.

-1 partitions or replicas: the broker's default (`num.partitions`, `default.replication.factor`). On a single broker the replication
factor is 1; a default above that is taken as far as there are brokers, a factor that is asked for is refused. In a cluster the controller
makes topics (41 NOT_CONTROLLER elsewhere, and the client asks it), and answers when their partitions have leaders, at the latest after
the client's `timeout_ms` (7: they come all the same). Each topic is made or
refused by itself, and answered once: a name that comes twice is refused (42). From version 5 the answer has the settings of the
topic, from 7 its id; with `validate_only` nothing is made, and the id is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from milepost.broker.configs.config_entries import BrokerPlaces, ConfigEntry, topic_entries
from milepost.broker.configs.config_resources import canonical
from milepost.broker.slices import Work, collected
from milepost.broker.topic_errors import InvalidPartitions, InvalidReplicaAssignment, colliding
from milepost.broker.topic_requests import TopicPlan, ensure_new_topic
from milepost.broker.topology.protocols import DEFAULT, NewTopic, Replicas
from milepost.cluster.view import metric_name
from milepost.config.topic import LogConfig
from milepost.errors import InvalidConfiguration, InvalidRequest, MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts

NO_ID = bytes(16)
RESERVED = "__cluster_metadata"
Wanted = CreateTopicsRequest.Topic
Answer = CreateTopicsResponse.Topic


def handle(request: CreateTopicsRequest, context: Context) -> Work[CreateTopicsResponse]:
    context.goes_on = True
    return context.broker.topology.topics.in_turn(creating(request, context.broker))


def creating(request: CreateTopicsRequest, broker: Parts) -> Work[CreateTopicsResponse]:
    admin = broker.topology.topics
    plan = TopicPlan[Wanted]()
    yield from plan.reading(request.topics, partial(count_of, broker=broker))
    if admin.refusal:
        refusals = yield from collected(Answer(name=name, error_code=admin.refusal) for name in plan.topics)
        return CreateTopicsResponse(topics=refusals)
    shown = ShownConfigs(broker)
    answers: dict[str, Answer] = {}
    new: list[NewTopic] = []
    taken: dict[str, str] = {}
    for topic in plan.topics.values():
        try:
            plan.ensure_alone(topic)
            if (collision := taken.get(metric_name(topic.name))) is not None:
                raise colliding(topic.name, collision)
            wanted = new_topic(topic, broker)
            answers[topic.name] = described(wanted, shown)
            new.append(wanted)
            taken[metric_name(topic.name)] = topic.name
        except MilepostError as error:
            answers[topic.name] = refused(topic.name, error)
        yield
    if not request.validate_only:
        failures = yield from admin.creating(new, request.timeout_ms / 1000)
        for wanted in new:
            failure = failures.get(wanted.name)
            if failure is None or failure.code == ErrorCode.REQUEST_TIMED_OUT:
                answers[wanted.name].topic_id = broker.cluster.id_of(wanted.name) or NO_ID
                answers[wanted.name].error_code = ErrorCode.NONE if failure is None else failure.code
            else:
                answers[wanted.name] = refused(wanted.name, failure)
    return CreateTopicsResponse(topics=list(answers.values()))


def refused(name: str, error: MilepostError) -> Answer:
    return Answer(name=name, error_code=error.code, error_message=str(error) or None)


def new_topic(topic: Wanted, broker: Parts) -> NewTopic:
    ensure_new_topic(broker.cluster, topic.name)
    ensure_not_reserved(topic.name)
    replicas = replicas_of(topic, broker)
    configs = topic_configs(topic.configs)
    return NewTopic(topic.name, replicas, configs, LogConfig.parse(configs, broker.config))


def ensure_not_reserved(name: str) -> None:
    if name == RESERVED:
        raise InvalidRequest(f"{RESERVED} is the name of Kafka's own log of its metadata; take another")


class ShownConfigs:
    """Settings as an answer shows them. What topics have in common is the same object in all of them: there are sixty for each."""

    def __init__(self, broker: Parts):
        self._places = BrokerPlaces(broker)
        self._made: dict[tuple[str, str | None, int], Answer.Config] = {}

    def of(self, configs: Mapping[str, str], settings: LogConfig) -> list[Answer.Config]:
        return list(map(self._shown, topic_entries(configs, settings, self._places)))

    def _shown(self, entry: ConfigEntry) -> Answer.Config:
        key = entry.name, entry.value, entry.source
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Answer.Config(
                name=entry.name,
                value=entry.shown,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
        return made


def described(topic: NewTopic, shown: ShownConfigs) -> Answer:
    return Answer(
        name=topic.name,
        topic_id=NO_ID,
        error_message=None,
        num_partitions=len(topic.replicas),
        replication_factor=len(topic.replicas[0]),
        configs=shown.of(topic.configs, topic.settings),
    )


def count_of(topic: Wanted, broker: Parts) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def replicas_of(topic: Wanted, broker: Parts) -> Replicas:
    if topic.assignments:
        return assigned_by_hand(topic, broker)
    if topic.num_partitions < 1 and topic.num_partitions != DEFAULT:
        raise InvalidPartitions(f"{topic.num_partitions} partitions: give at least 1, or {DEFAULT} for the broker's default")
    return broker.topology.topics.assign(count_of(topic, broker), topic.replication_factor)


def assigned_by_hand(topic: Wanted, broker: Parts) -> Replicas:
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise InvalidRequest(
            f"replicas are assigned by hand, so partitions and replication factor must be {DEFAULT}; "
            f"they are {topic.num_partitions} and {topic.replication_factor}"
        )
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        raise InvalidReplicaAssignment(f"partitions {indexes[:20]} are assigned; they must be 0 to {len(indexes) - 1}, each once")
    for assignment in topic.assignments:
        broker.topology.topics.ensure_assignable(assignment.partition_index, assignment.broker_ids)
    return {each.partition_index: tuple(each.broker_ids) for each in sorted(topic.assignments, key=attrgetter("partition_index"))}


def topic_configs(configs: Iterable[Wanted.Config]) -> dict[str, str]:
    given = {}
    for config in configs:
        if config.value is None:
            raise InvalidConfiguration(f"{config.name}: null is no value; give one, or leave the setting out")
        given[config.name] = config.value
    return canonical(LogConfig, given)

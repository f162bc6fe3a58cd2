"""CreateTopics (key 19): new topics, by number of partitions or with every partition assigned by hand.

-1 partitions or replicas: the broker's default. On a single broker the replication factor is 1; a default above that
(`default.replication.factor`) is taken as far as there are brokers, a factor that is asked for is refused. Each topic is made or
refused by itself, and answered once: a name that comes twice is refused (42). From version 5 the answer has the settings of the
topic, from 7 its id; with `validate_only` nothing is made, and the id is zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.broker.config_entries import BrokerPlaces, topic_entries
from milepost.broker.config_resources import canonical
from milepost.broker.topic_errors import InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor
from milepost.broker.topic_requests import MAX_PARTITIONS_AT_ONCE, ensure_assignable
from milepost.config.topic import LogConfig
from milepost.errors import InvalidConfiguration, InvalidRequest, MilepostError, PolicyViolation
from milepost.protocol.messages import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.context import Context

KEY = 19
NO_ID = bytes(16)
DEFAULT = -1
REPLICATION_FACTOR = 1
RESERVED = "__cluster_metadata"
Wanted = CreateTopicsRequest.Topic
Answer = CreateTopicsResponse.Topic


def handle(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    broker = context.broker
    times = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}.values()
    total = sum(count_of(topic, broker) for topic in topics)
    places = BrokerPlaces(broker)
    answers = []
    for topic in topics:
        try:
            if times[topic.name] > 1:
                raise InvalidRequest(f"topic {topic.name[:60]!r} is in the request {times[topic.name]} times")
            if total > MAX_PARTITIONS_AT_ONCE:
                raise PolicyViolation(
                    f"the request asks for {total} partitions, {MAX_PARTITIONS_AT_ONCE} at once are allowed; send several"
                )
            answers.append(create(topic, broker, places, request.validate_only))
        except MilepostError as error:
            answers.append(Answer(name=topic.name, error_code=error.code, error_message=str(error)))
    return CreateTopicsResponse(topics=answers)


def create(topic: Wanted, broker: Broker, places: BrokerPlaces, validate_only: bool) -> Answer:
    broker.ensure_new_topic(topic.name)
    if topic.name == RESERVED:
        raise InvalidRequest(f"{RESERVED} is the name of Kafka's own log of its metadata; take another")
    ensure_partitions(topic, broker.node_id)
    configs = topic_configs(topic.configs)
    settings = LogConfig.parse(configs, broker.config)
    topic_id, partitions = NO_ID, count_of(topic, broker)
    if not validate_only:
        topic_id = broker.create_topic(topic.name, partitions, configs).topic_id
    return Answer(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=REPLICATION_FACTOR,
        configs=[
            Answer.Config(
                name=entry.name,
                value=entry.shown,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(configs, settings, places)
        ],
    )


def count_of(topic: Wanted, broker: Broker) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def ensure_partitions(topic: Wanted, node_id: int) -> None:
    if topic.assignments:
        ensure_assignments(topic, node_id)
    elif topic.num_partitions < 1 and topic.num_partitions != DEFAULT:
        raise InvalidPartitions(f"{topic.num_partitions} partitions: give at least 1, or {DEFAULT} for the broker's default")
    elif topic.replication_factor < 1 and topic.replication_factor != DEFAULT:
        raise InvalidReplicationFactor(
            f"replication factor {topic.replication_factor}: give {REPLICATION_FACTOR}, or {DEFAULT} for the default"
        )
    elif topic.replication_factor > REPLICATION_FACTOR:
        raise InvalidReplicationFactor(
            f"replication factor {topic.replication_factor}: there is 1 broker, so it can be at most {REPLICATION_FACTOR}"
        )


def ensure_assignments(topic: Wanted, node_id: int) -> None:
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise InvalidRequest(
            f"replicas are assigned by hand, so partitions and replication factor must be {DEFAULT}; "
            f"they are {topic.num_partitions} and {topic.replication_factor}"
        )
    indexes = sorted(assignment.partition_index for assignment in topic.assignments)
    if indexes != list(range(len(indexes))):
        raise InvalidReplicaAssignment(f"partitions {indexes[:20]} are assigned; they must be 0 to {len(indexes) - 1}, each once")
    for assignment in topic.assignments:
        ensure_assignable(assignment.partition_index, assignment.broker_ids, node_id)


def topic_configs(configs: Iterable[Wanted.Config]) -> dict[str, str]:
    given = {}
    for config in configs:
        if config.value is None:
            raise InvalidConfiguration(f"{config.name}: null is no value; give one, or leave the setting out")
        given[config.name] = config.value
    return canonical(LogConfig, given)

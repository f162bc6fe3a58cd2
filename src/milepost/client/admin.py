"""Topics as an administrator sees them: create, list, describe, delete, size. Settings are in `configs`, groups in `groups`.

Not promised: that an answer that says "there already" is about somebody else's topic. When the first answer was lost and the request
was sent again, it may be about our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.metadata import TopicInfo
from milepost.client.offsets import by_topic
from milepost.client.retrying import failed
from milepost.errors import MilepostError, UnsupportedVersion
from milepost.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from milepost.topic_partition import TopicPartition

BROKERS_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What the broker says about it; -1 from brokers that say nothing (before Kafka 2.4)."""

    name: str
    partitions: int
    replication_factor: int


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """A new topic; None leaves a number to the broker."""
    Topic = CreateTopicsRequest.Topic

    def work(connection: Connection) -> CreatedTopic:
        if (partitions is None or replication_factor is None) and connection.version_of("CreateTopics") < 4:
            raise UnsupportedVersion(
                f"the broker at {connection.address} has no defaults to take: name partitions and replication factor"
            )
        wanted = Topic(
            name=name,
            num_partitions=BROKERS_DEFAULT if partitions is None else partitions,
            replication_factor=BROKERS_DEFAULT if replication_factor is None else replication_factor,
            configs=[Topic.Config(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=_milliseconds(cluster), validate_only=validate_only)
        response: CreateTopicsResponse = connection.ask(request)
        for row in response.topics:
            if row.error_code:
                raise failed(f"topic {row.name}", row.error_code, row.error_message)
        answer = response.topics[0] if response.topics else CreateTopicsResponse.Topic()
        return CreatedTopic(name, answer.num_partitions, answer.replication_factor)

    return cluster.on_controller(work)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> None:
    """Delete topics; the first refusal is raised, after all were asked for."""
    names = list(dict.fromkeys(names))

    def work(connection: Connection) -> None:
        request = DeleteTopicsRequest(timeout_ms=_milliseconds(cluster))
        if connection.version_of("DeleteTopics") >= 6:
            request.topics = [DeleteTopicsRequest.Topic(name=name) for name in names]
        else:
            request.topic_names = names
        response: DeleteTopicsResponse = connection.ask(request)
        for row in response.responses:
            if row.error_code:
                raise failed(f"topic {row.name}", row.error_code, row.error_message)

    cluster.on_controller(work)


def list_topics(cluster: Cluster) -> list[TopicInfo]:
    """Every topic the broker shows us, by name."""
    topics = cluster.refresh(None).topics
    return [topics[name] for name in sorted(topics)]


def log_sizes(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes on the disk of each partition's leader; 0 where the leader does not name it."""

    def build(group: list[TopicPartition]) -> DescribeLogDirsRequest:
        Topic = DescribeLogDirsRequest.Topic
        topics = [Topic(topic=name, partitions=[each.partition for each in own]) for name, own in by_topic(group).items()]
        return DescribeLogDirsRequest(topics=topics)

    wanted = list(partitions)

    def read(response: DescribeLogDirsResponse) -> list[tuple[TopicPartition, int | MilepostError]]:
        sizes: dict[TopicPartition, int] = dict.fromkeys(wanted, 0)
        for directory in response.results:
            for topic in directory.topics:
                for row in topic.partitions:
                    if not row.is_future_key:
                        sizes[TopicPartition(topic.name, row.partition_index)] = row.partition_size
        return list(sizes.items())

    return cluster.ask_leaders(wanted, build, read)


def _milliseconds(cluster: Cluster) -> int:
    return int(cluster.timeout * 1000)

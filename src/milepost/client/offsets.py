"""Offsets: by time or at the ends of a partition (ListOffsets), and what a group has committed (OffsetFetch, OffsetCommit).

    asked for        answer
    LATEST  -1       the end: the high watermark, or the last stable offset when only committed records are read
    EARLIEST  -2     the first offset that is still there
    MAX_TIMESTAMP -3 the record with the largest timestamp (KIP-734)
    a time in ms     the first record that is not older, or none

Commits are those of a simple consumer, which is no member of its group: brokers refuse them while the group has members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.retrying import failed
from milepost.errors import MilepostError
from milepost.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from milepost.topic_partition import TopicPartition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

CONSUMER_REPLICA_ID = -1
OFFSETS_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that names topics by name."""


@dataclass(frozen=True, slots=True)
class FoundOffset:
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def list_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset | None]:
    """The offset for each time; None where no record is as new as that."""

    def build(partitions: list[TopicPartition]) -> ListOffsetsRequest:
        Topic = ListOffsetsRequest.Topic
        topics = [
            Topic(
                name=name, partitions=[Topic.Partition(partition_index=each.partition, timestamp=times[each]) for each in group]
            )
            for name, group in by_topic(partitions).items()
        ]
        return ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, isolation_level=isolation, topics=topics)

    def read(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, FoundOffset | MilepostError | None]]:
        for topic in response.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    yield partition, failed(f"offsets of {partition}", row.error_code)
                else:
                    yield partition, FoundOffset(row.offset, row.timestamp, row.leader_epoch) if row.offset >= 0 else None

    return cluster.ask_leaders(times, build, read)


def ends(
    cluster: Cluster, partitions: Iterable[TopicPartition], which: int, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The first (EARLIEST) or next (LATEST) offset of each partition."""
    found = list_offsets(cluster, dict.fromkeys(partitions, which), isolation)
    return {partition: 0 if offset is None else offset.offset for partition, offset in found.items()}


def committed(cluster: Cluster, group_id: str) -> dict[TopicPartition, Committed]:
    """Everything the group has committed, by partition."""

    def work(connection: Connection) -> dict[TopicPartition, Committed]:
        what = f"offsets of group {group_id}"
        answer: OffsetFetchResponse | OffsetFetchResponse.Group
        if connection.version_of("OffsetFetch", OFFSETS_BY_NAME) >= 8:
            request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group_id, topics=None)])
            response = connection.ask(request, highest=OFFSETS_BY_NAME)
            answer = next((row for row in response.groups if row.group_id == group_id), OffsetFetchResponse.Group(error_code=-1))
        else:
            answer = connection.ask(OffsetFetchRequest(group_id=group_id, topics=None), highest=OFFSETS_BY_NAME)
        if answer.error_code:
            raise failed(what, answer.error_code)
        found = {}
        for topic in answer.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise failed(f"{what} in {topic.name}-{row.partition_index}", row.error_code)
                if row.committed_offset >= 0:
                    found[TopicPartition(topic.name, row.partition_index)] = Committed(
                        row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                    )
        return found

    return cluster.on_coordinator(group_id, work)


def commit(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set where the group goes on, partition by partition. The first refusal is raised; the others may have been taken."""
    Topic = OffsetCommitRequest.Topic

    def work(connection: Connection) -> None:
        topics = [
            Topic(
                name=name,
                partitions=[
                    Topic.Partition(partition_index=each.partition, committed_offset=offsets[each], committed_metadata="")
                    for each in group
                ],
            )
            for name, group in by_topic(offsets).items()
        ]
        response = connection.ask(OffsetCommitRequest(group_id=group_id, topics=topics), highest=OFFSETS_BY_NAME)
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise failed(f"commit of group {group_id} in {topic.name}-{row.partition_index}", row.error_code)

    cluster.on_coordinator(group_id, work)

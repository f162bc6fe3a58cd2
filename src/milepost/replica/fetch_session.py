"""The follower's end of a fetch session (KIP-227): say once what is fetched, then only what changed.

    session id, epoch
    0, 0      everything that is wanted, and please keep it
    id, n     what changed since the request before: positions that moved, partitions that were added or removed
    0, -1     (with `reset`) the leader forgot the session: the next request is full again

A leader that does not keep sessions answers with id 0; then every request is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from milepost.protocol.messages import FetchRequest
from milepost.topic_partition import TopicPartition

MAX_EPOCH = 2**31 - 1


class Position(NamedTuple):
    """What is asked of the leader about one partition."""

    topic_id: bytes
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    start_offset: int


class FetchSession:
    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self._known: dict[TopicPartition, Position] = {}
        self._asked: dict[TopicPartition, Position] = {}

    def request(
        self, wanted: Mapping[TopicPartition, Position], max_bytes: int
    ) -> tuple[list[FetchRequest.Topic], list[FetchRequest.ForgottenTopicsData]]:
        """The topics to name, and those to forget."""
        self._asked = dict(wanted)
        if self.epoch == 0:
            return _topics(wanted, max_bytes), []
        changed = {name: position for name, position in wanted.items() if self._known.get(name) != position}
        gone = [name for name in self._known if name not in wanted]
        return _topics(changed, max_bytes), _forgotten(gone, self._known)

    def ask_again(self, name: TopicPartition, position: Position) -> None:
        """The next request names this partition, and no other has changed."""
        self._known[name] = position
        self._asked = self._known

    def answered(self, session_id: int) -> None:
        """The leader understood the request."""
        self._known = self._asked
        if session_id == 0:
            self.reset()
        else:
            self.session_id = session_id
            self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def reset(self) -> None:
        self.session_id = self.epoch = 0
        self._known = {}


def _topics(positions: Mapping[TopicPartition, Position], max_bytes: int) -> list[FetchRequest.Topic]:
    topics: dict[str, FetchRequest.Topic] = {}
    for name, position in positions.items():
        topic = topics.get(name.topic)
        if topic is None:
            topic = topics[name.topic] = FetchRequest.Topic(topic=name.topic, topic_id=position.topic_id, partitions=[])
        topic.partitions.append(
            FetchRequest.Topic.Partition(
                partition=name.partition,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: list[TopicPartition], known: Mapping[TopicPartition, Position]) -> list[FetchRequest.ForgottenTopicsData]:
    topics: dict[str, FetchRequest.ForgottenTopicsData] = {}
    for name in gone:
        topic = topics.get(name.topic)
        if topic is None:
            topic = FetchRequest.ForgottenTopicsData(topic=name.topic, topic_id=known[name].topic_id, partitions=[])
            topics[name.topic] = topic
        topic.partitions.append(name.partition)
    return list(topics.values())

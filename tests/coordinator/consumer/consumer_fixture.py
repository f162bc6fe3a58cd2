"""A group coordinator with the consumer protocol plugged in, and consumers that say as little as real ones do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
from milepost.coordinator.consumer.consumer_settings import ConsumerGroupSettings
from milepost.protocol.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from tests.coordinator.group_fixture import Call, GroupBench
from tests.coordinator.group_surroundings import START_MS, MemoryLog, Topics, topic_id

Owned = dict[str, list[int]]


@dataclass
class Topic:
    name: str
    topic_id: bytes
    partitions: int


class ClusterTopics(Topics):
    feature_levels: ClassVar[dict[str, int]] = {}

    @property
    def topics(self) -> dict[str, Topic]:
        return {name: Topic(name, topic_id(name), count) for name, count in self.partitions.items()}

    def topic_by_id(self, wanted: bytes) -> Topic | None:
        name = self.name_of(wanted)
        return None if name is None else self.topics[name]


class ConsumerBench(GroupBench):
    def __init__(
        self, log: MemoryLog | None = None, *, topics: ClusterTopics | None = None, now_ms: int = START_MS, **settings: Any
    ):
        topics = topics or ClusterTopics()
        super().__init__(log, topics=topics, now_ms=now_ms)
        self.cluster = topics
        self.settings = settings
        # Most tests are about what is assigned; those about when say an interval.
        settings = {"assignment_interval_ms": 0, **settings}
        self.consumer_groups = ConsumerGroups(self.groups, topics, ConsumerGroupSettings(**settings))
        self.groups.consumer_groups = self.consumer_groups
        self.load()

    def restarted(self, **settings: Any) -> ConsumerBench:
        assert isinstance(self.topics, ClusterTopics)
        return ConsumerBench(self.log, topics=self.topics, now_ms=self.clock.now_ms(), **(settings or self.settings))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.groups.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(
        self, member_id: str, epoch: int, owned: Owned | None = None, *, group: str = "g", version: int = 1, **fields: Any
    ) -> Call:
        if owned is not None:
            fields["topic_partitions"] = [
                ConsumerGroupHeartbeatRequest.TopicPartition(topic_id=topic_id(name), partitions=partitions)
                for name, partitions in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)
        return self.call(request, version, client_id=f"client-{member_id}")

    def enter(self, member_id: str = "", **fields: Any) -> Call:
        """Join with everything that is needed."""
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["visits"], **fields}
        return self.beat(member_id, 0, {}, **fields)

    def answer_to(self, call: Call) -> tuple[int, Owned | None]:
        """Epoch and assignment of an answer without an error."""
        assert call.error == 0, call.response.error_message
        assignment = call.response.assignment
        if assignment is None:
            return call.response.member_epoch, None
        return call.response.member_epoch, {
            bytes(topic.topic_id).rstrip(b"\0").decode(): topic.partitions for topic in assignment.topic_partitions
        }

    def joined(self, member_id: str, **fields: Any) -> tuple[int, Owned | None]:
        return self.answer_to(self.enter(member_id, **fields))

    def heard(self, member_id: str, epoch: int, owned: Owned | None = None, **fields: Any) -> tuple[int, Owned | None]:
        return self.answer_to(self.beat(member_id, epoch, owned, **fields))

    def described(self, group: str = "g", version: int = 1) -> Any:
        (found,) = self.call(ConsumerGroupDescribeRequest(group_ids=[group]), version).response.groups
        return found

    def written_since(self, count: int) -> list[tuple[str, str]]:
        return self.log.written()[count:]

"""OffsetCommit and TxnOffsetCommit: who may commit, what may be committed, and when it counts.

    who                                       may commit
    a member with its generation              in PreparingRebalance and Stable; in CompletingRebalance it gets 27
    generation -1 and no member id            while the group has no members; a group nobody knows begins with it
    a transaction                             as a member, or from versions that do not say who commits; pending until its marker

    partition of the request                  error
    of an unknown topic id                    100
    that does not exist                       3
    with metadata above the limit             12

The answer waits for the log. A commit by a member is a sign of life as good as a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from milepost.coordinator.classic_group import ClassicGroup
from milepost.coordinator.group_records import commit_error, offset_record
from milepost.coordinator.interfaces import TopicNames
from milepost.coordinator.offsets import Commit, TopicPartition
from milepost.coordinator.registry import Registry
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from milepost.record.internal_topics.classic_records import OffsetCommitValue
from milepost.record.records import Record

LAST_TIMESTAMP = 2**63 - 1


class Asked(Protocol):
    """A partition of either request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class Result(Protocol):
    """A partition of either response."""

    error_code: int


@dataclass(slots=True)
class Commits:
    """The partitions of one request that go to the log."""

    group_id: str
    places: list[TopicPartition] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def records(self) -> list[Record]:
        return [
            offset_record(self.group_id, *place, commit.value) for place, commit in zip(self.places, self.commits, strict=True)
        ]

    def failed(self, error_code: int) -> None:
        for result in self.results:
            result.error_code = commit_error(error_code)


class OffsetCommits:
    def __init__(self, registry: Registry, topics: TopicNames):
        self.registry = registry
        self.runtime = registry.runtime
        self.store = registry.offsets
        self.topics = topics

    def commit(self, request: OffsetCommitRequest, version: int, answer: Callable[[OffsetCommitResponse], None]) -> None:
        group_id, member_id = request.group_id, request.member_id
        error = self.registry.unavailable(group_id)
        if not error:
            missing = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
            generation = request.generation_id_or_member_epoch
            error = self._validate(group_id, member_id, generation, request.group_instance_id, version, missing)
        response = OffsetCommitResponse(topics=[])
        commits = Commits(group_id)
        retention = request.retention_time_ms if 2 <= version <= 4 else -1
        for topic in request.topics:
            name = topic.name if version < 10 else self.topics.name_of(topic.topic_id)
            answered = OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            response.topics.append(answered)
            for asked in topic.partitions:
                result = OffsetCommitResponse.Topic.Partition(partition_index=asked.partition_index)
                answered.partitions.append(result)
                self._take(commits, name, asked, result, error, retention)
        if not commits.places:
            self.runtime.outbox.put(answer, response)
            return
        group = self.registry.get(group_id)
        if isinstance(group, ClassicGroup) and member_id in group.members:
            self.registry.rebalancer.heard_of(group, group.members[member_id])

        def written(error_code: int) -> None:
            # A partition that went meanwhile took its groups along: the next coordinator has the commit, we have not.
            error_code = error_code or self.registry.unavailable(group_id)
            if error_code:
                commits.failed(error_code)
            else:
                for place, commit in zip(commits.places, commits.commits, strict=True):
                    self.store.commit(group_id, place, commit)
            self.runtime.outbox.put(answer, response)

        self.runtime.write(group_id, commits.records(), written)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, answer: Callable[[TxnOffsetCommitResponse], None]
    ) -> None:
        group_id = request.group_id
        error = self.registry.refusal(group_id)
        if not error:
            error = self._validate(
                group_id,
                request.member_id,
                request.generation_id,
                request.group_instance_id,
                version,
                ErrorCode.ILLEGAL_GENERATION,
                transactional=True,
            )
        response = TxnOffsetCommitResponse(topics=[])
        commits = Commits(group_id)
        for topic in request.topics:
            answered = TxnOffsetCommitResponse.Topic(name=topic.name, partitions=[])
            response.topics.append(answered)
            for asked in topic.partitions:
                result = TxnOffsetCommitResponse.Topic.Partition(partition_index=asked.partition_index)
                answered.partitions.append(result)
                self._take(commits, topic.name, asked, result, error)
        if not commits.places:
            self.runtime.outbox.put(answer, response)
            return
        transaction = (self.runtime.partition_for(group_id), request.producer_id)
        self.store.send_out(group_id, commits.places)

        def written(error_code: int) -> None:
            self.store.come_back(group_id, commits.places)
            error_code = error_code or self.registry.unavailable(group_id)
            if error_code:
                commits.failed(error_code)
            else:
                for place, commit in zip(commits.places, commits.commits, strict=True):
                    self.store.add_pending(transaction, group_id, place, commit)
            self.runtime.outbox.put(answer, response)

        self.runtime.write_transactional(group_id, commits.records(), request.producer_id, request.producer_epoch, written)

    def _validate(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        instance_id: str | None,
        version: int,
        missing: int,
        *,
        transactional: bool = False,
    ) -> int:
        group = self.registry.get(group_id)
        if group is None:
            if generation >= 0:
                return missing
            group = self.registry.create(group_id)
        return group.validate_commit(member_id, generation, instance_id, version=version, transactional=transactional)

    def _take(
        self, commits: Commits, topic: str | None, asked: Asked, result: Result, error: int, retention_ms: int = -1
    ) -> None:
        """One partition: into the commits, or its error into the result."""
        place = (topic or "", asked.partition_index)
        metadata = asked.committed_metadata or ""
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self.topics.has_partition(*place):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not error and len(metadata) > self.runtime.settings.offset_metadata_max_bytes:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if error:
            result.error_code = error
            return
        now = self.runtime.now_ms()
        has_expiry = retention_ms >= 0
        value = OffsetCommitValue(
            offset=asked.committed_offset,
            leader_epoch=-1 if has_expiry else asked.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp=now,
            expire_timestamp=min(now + retention_ms, LAST_TIMESTAMP) if has_expiry else -1,
            schema_version=1 if has_expiry else 3,
        )
        commits.places.append(place)
        commits.commits.append(Commit(self.store.next_position(), value))
        commits.results.append(result)

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
from typing import Any, Protocol

from milepost.coordinator.classic.classic_group import ClassicGroup
from milepost.coordinator.classic.classic_records import commit_error, offset_record
from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.interfaces import TopicNames, Work
from milepost.coordinator.offsets.committed_offsets import Commit, TopicPartition
from milepost.log.producer_state.verification import VerificationGuard
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from milepost.record.builder import BatchBuilder
from milepost.record.internal_topics.classic_records import OffsetCommitValue

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
    """The partitions of one request: its answer, and what of it goes to the log."""

    group_id: str
    response: Any
    batch: BatchBuilder
    most_bytes: int
    """What the log takes at once. A group id of 32 KB would make gigabytes of a request that is not long: it is part of each record."""
    places: list[TopicPartition] = field(default_factory=list)
    values: list[OffsetCommitValue] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    oversized: list[Result] = field(default_factory=list)

    def add(self, place: TopicPartition, value: OffsetCommitValue, result: Result) -> None:
        self.results.append(result)
        if not self.is_too_large:
            self.batch.append(offset_record(self.group_id, *place, value, self.batch.record_count))
            self.places.append(place)
            self.values.append(value)

    @property
    def is_too_large(self) -> bool:
        return self.batch.estimated_size > self.most_bytes

    def failed(self, error_code: int) -> None:
        for result in self.results:
            result.error_code = commit_error(error_code)

    def refused(self, error_code: int) -> None:
        """All that could be committed and all that is too large get the error of the group."""
        for result in (*self.results, *self.oversized):
            result.error_code = error_code


class OffsetCommits:
    def __init__(self, registry: Registry, topics: TopicNames):
        self.registry = registry
        self.runtime = registry.runtime
        self.store = registry.offsets
        self.topics = topics

    def committing(
        self, request: OffsetCommitRequest, version: int, answer: Callable[[OffsetCommitResponse], None]
    ) -> Work[None]:
        """What is to be written is made in pieces. Whether it may be is looked up at the end, at once with the writing."""
        response = OffsetCommitResponse(topics=[])
        commits = Commits(request.group_id, response, BatchBuilder(base_offset=0), self._most_bytes(request.group_id))
        retention = request.retention_time_ms if 2 <= version <= 4 else -1
        for topic in request.topics:
            name = topic.name if version < 10 else self.topics.name_of(topic.topic_id)
            answered = OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            response.topics.append(answered)
            for asked in topic.partitions:
                result = OffsetCommitResponse.Topic.Partition(partition_index=asked.partition_index)
                answered.partitions.append(result)
                self._take(commits, name, asked, result, retention)
                yield
            yield
        with self.runtime.outbox:
            self._commit(request, version, commits, answer)

    def _commit(
        self, request: OffsetCommitRequest, version: int, commits: Commits, answer: Callable[[OffsetCommitResponse], None]
    ) -> None:
        group_id, member_id = request.group_id, request.member_id
        error = self.registry.unavailable(group_id)
        if not error:
            missing = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
            generation = request.generation_id_or_member_epoch
            error = self._validate(group_id, member_id, generation, request.group_instance_id, version, missing)
        if not self._may_be_written(commits, error):
            self.runtime.outbox.put(answer, commits.response)
            return
        group = self.registry.get(group_id)
        if isinstance(group, ClassicGroup) and member_id in group.members:
            self.registry.rebalancer.heard_of(group, group.members[member_id])
        position = self.store.next_position()

        def written(error_code: int) -> None:
            # A partition that went meanwhile took its groups along: the next coordinator has the commit, we have not.
            error_code = error_code or self.registry.unavailable(group_id)
            if error_code:
                commits.failed(error_code)
            else:
                self._begin(group_id)
                for place, value in zip(commits.places, commits.values, strict=True):
                    self.store.commit(group_id, place, Commit(position, value))
            self.runtime.outbox.put(answer, commits.response)

        self.runtime.write_batch(group_id, commits.batch.build(), written)

    def preparing(self, request: TxnOffsetCommitRequest) -> Work[Commits]:
        """What `commit_in_transaction` writes, made in pieces: before anybody is asked whether the transaction may have it."""
        batch = BatchBuilder(
            base_offset=0,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        commits = Commits(request.group_id, TxnOffsetCommitResponse(topics=[]), batch, self._most_bytes(request.group_id))
        for topic in request.topics:
            answered = TxnOffsetCommitResponse.Topic(name=topic.name, partitions=[])
            commits.response.topics.append(answered)
            for asked in topic.partitions:
                result = TxnOffsetCommitResponse.Topic.Partition(partition_index=asked.partition_index)
                answered.partitions.append(result)
                self._take(commits, topic.name, asked, result)
                yield
            yield
        return commits

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        commits: Commits,
        answer: Callable[[TxnOffsetCommitResponse], None],
        guard: VerificationGuard | None = None,
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
        if not self._may_be_written(commits, error):
            self.runtime.outbox.put(answer, commits.response)
            return
        transaction = (self.runtime.partition_for(group_id), request.producer_id)
        position = self.store.next_position()
        self.store.send_out(group_id, commits.places)

        def written(error_code: int) -> None:
            self.store.come_back(group_id, commits.places)
            error_code = error_code or self.registry.unavailable(group_id)
            if error_code:
                commits.failed(error_code)
            else:
                self._begin(group_id)
                for place, value in zip(commits.places, commits.values, strict=True):
                    self.store.add_pending(transaction, group_id, place, Commit(position, value))
            self.runtime.outbox.put(answer, commits.response)

        self.runtime.write_batch(group_id, commits.batch.build(), written, guard)

    def _begin(self, group_id: str) -> None:
        if self.registry.get(group_id) is None:
            self.registry.create(group_id)

    def _most_bytes(self, group_id: str) -> int:
        return self.runtime.log.largest_batch(self.runtime.partition_for(group_id))

    def _may_be_written(self, commits: Commits, error: int) -> bool:
        """`error` is what the group has against it."""
        if error:
            commits.refused(error)
        elif commits.is_too_large:
            commits.failed(ErrorCode.MESSAGE_TOO_LARGE)
        return bool(commits.places) and not error and not commits.is_too_large

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
            group = ClassicGroup(group_id, self.runtime.now_ms())  # it begins with the first offset that is written
        return group.validate_commit(member_id, generation, instance_id, version=version, transactional=transactional)

    def _take(self, commits: Commits, topic: str | None, asked: Asked, result: Result, retention_ms: int = -1) -> None:
        """One partition: into the commits, or its error into the result."""
        place = (topic or "", asked.partition_index)
        metadata = asked.committed_metadata or ""
        if topic is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            return
        if not self.topics.has_partition(*place):
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return
        if len(metadata) > self.runtime.settings.offset_metadata_max_bytes:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            commits.oversized.append(result)
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
        commits.add(place, value, result)

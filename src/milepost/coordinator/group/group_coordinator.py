"""The group coordinator: every request about groups and their offsets comes in here.

Requests come as messages, with the version they were sent in where it matters. Those whose answer may have to wait, for other
members or for the log, take an `answer` and call it exactly once, perhaps before they return; the others return their response.
While a partition is being loaded its groups answer 14, except that heartbeats get 0 and syncs 27, so that members stay where they
are.

Groups of the consumer protocol share the registry and are served by `consumer_groups`, which is set before the first `load`. It may be
None: then such groups cannot be joined, and their records are passed over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from milepost.clock import Clock
from milepost.coordinator.classic.classic_group import ClassicGroup
from milepost.coordinator.classic.joining import Join, Joining
from milepost.coordinator.classic.membership import Membership
from milepost.coordinator.classic.rebalancing import Rebalancer
from milepost.coordinator.group import group_admin
from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.group.group_settings import GroupSettings
from milepost.coordinator.group.removal import Removal
from milepost.coordinator.group.runtime import GroupRuntime
from milepost.coordinator.interfaces import Client, ConsumerGroupService, CoordinatorLog, Group, TopicNames, Work
from milepost.coordinator.offsets.committed_offsets import OffsetStore
from milepost.coordinator.offsets.offset_commits import Commits, OffsetCommits
from milepost.coordinator.offsets.offset_fetches import OffsetFetches
from milepost.loop import Timer, Timers
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from milepost.log.producer_state.verification import VerificationGuard

LEAVE_AT_ONCE = 100
MOST_PROTOCOLS = 1_000


class GroupCoordinator:
    def __init__(
        self,
        log: CoordinatorLog,
        timers: Timers,
        clock: Clock,
        topic_names: TopicNames,
        settings: GroupSettings | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ):
        self.runtime = GroupRuntime(log, timers, clock, settings or GroupSettings(), new_id)
        self.offsets = OffsetStore()
        self.rebalancer = Rebalancer(self.runtime)
        self.registry = Registry(self.runtime, self.rebalancer, self.offsets)
        self._joining = Joining(self.runtime, self.rebalancer)
        self._membership = Membership(self.runtime, self.rebalancer)
        self._commits = OffsetCommits(self.registry, topic_names)
        self._fetches = OffsetFetches(self.registry, topic_names)
        self._removal = Removal(self.registry, topic_names)
        self._is_closed = False
        self._sweep_timer: Timer = self._sweep_later()

    @property
    def groups(self) -> dict[str, Group]:
        return self.registry.groups

    @property
    def consumer_groups(self) -> ConsumerGroupService | None:
        return self.registry.consumer_groups

    @consumer_groups.setter
    def consumer_groups(self, service: ConsumerGroupService | None) -> None:
        self.registry.consumer_groups = service

    # Partitions of __consumer_offsets.

    def partition_for(self, group_id: str) -> int:
        return self.runtime.partition_for(group_id)

    def expect(self, partition: int) -> None:
        """This broker leads the partition now, and may not believe yet what is in it."""
        self.registry.expect(partition)

    def load(self, partition: int) -> None:
        """This broker leads the partition now. A short one is loaded when this returns, a long one piece by piece from the timers."""
        with self.runtime.outbox:
            self.registry.load(partition)

    def load_all(self) -> None:
        """This broker leads every partition."""
        for partition in range(self.runtime.log.partition_count):
            self.load(partition)

    def unload(self, partition: int) -> None:
        """Another broker leads the partition now: it has the log, this one forgets; waiting requests are answered with NOT_COORDINATOR."""
        with self.runtime.outbox:
            self.registry.unload(partition)

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """A marker was written to that partition: pending offsets become visible, or are dropped."""
        self.registry.complete_transaction(producer_id, partition, committed)

    def unload_all(self) -> None:
        for partition in self.registry.partitions:
            self.unload(partition)

    def close(self) -> None:
        self._is_closed = True
        self._sweep_timer.cancel()
        self.unload_all()

    # Members of the classic protocol.

    def join(
        self, request: JoinGroupRequest, version: int, client: Client, answer: Callable[[JoinGroupResponse], None]
    ) -> Work[None] | None:
        """What is left to do is returned: a group of the consumer protocol may have many topics."""
        with self.runtime.outbox:
            group = self.registry.get(request.group_id)
            error = self._refuse_join(request, group)
            if error:
                request.protocols = []  # nobody looks at them, however many there are
            join = Join.of(request, version, client, answer)
            if error:
                self.runtime.outbox.put(join.answer, JoinGroupResponse(error_code=error, member_id=request.member_id))
            elif group is None or isinstance(group, ClassicGroup):
                group = group or self.registry.create(request.group_id)
                self._joining.join(group, join)
                self.registry.drop_unused(group)
            else:
                assert self.consumer_groups is not None
                return self.consumer_groups.join_classic(request, version, client, answer)
        return None

    def _refuse_join(self, request: JoinGroupRequest, group: Group | None) -> int:
        error = self.registry.refusal(request.group_id)
        if error:
            return error
        settings = self.runtime.settings
        if len(request.protocols) > MOST_PROTOCOLS:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID if request.member_id else ErrorCode.NONE
        if isinstance(group, ClassicGroup) or self.consumer_groups is not None:
            return ErrorCode.NONE
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def sync(self, request: SyncGroupRequest, version: int, answer: Callable[[SyncGroupResponse], None]) -> None:
        with self.runtime.outbox:
            error = self.registry.refusal(request.group_id)
            if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                error = ErrorCode.REBALANCE_IN_PROGRESS
            group = self.registry.get(request.group_id)
            if not error and isinstance(group, ClassicGroup):
                self._membership.sync(group, request, answer)
            elif not error and group is not None and self.consumer_groups is not None:
                self.consumer_groups.sync_classic(request, version, answer)
            else:
                self.runtime.outbox.put(answer, SyncGroupResponse(error_code=error or ErrorCode.UNKNOWN_MEMBER_ID))

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        error = self.registry.refusal(request.group_id)
        if error:
            is_loading = error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)
        group = self.registry.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return HeartbeatResponse(error_code=self._membership.heartbeat(group, request))
        if group is not None and self.consumer_groups is not None:
            return self.consumer_groups.heartbeat_classic(request)
        return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)

    def leave(self, request: LeaveGroupRequest, version: int) -> Work[LeaveGroupResponse]:
        """Some members at a time, as if they came in requests of their own. Before version 3 one member leaves, under one error."""
        leavers = request.members if version >= 3 else [LeaveGroupRequest.Member(member_id=request.member_id)]
        results: list[LeaveGroupResponse.Member] = []
        for first in range(0, max(len(leavers), 1), LEAVE_AT_ONCE):
            error = self.registry.refusal(request.group_id)
            if error:
                return LeaveGroupResponse(error_code=error)
            with self.runtime.outbox:
                results += self._leave(request.group_id, leavers[first : first + LEAVE_AT_ONCE])
            yield
        return LeaveGroupResponse(members=results) if version >= 3 else LeaveGroupResponse(error_code=results[0].error_code)

    def _leave(self, group_id: str, leavers: Sequence[LeaveGroupRequest.Member]) -> list[LeaveGroupResponse.Member]:
        group = self.registry.get(group_id)
        if isinstance(group, ClassicGroup) or group is None or self.consumer_groups is None:
            return self._membership.leave(group if isinstance(group, ClassicGroup) else None, leavers)
        return self.consumer_groups.leave_classic(group_id, leavers)

    # Offsets.

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int, answer: Callable[[OffsetCommitResponse], None]
    ) -> Work[None]:
        return self._commits.committing(request, version, answer)

    def prepare_commits(self, request: TxnOffsetCommitRequest) -> Work[Commits]:
        return self._commits.preparing(request)

    def commit_offsets_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        commits: Commits,
        answer: Callable[[TxnOffsetCommitResponse], None],
        guard: VerificationGuard | None = None,
    ) -> None:
        """`commits`: what `prepare_commits` made of the same request."""
        with self.runtime.outbox:
            self._commits.commit_in_transaction(request, version, commits, answer, guard)

    def fetch_offsets(self, request: OffsetFetchRequest, version: int) -> Work[OffsetFetchResponse]:
        return self._fetches.fetching(request, version)

    def delete_offsets(self, request: OffsetDeleteRequest, answer: Callable[[OffsetDeleteResponse], None]) -> Work[None]:
        return self._removal.deleting_offsets(request, answer)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Offsets of topics that are gone go with them."""
        self.runtime.in_background(self._removal.topics_deleted(names))

    # Administration.

    def describe_groups(self, request: DescribeGroupsRequest, version: int) -> Work[DescribeGroupsResponse]:
        return group_admin.describing_groups(request, version, self.registry)

    def list_groups(self, request: ListGroupsRequest) -> Work[ListGroupsResponse]:
        return group_admin.listing_groups(request, self.registry)

    def delete_groups(self, request: DeleteGroupsRequest, answer: Callable[[DeleteGroupsResponse], None]) -> Work[None]:
        return self._removal.deleting_groups(request, answer)

    def _sweep_later(self) -> Timer:
        return self.runtime.later(self.runtime.settings.offsets_retention_check_interval_ms, self._sweep)

    def _sweep(self) -> None:
        self.runtime.in_background(self._sweeping())

    def _sweeping(self) -> Work[None]:
        """Offsets too old are forgotten; the interval begins when all is done: there is never a second one beside it."""
        yield from self._removal.expiring()
        if not self._is_closed:
            self._sweep_timer = self._sweep_later()

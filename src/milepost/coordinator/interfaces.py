"""What the coordinators are given by the broker, and what the group coordinator expects of every kind of group.

A `CoordinatorLog` is the topic a coordinator keeps its state in. `append` calls `done` with an error code once the records are
committed: before it returns when there is one replica, later when others have to follow. `batches` is everything in a partition,
oldest first, control batches too; it is read piece by piece while the broker works, and must stay readable until it ends.

A `Group` is classic or of the consumer protocol (KIP-848). The coordinator keeps both in one registry, commits offsets for both,
and asks the group what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from milepost.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from milepost.record.batches import AnyBatch
from milepost.record.internal_topics.classic_records import OffsetCommitValue
from milepost.record.internal_topics.consumer_offsets import Key, Value
from milepost.record.records import Record

if TYPE_CHECKING:
    from milepost.log.producer_state.verification import VerificationGuard

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]
"""Work in pieces, a `yield` between two of them: whoever does it sees to others there. What is looked up before may be gone behind it."""
Done = Callable[[int], None]
PendingAnswer = tuple[Callable[[Any], None], Any]
"""An answer and what to give to it."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a request, as far as a group remembers it: shown by DescribeGroups and stored in the group's record."""

    client_id: str
    host: str
    """As Kafka writes it: `/127.0.0.1`."""
    may_describe: Callable[[str], bool] | None = field(default=None, compare=False)
    """Whether it may see a topic that a pattern of its group stands for. None: it sees all."""


class CoordinatorLog(Protocol):
    @property
    def partition_count(self) -> int: ...

    def append(self, partition: int, records: Sequence[Record], done: Done) -> None: ...

    def append_batch(self, partition: int, batch: bytes, done: Done, guard: VerificationGuard | None = None) -> None:
        """One that is built already, from offset 0 on. `guard`: of a transaction that is verified."""
        ...

    def largest_batch(self, partition: int) -> int:
        """Bytes: a larger batch is refused with 10 MESSAGE_TOO_LARGE."""
        ...

    def batches(self, partition: int) -> Iterator[AnyBatch]: ...


class TopicNames(Protocol):
    """The topics of the cluster, for requests that name them by id and for commits of partitions that do not exist."""

    def name_of(self, topic_id: bytes) -> str | None: ...

    def id_of(self, name: str) -> bytes | None: ...

    def has_partition(self, name: str, partition: int) -> bool: ...


class Group(Protocol):
    group_id: str

    @property
    def kind(self) -> str:
        """`classic` or `consumer`, as ListGroups says it."""
        ...

    @property
    def protocol_type(self) -> str:
        """`consumer`, `connect`, …; empty for a group that only has offsets."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """No members, so its offsets may expire and it may be deleted."""
        ...

    def validate_commit(
        self, member_id: str, generation: int, instance_id: str | None, *, version: int, transactional: bool = False
    ) -> int:
        """An error code; `generation` is a member epoch in the consumer protocol, `version` that of OffsetCommit or TxnOffsetCommit."""
        ...

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> int: ...

    def validate_delete(self) -> int: ...

    def validate_offset_delete(self) -> int: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def retention_start(self, commit: OffsetCommitValue) -> int | None:
        """When the retention time of a committed offset began; None while it may not expire."""
        ...

    def tombstones(self, timestamp: int) -> list[Record]:
        """Records that remove the group from the log (its offsets are not its own)."""
        ...

    def close(self, error_code: int) -> list[PendingAnswer]:
        """The group is deleted or moves to another coordinator: stop its timers; what to answer to those who wait."""
        ...


class ConsumerGroupService(Protocol):
    """The consumer protocol, registered in the group coordinator as `consumer_groups`.

    `heartbeat` and `describe` are its own requests; `on_topics_changed` tells it that topics were made or deleted, or got partitions.
    `replay` gets the records of key types 3 to 8 and 16 in the order of the log, and puts its groups into the coordinator's
    `groups`; `loaded` follows when a partition has been read to its end. The other four are requests of the classic protocol to a
    group of the consumer protocol, which is how groups are upgraded and downgraded while they work.
    """

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        answer: Callable[[ConsumerGroupHeartbeatResponse], None],
    ) -> Work[None]: ...

    def describe(self, request: ConsumerGroupDescribeRequest) -> Work[ConsumerGroupDescribeResponse]: ...

    def on_topics_changed(self) -> None: ...

    def replay(self, partition: int, key: Key, value: Value | None) -> None: ...

    def loaded(self, partition: int) -> None: ...

    def join_classic(
        self, request: JoinGroupRequest, version: int, client: Client, answer: Callable[[JoinGroupResponse], None]
    ) -> Work[None] | None: ...

    def sync_classic(self, request: SyncGroupRequest, version: int, answer: Callable[[SyncGroupResponse], None]) -> None: ...

    def heartbeat_classic(self, request: HeartbeatRequest) -> HeartbeatResponse: ...

    def leave_classic(
        self, group_id: str, leavers: Sequence[LeaveGroupRequest.Member]
    ) -> list[LeaveGroupResponse.Member]: ...

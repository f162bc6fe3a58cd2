"""A group coordinator with a log in memory and timers moved by hand; requests go through the handlers of `broker/requests`.

Requests and answers are encoded and decoded in the version they are sent in, so what a version cannot say does not get through.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from milepost.broker.dispatch import module_name
from milepost.broker.topology.alone import AloneCoordinators
from milepost.clock import ManualClock
from milepost.coordinator.group.group_coordinator import GroupCoordinator
from milepost.coordinator.group.group_settings import GroupSettings
from milepost.coordinator.transactions.transaction_admission import admit
from milepost.protocol import frames, headers
from milepost.protocol.apis import BY_NAME
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from milepost.record.internal_topics.consumer_protocol import SUBSCRIPTION, ConsumerProtocolSubscription
from tests.coordinator.group_surroundings import START_MS, ManualTimers, MemoryLog, Topics, Transactions, topic_id
from tests.coordinator.in_pieces import Pieces, handled

DAY_MS = 86_400_000


class Call:
    """A request under way: what the handlers see as their context, and what the client gets."""

    client_host = "/127.0.0.1"
    listener = "PLAINTEXT"
    may_describe = None

    def __init__(self, bench: GroupBench, key: int, version: int, client_id: str) -> None:
        self.broker = bench
        self.key = key
        self.version = version
        self.client_id = client_id
        self.responses: list[Any] = []

    def answer(self, response: Any) -> None:
        frame = frames.encode_response(self.key, self.version, 7, response)[4:]
        self.responses.append(frames.decode_response(self.key, self.version, frame)[1])

    @property
    def is_waiting(self) -> bool:
        return not self.responses

    @property
    def response(self) -> Any:
        (response,) = self.responses
        return response

    @property
    def error(self) -> int:
        code: int = self.response.error_code
        return code


def consumer(*topics: str) -> bytes:
    return SUBSCRIPTION.encode(ConsumerProtocolSubscription(topics=topics, schema_version=0))


VISITS = consumer("visits")


class GroupBench:
    node_id = 1

    def __init__(self, log: MemoryLog | None = None, *, topics: Topics | None = None, now_ms: int = START_MS, **settings: int):
        self.log = log or MemoryLog()
        self.clock = ManualClock(now_ms)
        self.timers = ManualTimers(self.clock)
        self.topics = topics or Topics()
        self.transactions = Transactions()
        self.ids = itertools.count(1)
        self.groups = GroupCoordinator(
            self.log,
            self.timers,
            self.clock,
            self.topics,
            GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings}),
            new_id=lambda: f"id{next(self.ids)}",
        )
        self.topology = SimpleNamespace(coordinators=AloneCoordinators(self))
        self.pieces = Pieces()

    def advertised(self, listener: str) -> tuple[str, int]:
        return "127.0.0.1", 9092

    @property
    def offsets_topic(self) -> MemoryLog:
        return self.log

    def asks_coordinator(self, admission: Any) -> bool:
        return True

    def admit(self, *arguments: Any) -> None:
        admit(self.transactions, *arguments)

    def load(self) -> GroupBench:
        for partition in range(self.log.partition_count):
            self.groups.load(partition)
        return self

    def restarted(self, **settings: int) -> GroupBench:
        """Another coordinator over the same log."""
        bench = GroupBench(self.log, topics=self.topics, now_ms=self.clock.now_ms(), **settings)
        bench.ids = self.ids
        return bench.load()

    def advance(self, milliseconds: int) -> None:
        self.timers.advance(milliseconds)

    def call(self, request: Any, version: int | None = None, client_id: str = "app") -> Call:
        api = BY_NAME[type(request).__name__.removesuffix("Request")]
        version = api.served[1] if version is None else version
        assert api.serves(version)
        frame = frames.encode_request(api.key, version, 7, client_id, request)[4:]
        body, left = frames.decode_request(headers.read_request_header(frame), frame)
        assert left == 0
        call = Call(self, api.key, version, client_id)
        handle = import_module(f"milepost.broker.requests.{module_name(api)}").handle
        response = handled(handle(body, call), self.pieces)
        if response is not None:
            call.answer(response)
        return call

    # The requests of a consumer, with less to write.

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = (("range", VISITS),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client_id: str = "app",
    ) -> Call:
        fields: dict[str, Any] = {"group_instance_id": instance} if version >= 5 else {}
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=metadata) for name, metadata in protocols],
            **fields,
        )
        return self.call(request, version, client_id)

    def enter(self, **options: Any) -> Call:
        """Join for the first time, with the round trip for the member id."""
        refused = self.join(**options)
        assert refused.error == ErrorCode.MEMBER_ID_REQUIRED
        return self.join(refused.response.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        version: int = 5,
        **fields: Any,
    ) -> Call:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequest.Assignment(member_id=name, assignment=assignment)
                for name, assignment in (assignments or {}).items()
            ],
            **fields,
        )
        return self.call(request, version)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> int:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)
        return self.call(request).error

    def leave(self, *members: str, group: str = "g") -> Call:
        leavers = [LeaveGroupRequest.Member(member_id=member_id) for member_id in members]
        return self.call(LeaveGroupRequest(group_id=group, members=leavers))

    def stable_group(self, count: int = 1, *, group: str = "g", **options: Any) -> list[str]:
        """A group with that many dynamic members, all assigned `b"<member id>"`; the leader first."""
        joins = [self.enter(group=group, **options) for _ in range(count)]
        self.advance(1)
        members = [join.response.member_id for join in joins]
        generation = joins[0].response.generation_id
        for member_id in reversed(members):
            assignments = {name: name.encode() for name in members} if member_id == joins[0].response.leader else {}
            sync = self.sync(member_id, generation, assignments, group=group)
        assert sync.error == 0
        return members

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        metadata: str | None = "",
        version: int = 9,
        **fields: Any,
    ) -> Call:
        topics: dict[str, list[Any]] = {}
        for (topic, partition), offset in offsets.items():
            entry = OffsetCommitRequest.Topic.Partition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(entry)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                OffsetCommitRequest.Topic(name=name, topic_id=topic_id(name), partitions=partitions)
                for name, partitions in topics.items()
            ],
            **fields,
        )
        return self.call(request, version)

    def commit_in_transaction(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = "g",
        producer_id: int = 5,
        version: int = 4,
        **fields: Any,
    ) -> Call:
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.Topic.Partition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
            **fields,
        )
        return self.call(request, version)

    def end_transaction(self, committed: bool, *, group: str = "g", producer_id: int = 5) -> None:
        partition = self.groups.partition_for(group)
        self.log.append_marker(partition, producer_id, committed)
        self.groups.complete_transaction(producer_id, partition, committed)

    def fetch(self, *, group: str = "g", version: int = 9, stable: bool = False) -> dict[tuple[str, int], Any]:
        """All offsets of a group: the offset, or ("error", code)."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group, topics=None)], require_stable=stable)
        (fetched,) = self.call(request, version).response.groups
        assert fetched.error_code == 0
        return {
            (topic.name, partition.partition_index): ("error", partition.error_code)
            if partition.error_code
            else partition.committed_offset
            for topic in fetched.topics
            for partition in topic.partitions
        }


def partition_errors(call: Call) -> list[int]:
    """Of a response with topics and partitions, in its order."""
    return [partition.error_code for topic in call.response.topics for partition in topic.partitions]

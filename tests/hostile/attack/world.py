"""What is in the broker that is attacked: topics, one of them wide; groups with offsets, one with a member; transactions that are open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.hostile.besieged import NOW, produce
from tests.waiting import until

TOPICS, GROUPS, TRANSACTIONS, WIDEST = 100, 50, 20, 200
HALF_AN_HOUR = 1_800_000
A_QUARTER = 900_000


@dataclass
class World:
    topics: dict[str, bytes] = field(default_factory=dict)
    """Name -> id; the first is the widest."""
    groups: list[str] = field(default_factory=list)
    member: str = ""
    generation: int = -1
    """Of the one member, which is in the first group."""
    transactions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Transactional id -> producer id and epoch."""
    widest: int = WIDEST
    numbers: dict[str, Iterator[int]] = field(default_factory=dict)
    """What fields of these names are given, the next of it in each request."""


def made(address: str, replicas: int = 1) -> World:
    """In the broker that is at this address."""
    world = World()
    with Wire(address) as wire:
        world.topics = topics(wire, replicas)
        world.groups = groups(wire, list(world.topics))
        world.member, world.generation = member(wire, world.groups[0])
        for number in range(TRANSACTIONS):
            name = f"transaction-{number}"
            world.transactions[name] = open_transaction(wire, name, list(world.topics)[1 + number])
    return world


def topics(wire: Wire, replicas: int) -> dict[str, bytes]:
    names = ["wide", *(f"topic-{number}" for number in range(TOPICS))]
    wanted = [
        CreateTopicsRequest.Topic(name=name, num_partitions=WIDEST if name == "wide" else 1, replication_factor=replicas)
        for name in names
    ]
    wire.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 7)
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names])
    until(
        lambda: not any(part.error_code for topic in wire.ask(asked, 12).topics for part in topic.partitions),
        "the topics are led",
    )
    for name in names[:20]:
        records = [Record(number, NOW, b"k%d" % number, b"v" * 100) for number in range(100)]
        assert produce(wire, name, build_batch(records, base_offset=0)).error_code == 0
    return {topic.name: topic.topic_id for topic in wire.ask(asked, 12).topics}


def groups(wire: Wire, names: list[str]) -> list[str]:
    made = [f"group-{number}" for number in range(GROUPS)]
    topic = OffsetCommitRequest.Topic
    parts = [topic(name=name, partitions=[topic.Partition(partition_index=0, committed_offset=1)]) for name in names[:10]]
    for group in made:
        asked = OffsetCommitRequest(group_id=group, topics=parts)
        until(lambda asked=asked: not wire.ask(asked, 7).topics[0].partitions[0].error_code, "the coordinator is there")
    return made


def member(wire: Wire, group: str) -> tuple[str, int]:
    def join(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=HALF_AN_HOUR,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
        )

    name = wire.ask(join(""), 5).member_id
    joined = wire.ask(join(name), 5)
    assert joined.error_code == 0
    given = [SyncGroupRequest.Assignment(member_id=name, assignment=b"all")]
    synced = SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=name, assignments=given)
    assert wire.ask(synced, 3).error_code == 0
    return name, joined.generation_id


def open_transaction(wire: Wire, name: str, topic: str) -> tuple[int, int]:
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=A_QUARTER)
    until(lambda: not wire.ask(asked, 2).error_code, "the coordinator is there")
    given = wire.ask(asked, 2)
    part = AddPartitionsToTxnRequest.V3AndBelowTopic(name=topic, partitions=[0])
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=given.producer_id,
        v3_and_below_producer_epoch=given.producer_epoch,
        v3_and_below_topics=[part],
    )
    until(
        lambda: not wire.ask(added, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, "it is open"
    )
    return given.producer_id, given.producer_epoch

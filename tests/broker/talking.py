"""What tests of behaviours ask a broker for, in the fewest words: produce, fetch, join, commit, begin and end transactions."""

from __future__ import annotations

import time
from typing import Any

from milepost.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.wire import Wire

TOPIC = "visits"
A_MINUTE = 60_000
SMALL = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
NOW = int(time.time() * 1000)
"""The first record of a batch is of this time, the next of a millisecond later. Older ones would roll segments."""


def listed(wire: Wire) -> dict[int, tuple[int, int]]:
    """First and last version of every API in ApiVersions."""
    answer = wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def batch(*values: bytes, key: bytes | None = b"k", **fields: Any) -> bytes:
    rows = [Record(offset, NOW + offset, key, value) for offset, value in enumerate(values)]
    return build_batch(rows, base_offset=0, **fields)


def produce_request(records: bytes, topic: str = TOPIC, acks: int = -1, transactional_id: str | None = None) -> ProduceRequest:
    data = ProduceRequest.TopicData
    part = data.PartitionData(index=0, records=memoryview(records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=A_MINUTE,
        topic_data=[data(name=topic, partition_data=[part])],
    )


def produce(wire: Wire, records: bytes, topic: str = TOPIC, version: int = 9, transactional_id: str | None = None) -> Any:
    request = produce_request(records, topic, transactional_id=transactional_id)
    return wire.ask(request, version).responses[0].partition_responses[0]


def fetch_request(offset: int = 0, topic: str = TOPIC, **fields: Any) -> FetchRequest:
    asked = FetchRequest.Topic
    part = asked.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    limits: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    return FetchRequest(topics=[asked(topic=topic, partitions=[part])], **limits)


def fetch(wire: Wire, offset: int = 0, topic: str = TOPIC, version: int = 11, **fields: Any) -> Any:
    return wire.ask(fetch_request(offset, topic, **fields), version).responses[0].partitions[0]


def values(records: Any) -> list[bytes | None]:
    """Of the records, without markers."""
    return [row.value for each in iter_batches(bytes(records)) if not each.is_control for row in each.records()]


def offset_at(wire: Wire, timestamp: int, topic: str = TOPIC, version: int = 7, isolation: int = 0) -> Any:
    asked = ListOffsetsRequest.Topic
    topics = [asked(name=topic, partitions=[asked.Partition(partition_index=0, timestamp=timestamp)])]
    return wire.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), version).topics[0].partitions[0]


class Transactional:
    """A transactional producer of the old way: it adds partitions itself."""

    def __init__(self, wire: Wire, name: str, timeout_ms: int = 60_000):
        self.wire = wire
        self.name = name
        self.sequence = 0
        answer = wire.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms), 4)
        self.error, self.producer_id, self.epoch = answer.error_code, answer.producer_id, answer.producer_epoch

    def write(self, *written: bytes) -> int:
        """Add the partition and append a batch; its offset."""
        topics = [AddPartitionsToTxnRequest.V3AndBelowTopic(name=TOPIC, partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        added = self.wire.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
        assert added.partition_error_code == 0
        records = batch(
            *written,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        self.sequence += len(written)
        answer = produce(self.wire, records, transactional_id=self.name)
        assert answer.error_code == 0
        return int(answer.base_offset)

    def commit_offset(self, group: str, offset: int) -> None:
        fields = {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch, "group_id": group}
        assert self.wire.ask(AddOffsetsToTxnRequest(**fields), 3).error_code == 0
        part = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
        topics = [TxnOffsetCommitRequest.Topic(name=TOPIC, partitions=[part])]
        answer = self.wire.ask(TxnOffsetCommitRequest(topics=topics, **fields), 3)
        assert answer.topics[0].partitions[0].error_code == 0

    def end(self, committed: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed
        )
        return int(self.wire.ask(request, 3).error_code)


def join_request(group: str, member: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"subscription")]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=A_MINUTE,
        rebalance_timeout_ms=A_MINUTE,
        member_id=member,
        protocol_type="consumer",
        protocols=protocols,
    )


def join(wire: Wire, group: str) -> Any:
    """Ask for a member id, then join with it."""
    first = wire.ask(join_request(group), 5)
    assert first.error_code == 79
    return wire.ask(join_request(group, first.member_id), 5)


def sync_request(group: str, joined: Any, assignments: dict[str, bytes] | None = None) -> SyncGroupRequest:
    rows = [SyncGroupRequest.Assignment(member_id=member, assignment=given) for member, given in (assignments or {}).items()]
    return SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=rows)


def commit(wire: Wire, group: str, offset: int, metadata: str | None = "", topic: str = TOPIC) -> int:
    part = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequest.Topic(name=topic, partitions=[part])])
    return int(wire.ask(request, 7).topics[0].partitions[0].error_code)


def committed(wire: Wire, group: str, stable: bool = False, topic: str = TOPIC) -> Any:
    asked = [OffsetFetchRequest.Topic(name=topic, partition_indexes=[0])]
    answer = wire.ask(OffsetFetchRequest(group_id=group, topics=asked, require_stable=stable), 7)
    assert answer.error_code == 0
    return answer.topics[0].partitions[0]

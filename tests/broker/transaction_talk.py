"""Requests about transactions in one line each, and their answers as text: what a broker says can be compared with what another said.

Producer ids are written as `p1`, `p2` in the order in which they appear, since no two brokers give out the same ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from milepost.protocol.error_codes import error_name
from milepost.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    UpdateFeaturesRequest,
    WriteTxnMarkersRequest,
)
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

REST_SECONDS = 60
RESTING = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "")
"""States in which nothing happens by itself."""


class Producer(NamedTuple):
    producer_id: int
    epoch: int


class Talk:
    """One conversation; `lines` is what was said."""

    def __init__(self, bootstrap_servers: str, wire: Wire | None = None):
        self.wire = wire or Wire(bootstrap_servers)
        self.lines: list[str] = []
        self._producer_ids: dict[int, str] = {-1: "none"}
        self._topic_ids: dict[str, bytes] = {}

    def close(self) -> None:
        self.wire.close()

    def title(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def topic(self, name: str, partitions: int = 2) -> None:
        # The records are of 1970, and Kafka begins to delete old ones half a minute after it has started.
        self._topic_ids[name] = create(self.wire, wanted(name, partitions, retention_ms="-1"))[0]
        # Kafka's answer may come before its partitions can be used.
        deadline = time.monotonic() + REST_SECONDS
        while any(self._listed(name, number).error_code for number in range(partitions)) and time.monotonic() < deadline:
            time.sleep(0.02)

    def coordinators(self, *names: str) -> None:
        """Wait until there are coordinators: Kafka makes the internal topics when they are asked for."""
        deadline = time.monotonic() + REST_SECONDS
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(names))
            while any(each.error_code for each in self.wire.ask(request, 4).coordinators) and time.monotonic() < deadline:
                time.sleep(0.02)

    # Requests.

    def init(self, name: str | None, version: int = 5, known: Producer | None = None, timeout_ms: int = 600_000) -> Producer:
        """Asked until the id is free: Kafka ends transactions on its own time."""
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
        if known is not None:
            request.producer_id, request.producer_epoch = known
        answer = self._patiently(request, version, lambda answer: answer.error_code)
        self._say(f"InitProducerId {version} {name} {self._named(known)}", self._producer(answer))
        return Producer(answer.producer_id, answer.producer_epoch)

    def produce(self, name: str | None, producer: Producer, where: str, sequence: int, version: int = 12, count: int = 1) -> None:
        topic, _, partition = where.rpartition("-")
        records = [Record(number, 1000 + sequence + number, b"k", b"%d" % (sequence + number)) for number in range(count)]
        batch = build_batch(
            records,
            base_offset=0,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=name is not None,
        )
        data = ProduceRequest.TopicData
        part = data.PartitionData(index=int(partition), records=memoryview(batch))
        named = {"topic_id": self._topic_ids[topic]} if version >= 13 else {"name": topic}
        request = ProduceRequest(
            transactional_id=name, acks=-1, timeout_ms=60_000, topic_data=[data(partition_data=[part], **named)]
        )
        answer = self._patiently(request, version, lambda answer: answer.responses[0].partition_responses[0].error_code)
        found = answer.responses[0].partition_responses[0]
        text = f"{error_name(found.error_code)} {found.base_offset}"
        self._say(f"Produce {version} {name} {self._named(producer)} {where} sequence {sequence} x{count}", text)

    def add(self, name: str, producer: Producer, *partitions: str, version: int = 3) -> None:
        topics = AddPartitionsToTxnRequest.V3AndBelowTopic
        grouped: dict[str, list[int]] = {}
        for where in partitions:
            grouped.setdefault(where.rpartition("-")[0], []).append(int(where.rpartition("-")[2]))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[topics(name=topic, partitions=numbers) for topic, numbers in grouped.items()],
        )
        answer = self.wire.ask(request, version)
        errors = {
            f"{topic.name}-{part.partition_index}": error_name(part.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }
        text = " ".join(f"{where} {errors[where]}" for where in sorted(errors))
        self._say(f"AddPartitionsToTxn {version} {name} {self._named(producer)} {' '.join(partitions)}", text)

    def add_offsets(self, name: str, producer: Producer, group: str, version: int = 4) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id=group
        )
        answer = self.wire.ask(request, version)
        self._say(f"AddOffsetsToTxn {version} {name} {self._named(producer)} {group}", error_name(answer.error_code))

    def commit_offset(
        self,
        name: str,
        producer: Producer,
        group: str,
        where: str,
        offset: int,
        version: int = 5,
        member: tuple[str, int] = ("", -1),
    ) -> None:
        topic, _, partition = where.rpartition("-")
        asked = TxnOffsetCommitRequest.Topic
        part = asked.Partition(partition_index=int(partition), committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[asked(name=topic, partitions=[part])],
            member_id=member[0],
            generation_id=member[1],
        )
        answer = self._patiently(request, version, lambda answer: answer.topics[0].partitions[0].error_code)
        text = error_name(answer.topics[0].partitions[0].error_code)
        self._say(f"TxnOffsetCommit {version} {name} {self._named(producer)} {group} {where} {offset}", text)

    def end(self, name: str, producer: Producer, committed: bool, version: int = 5) -> Producer:
        """And until the id rests again."""
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=committed
        )
        answer = self.wire.ask(request, version)
        told = self._producer(answer) if version >= 5 else error_name(answer.error_code)
        self._say(f"EndTxn {version} {name} {self._named(producer)} {'commit' if committed else 'abort'}", told)
        self.until(name, *RESTING)
        return Producer(answer.producer_id, answer.producer_epoch) if version >= 5 and not answer.error_code else producer

    def until(self, name: str, *states: str) -> None:
        """Wait until the transaction is in one of these states."""
        deadline = time.monotonic() + REST_SECONDS
        while self._state(name).transaction_state not in states and time.monotonic() < deadline:
            time.sleep(0.005)

    def mark(
        self, producer: Producer, committed: bool, *partitions: str, coordinator_epoch: int = 0, version: int = 2, level: int = 0
    ) -> None:
        """WriteTxnMarkers; `level` is the transaction.version of the transaction."""
        asked = WriteTxnMarkersRequest.Marker
        marker = asked(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=committed,
            topics=[
                asked.Topic(name=where.rpartition("-")[0], partition_indexes=[int(where.rpartition("-")[2])])
                for where in partitions
            ],
            coordinator_epoch=coordinator_epoch,
        )
        if version >= 2:
            marker.transaction_version = level
        (answer,) = self.wire.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers
        errors = {
            f"{topic.name}-{part.partition_index}": error_name(part.error_code)
            for topic in answer.topics
            for part in topic.partitions
        }
        text = " ".join(f"{where} {errors[where]}" for where in sorted(errors))
        kind = f"{'commit' if committed else 'abort'} coordinator {coordinator_epoch} level {level}"
        self._say(f"WriteTxnMarkers {version} {self._named(producer)} {kind} {' '.join(partitions)}", text)

    def level(self, level: int, upgrade_type: int) -> None:
        """UpdateFeatures of transaction.version."""
        update = UpdateFeaturesRequest.FeatureUpdate(
            feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type
        )
        answer = self.wire.ask(UpdateFeaturesRequest(timeout_ms=60_000, feature_updates=[update]), 2)
        self._say(f"transaction.version {level}", error_name(answer.error_code))

    # What there is.

    def transaction(self, name: str) -> None:
        """DescribeTransactions."""
        found = self._state(name)
        partitions = sorted(f"{topic.topic}-{part}" for topic in found.topics for part in topic.partitions)
        who = self._named(Producer(found.producer_id, found.producer_epoch)) if not found.error_code else ""
        begun = "begun" if found.transaction_start_time_ms > 0 else "not begun"
        text = f"{error_name(found.error_code)} {found.transaction_state} {who} {begun} {' '.join(partitions)}"
        self._say(f"DescribeTransactions {name}", text)

    def producers(self, where: str) -> None:
        """DescribeProducers."""
        topic, _, partition = where.rpartition("-")
        asked = DescribeProducersRequest.Topic(name=topic, partition_indexes=[int(partition)])
        found = self.wire.ask(DescribeProducersRequest(topics=[asked]), 0).topics[0].partitions[0]
        text = [error_name(found.error_code)]
        for each in sorted(found.active_producers, key=lambda each: each.producer_id):
            text.append(
                f"{self._named(Producer(each.producer_id, each.producer_epoch))} sequence {each.last_sequence} "
                f"coordinator {each.coordinator_epoch} start {each.current_txn_start_offset}"
            )
        self._say(f"DescribeProducers {where}", "; ".join(text))

    def committed_offset(self, group: str, where: str, *, stable: bool = False) -> None:
        topic, _, partition = where.rpartition("-")
        asked = OffsetFetchRequest.Group
        one = asked(group_id=group, topics=[asked.Topic(name=topic, partition_indexes=[int(partition)])])
        answer = self.wire.ask(OffsetFetchRequest(groups=[one], require_stable=stable), 8).groups[0]
        found = answer.topics[0].partitions[0]
        text = f"{error_name(answer.error_code)} {error_name(found.error_code)} {found.committed_offset}"
        self._say(f"OffsetFetch {group} {where}{' stable' if stable else ''}", text)

    def log(self, where: str) -> None:
        """What read_committed sees: the last stable offset, the end, the aborted transactions."""
        topic, _, partition = where.rpartition("-")
        offset, stable = 0, 1
        aborted: dict[str, None] = {}
        while offset < stable:
            found = self._fetched(topic, int(partition), offset)
            stable = found.last_stable_offset
            aborted |= {f"{self._id(each.producer_id)} from {each.first_offset}": None for each in found.aborted_transactions}
            # Kafka gives one batch or many.
            offset = max([batch.next_offset for batch in iter_batches(bytes(found.records or b""))], default=stable)
        text = f"stable {stable} of {self._listed(topic, int(partition)).offset} aborted {', '.join(aborted) or 'none'}"
        self._say(f"Fetch {where}", text)

    def _fetched(self, topic: str, partition: int, offset: int) -> Any:
        asked = FetchRequest.Topic
        part = asked.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1, topics=[asked(topic=topic, partitions=[part])]
        )
        return self.wire.ask(request, 11).responses[0].partitions[0]

    def _listed(self, topic: str, partition: int) -> Any:
        asked = ListOffsetsRequest.Topic
        part = asked.Partition(partition_index=partition, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[asked(name=topic, partitions=[part])])
        return self.wire.ask(request, 4).topics[0].partitions[0]

    def _state(self, name: str) -> Any:
        return self.wire.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states[0]

    # Saying it.

    def _patiently(self, request: Any, version: int, error_of: Any) -> Any:
        """Asked again while the answer is "not now": 14 and 15 loading, 16 not the coordinator yet, 51 still ending."""
        deadline = time.monotonic() + REST_SECONDS
        while True:
            answer = self.wire.ask(request, version)
            if error_of(answer) not in (14, 15, 16, 51) or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def _say(self, asked: str, answer: str) -> None:
        self.lines.append(f"{asked}: {' '.join(answer.split())}")

    def _producer(self, answer: Any) -> str:
        return f"{error_name(answer.error_code)} {self._named(Producer(answer.producer_id, answer.producer_epoch))}"

    def _named(self, producer: Producer | Sequence[int] | None) -> str:
        return "-" if producer is None else f"{self._id(producer[0])}/{producer[1]}"

    def _id(self, producer_id: int) -> str:
        return self._producer_ids.setdefault(producer_id, f"p{len(self._producer_ids)}")

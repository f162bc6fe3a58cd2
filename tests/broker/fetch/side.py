"""One of several brokers that are asked the same: it answers in words that do not depend on which it is."""

from __future__ import annotations

import logging
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from milepost.broker.fetch.consumer import Consumer
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.clock import ManualClock
from milepost.metrics.topic_metrics import BY_TOPIC
from milepost.protocol import frames
from milepost.protocol.messages import (
    AddPartitionsToTxnRequest,
    DeleteRecordsRequest,
    EndTxnRequest,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    ProduceRequest,
)
from milepost.segment.file_records import FileSlice
from tests.broker.conftest import SETTINGS
from tests.broker.fetch.random_fetches import CONNECTIONS, NOW, PARTITIONS, TRANSACTIONAL
from tests.broker.on_loop import on_loop
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire
from tests.waiting import until

FETCH = 1
CONCURRENT_TRANSACTIONS = 51


class Lines(logging.Handler):
    """What is logged, by the thread that it is logged on."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[int, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        line = f"{record.name} {record.levelname} {record.getMessage()} {error}".rstrip()
        self.of.setdefault(record.thread or 0, []).append(line)


class Side:
    """One of the two brokers, with the connections to it."""

    def __init__(self, directory: Path):
        settings = {"log.dirs": str(directory), "fetch.max.bytes": "100000", "transaction.state.log.num.partitions": "1"}
        self.directory = directory
        self.life = Life(AloneBroker({**settings, **SETTINGS}, clock=ManualClock(NOW), rng=random.Random(1)))
        self.broker = self.life.__enter__()
        self.thread = on_loop(self.broker, threading.get_ident)
        self.admin = Wire(self.broker.bootstrap_servers)
        self.wires = [Wire(self.broker.bootstrap_servers) for _ in range(CONNECTIONS)]
        self.topic_ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self.session_ids = dict.fromkeys(range(CONNECTIONS), 0)

    def close(self) -> None:
        for wire in (self.admin, *self.wires):
            wire.close()
        self.life.__exit__(None, None, None)

    def create(self, topic: str) -> None:
        (topic_id,) = create(self.admin, wanted(topic, PARTITIONS))
        self.topic_ids[topic] = topic_id
        self.names[topic_id] = f"{topic} {len(self.names)}"

    def begin(self, name: str) -> tuple[int, int]:
        answer = self.admin.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def write(self, name: str, producer: tuple[int, int], partition: int, batch: bytes) -> tuple[int, int]:
        """A batch of a transaction, which has the partition then."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnRequest.V3AndBelowTopic(name=TRANSACTIONAL, partitions=[partition])],
        )

        def added() -> bool:
            (code,) = self.admin.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition
            assert code.partition_error_code in (0, CONCURRENT_TRANSACTIONS)
            return not code.partition_error_code

        until(added, "the last transaction is still ending")
        return self.produce(TRANSACTIONAL, partition, batch, name)

    def end(self, name: str, producer: tuple[int, int], committed: bool, ends: list[int]) -> None:
        """`ends`: of the partitions, when the markers are there."""
        request = EndTxnRequest(transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=committed)
        assert self.admin.ask(request, 3).error_code == 0
        logs = [self.broker.replicas.partition_of(TRANSACTIONAL, number).log for number in range(PARTITIONS)]
        until(lambda: on_loop(self.broker, lambda: [log.end_offset for log in logs]) == ends, f"the ends are not {ends}")

    def produce(self, topic: str, partition: int, batch: bytes, transactional_id: str | None = None) -> tuple[int, int]:
        data = ProduceRequest.TopicData
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[data(name=topic, partition_data=[data.PartitionData(index=partition, records=batch)])],
        )
        part = self.admin.ask(request, 9).responses[0].partition_responses[0]
        return part.error_code, part.base_offset

    def delete_records(self, topic: str, partition: int, offset: int) -> int:
        asked = DeleteRecordsRequest.Topic
        part = asked.Partition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(topics=[asked(name=topic, partitions=[part])], timeout_ms=60_000)
        return self.admin.ask(request, 2).topics[0].partitions[0].error_code

    def fetch(self, number: int, version: int, named: list[tuple[str, bool, dict[str, int]]], **fields: Any) -> Any:
        """`named`: topics, and whether by the id of their first life. The session of another connection is named by its number.

        `cut`: how many bytes of the request are not sent. `fault`: what goes wrong while it is answered.
        """
        by_id = version >= 13
        topics = [
            FetchRequest.Topic(
                topic="" if by_id else topic,
                topic_id=(next(iter(self.names)) if is_old else self.topic_ids.get(topic, bytes(16))) if by_id else bytes(16),
                partitions=[FetchRequest.Topic.Partition(**part)],
            )
            for topic, is_old, part in named
        ]
        forgotten = [
            FetchRequest.ForgottenTopicsData(
                topic="" if by_id else topic,
                topic_id=self.topic_ids.get(topic, bytes(16)) if by_id else bytes(16),
                partitions=[partition],
            )
            for topic, partition in fields.pop("forgotten", [])
        ]
        whose = fields.pop("session_of", None)
        cut, fault = fields.pop("cut", 0), fields.pop("fault", "")
        session_id = 0 if whose is None else self.session_ids[whose]
        request = FetchRequest(topics=topics, forgotten_topics_data=forgotten, session_id=session_id, **fields)
        wire = self.wires[number]
        frame = frames.encode_request(FETCH, version, 1, wire.client_id, request)[4:]
        body = frame[: len(frame) - cut]
        with FAULTS[fault]():
            wire.socket.sendall(len(body).to_bytes(4, "big") + body)
            try:
                response: FetchResponse = frames.decode_response(FETCH, version, wire.read_frame())[1]
            except ConnectionError:
                wire.reconnect()
                return "closed"
        is_ours = whose is not None and response.session_id == session_id
        if fields.get("session_epoch") == 0:
            self.session_ids[number] = response.session_id
        return (
            response.error_code,
            bool(response.session_id),
            is_ours,
            [
                (
                    self.names.get(topic.topic_id, topic.topic),
                    part.partition_index,
                    part.error_code,
                    (part.high_watermark, part.last_stable_offset, part.log_start_offset),
                    [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()],
                    part.preferred_read_replica,
                    bytes(part.records or b""),
                )
                for topic in response.responses
                for part in topic.partitions
            ],
        )

    def counts(self) -> Any:
        """Of fetches by version and error, and of what went through topics."""

        def read() -> Any:
            meters = self.broker.request_metrics._meters
            requests = {key: meter.requests for key, meter in meters.items() if key[0] == "FetchConsumer"}
            errors = {key: meters[key].errors + Counter({0: meters[key].successes}) for key in requests}
            topics = self.broker.replicas.topic_metrics
            return requests, errors, {attribute: dict(topics._samples(attribute)) for attribute in BY_TOPIC}

        return on_loop(self.broker, read)

    def lines(self, logged: Lines) -> list[str]:
        """What its loop has logged."""
        lines = on_loop(self.broker, lambda: list(logged.of.get(self.thread, ())))
        return [re.sub(r"127\.0\.0\.1:\d+", "PEER", line.replace(str(self.directory), "DIR")) for line in lines]


@contextmanager
def fails(owner: type, name: str, error: Exception) -> Iterator[None]:
    def failing(*given: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, failing)
        yield


@contextmanager
def all_is_well() -> Iterator[None]:
    yield


FAULTS = {
    "": all_is_well,
    "of the disk": lambda: fails(FileSlice, "read", OSError(5, "Input/output error")),
    "of ours": lambda: fails(Consumer, "count_bytes", IndexError("a mistake")),
}

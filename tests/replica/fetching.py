"""A follower's fetcher and the log of its leader, without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from milepost import open_log
from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.errors import BrokerUnavailable, OffsetOutOfRange
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.protocol import frames, headers
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.messages import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.replica.fetcher import Fetcher, FetcherSettings
from milepost.replica.following import Following
from milepost.replica.metadata import BrokerInfo
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.topic_partition import TopicPartition
from tests.simulation.turns import Turns

NAME = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
Part = FetchResponse.Response.Partition


class Leader:
    """A broker that serves Fetch, ListOffsets and OffsetForLeaderEpoch from one log, and notes what it is asked."""

    def __init__(self, log: Log, turns: Turns, epoch: int):
        self.log = log
        self.turns = turns
        self.epoch = epoch
        self.asked: list[Any] = []
        self.error = 0
        self.is_gone = False
        self.session_id = 7
        self.repeated = 0
        self.refusals: list[int] = []

    def send(
        self, broker: BrokerInfo, request: Any, version: int, on_answer: Callable[..., Any], on_failure: Any, **options: Any
    ) -> None:
        repeated = request if isinstance(request, RepeatedFetch) else None
        if repeated is not None:
            frame = repeated.encode(0, "test")[4:]
            request, _ = frames.decode_request(headers.read_request_header(frame), frame)
            self.repeated += 1
        self.asked.append(request)
        if self.is_gone:
            self.turns.post(lambda: on_failure(BrokerUnavailable("gone")))
            return
        kind = type(request).__name__
        response = {"FetchRequest": self.fetch, "ListOffsetsRequest": self.list_offsets}.get(kind, self.epochs)(request)
        has_records = kind == "FetchRequest" and response.responses and response.responses[0].partitions[0].records
        if repeated is not None:
            response = repeated.decode(memoryview(bytearray(frames.encode_response(1, version, 0, response)[4:])))
        if kind == "FetchRequest" and not has_records:
            self.turns.later(0.5, lambda: on_answer(response))
        else:
            self.turns.post(lambda: on_answer(response))

    def fetch(self, request: Any) -> FetchResponse:
        if self.refusals:
            return FetchResponse(error_code=self.refusals.pop())
        if request.topics:
            (self.position,) = request.topics[0].partitions
        if request.forgotten_topics_data:
            return FetchResponse(session_id=self.session_id)
        part = Part(
            partition_index=0,
            error_code=self.error,
            high_watermark=self.log.high_watermark,
            log_start_offset=self.log.start_offset,
            aborted_transactions=None,
        )
        if not self.error:
            self.answer(part)
        return FetchResponse(session_id=self.session_id, responses=[FetchResponse.Response(topic_id=TOPIC_ID, partitions=[part])])

    def answer(self, part: Any) -> None:
        asked = self.position
        if asked.current_leader_epoch != self.epoch:
            part.error_code = 74 if asked.current_leader_epoch < self.epoch else 75
            return
        if asked.last_fetched_epoch >= 0:
            epoch, end = self.log.epochs.end_offset_for(asked.last_fetched_epoch, self.log.end_offset)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                part.diverging_epoch = Part.DivergingEpoch(epoch=epoch, end_offset=end)
                return
        try:
            part.records = self.log.read(asked.fetch_offset, asked.partition_max_bytes, Isolation.LOG_END).data
        except OffsetOutOfRange:
            part.error_code = 1

    def list_offsets(self, request: Any) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        offset = self.log.start_offset if asked.timestamp == -2 else self.log.end_offset
        topic = ListOffsetsResponse.Topic
        return ListOffsetsResponse(topics=[topic(name="t", partitions=[topic.Partition(partition_index=0, offset=offset)])])

    def epochs(self, request: Any) -> OffsetForLeaderEpochResponse:
        (asked,) = request.topics[0].partitions
        epoch, end = self.log.epochs.end_offset_for(asked.leader_epoch, self.log.end_offset)
        topic = OffsetForLeaderEpochResponse.Topic
        return OffsetForLeaderEpochResponse(
            topics=[topic(topic="t", partitions=[topic.Partition(partition=0, leader_epoch=epoch, end_offset=end)])]
        )


class Pair:
    def __init__(self, tmp_path: Path):
        for name in ("leader", "follower"):
            (tmp_path / name).mkdir()
        self.turns, self.clock = Turns(), ManualClock(1_700_000_000_000)
        config = {"segment.bytes": 2000, "index.interval.bytes": 200}
        self.leader_log = open_log(str(tmp_path / "leader/t-0"), "a", config, clock=self.clock)
        self.log = open_log(str(tmp_path / "follower/t-0"), "a", config, clock=self.clock)
        self.quota = ReplicationQuotas(2, BrokerConfig(), self.clock.now_ms).follower
        self.progress: list[int] = []
        self.failed: list[Any] = []

    def follow(self, epoch: int, **settings: Any) -> None:
        self.leader = Leader(self.leader_log, self.turns, epoch)
        self.fetcher = Fetcher(
            BrokerInfo(1, 10, ()),
            0,
            FetcherSettings(2, **settings),
            self.leader,  # type: ignore[arg-type]
            self.turns,
            self.clock,
            lambda: 33,
            lambda name, size: self.progress.append(size),
            lambda name, error: self.failed.append(error),
            self.quota,
        )
        self.following = Following(self.log, TOPIC_ID, epoch)
        self.fetcher.add(NAME, self.following)

    def advance(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.turns.advance(0.1)
            self.clock.advance(100)

    def equal(self) -> bool:
        stored = [
            b"".join(path.read_bytes() for path in sorted(Path(log.directory).glob("*.log")))
            for log in (self.leader_log, self.log)
        ]
        return stored[0] == stored[1]

    def close(self) -> None:
        self.leader_log.close()
        self.log.close()


def write(log: Log, epoch: int, *values: str) -> None:
    for value in values:
        log.append_as_leader(build_batch([Record(0, 1_700_000_000_000, None, value.encode() * 20)]), leader_epoch=epoch)


def values(log: Log) -> list[str]:
    """Of every record on disk, committed or not."""
    stored = b"".join(path.read_bytes() for path in sorted(Path(log.directory).glob("*.log")))
    return [record.value[:1].decode() for batch in iter_batches(stored) for record in batch.records() if record.value]

"""A stream, trigger by trigger, without a JVM: what is read, what is held back, and what is lost."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql.streaming.datasource import ReadAllAvailable

import milepost
from milepost.errors import InvalidArgument, OffsetOutOfRange
from milepost.log.open import open_log
from milepost.record.records import Record
from milepost.spark import group_offsets
from milepost.spark.admission import Admission
from milepost.spark.columns import Columns
from milepost.spark.log_files.memory import Pace
from milepost.spark.options import SourceOptions
from milepost.spark.stream_reader import MilepostStreamReader
from milepost.topic_partition import TopicPartition
from tests.spark.logs import many_batches, write_log
from tests.waiting import PATIENCE, until

COLUMNS = Columns.of("records", False)


class Stream:
    """A query as Spark drives it: latestOffset, partitions, read, commit."""

    def __init__(self, options: dict[str, Any], start: dict[str, Any] | None = None):
        parsed = SourceOptions.parse({name: str(value) for name, value in options.items()}, streaming=True)
        self.reader = MilepostStreamReader(parsed, COLUMNS)
        self.position = self.reader.initialOffset() if start is None else start

    def trigger(self, limit: Any = None) -> list[tuple[str, int, int]]:
        """The rows of one trigger: topic, partition, offset."""
        end = self.reader.latestOffset(self.position, limit or self.reader.getDefaultReadLimit())
        rows = []
        if end != self.position:
            for part in self.reader.partitions(self.position, end):
                task = pickle.loads(pickle.dumps(self.reader))
                for batch in task.read(pickle.loads(pickle.dumps(part))):
                    columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
                    rows += zip(*columns, strict=True)
            self.position = end
            self.reader.commit(end)
        return sorted(rows)


@pytest.fixture(params=["path", "wire"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Stream]]:
    """The same log twice: over its files, or over a broker."""
    write_log(tmp_path, "t", 0, list(many_batches(40)), interval=100)
    write_log(tmp_path, "t", 1, list(many_batches(10)), interval=100)
    streams: list[Stream] = []
    running = milepost.Broker(tmp_path) if request.param == "wire" else None
    if running is not None:
        running.start()

    def start(position: dict[str, Any] | None = None, **options: Any) -> Stream:
        place = {"kafka.bootstrap.servers": running.bootstrap_servers} if running else {"path": tmp_path}
        streams.append(Stream({**place, "subscribe": "t", **options}, position))
        return streams[-1]

    yield start
    for stream in streams:
        stream.reader.stop()
    if running is not None:
        running.stop()


def test_from_the_beginning(transport):
    stream = transport(startingOffsets="earliest")
    assert stream.position == {"t": {"0": 0, "1": 0}}
    assert len(stream.trigger()) == 150
    assert stream.position == {"t": {"0": 120, "1": 30}}
    assert stream.trigger() == []
    assert stream.reader.reportLatestOffset() == {"t": {"0": 120, "1": 30}}


def test_a_stream_starts_at_the_end_by_default(transport):
    stream = transport()
    assert stream.position == {"t": {"0": 120, "1": 30}}
    assert stream.trigger() == []


def test_limit_is_shared_by_backlog(transport):
    stream = transport(startingOffsets="earliest", maxOffsetsPerTrigger=50)
    rows = stream.trigger()
    assert len(rows) == 50
    assert stream.position == {"t": {"0": 40, "1": 10}}
    everything = rows
    while rows := stream.trigger():
        assert len(rows) <= 50
        everything += rows
    assert sorted(everything) == [("t", 0, offset) for offset in range(120)] + [("t", 1, offset) for offset in range(30)]


def test_everything_at_once_whatever_the_limit(transport):
    stream = transport(startingOffsets="earliest", maxOffsetsPerTrigger=50)
    assert len(stream.trigger(ReadAllAvailable())) == 150


def test_limit_by_bytes(transport):
    stream = transport(startingOffsets="earliest", maxBytesPerTrigger="2k")
    total, triggers = 0, 0
    while rows := stream.trigger():
        total, triggers = total + len(rows), triggers + 1
    assert total == 150
    assert 3 <= triggers <= 12


def test_available_now_ends_where_the_query_began(transport, tmp_path):
    stream = transport(startingOffsets="earliest", maxOffsetsPerTrigger=60)
    stream.reader.prepareForTriggerAvailableNow()
    seen = [len(stream.trigger()) for _ in range(6)]
    assert sum(seen) == 150
    assert seen[-1] == 0


def test_checkpoint_of_the_connector_is_understood(transport):
    stream = transport({"t": {"0": 100, "1": 0}})
    assert len(stream.trigger()) == 50


def test_partition_that_comes_later_is_read_from_its_first_offset(transport):
    stream = transport({"t": {"0": 120}})
    assert stream.trigger() == [("t", 1, offset) for offset in range(30)]


def test_partition_that_is_gone_is_data_loss(transport):
    stream = transport({"t": {"0": 120, "1": 30, "7": 5}})
    with pytest.raises(OffsetOutOfRange, match="data loss: t-7: gone, offsets from 5 on were not read yet"):
        stream.trigger()
    forgiving = transport({"t": {"0": 110, "1": 30, "7": 5}}, failOnDataLoss="false")
    assert len(forgiving.trigger()) == 10


@pytest.fixture(params=["path", "wire"])
def made_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """A broker with 10 records in `t`, and a stream that has read them, over its files or over the wire."""
    streams: list[Stream] = []
    # The end of the log counts: high watermarks are checkpointed later.
    with milepost.Broker(tmp_path) as running:
        place = {"kafka.bootstrap.servers": running.bootstrap_servers} if request.param == "wire" else {"path": tmp_path}

        def produce(count: int) -> None:
            producer = Producer({"bootstrap.servers": running.bootstrap_servers, "acks": "all", "log_level": 0})
            for number in range(count):
                producer.produce("t", b"%d" % number)
            assert producer.flush(PATIENCE) == 0

        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1), NewTopic("other", 1, 1)])["t"].result(PATIENCE)
        produce(10)

        def begin(**options: Any) -> tuple[Stream, Callable[[], None], Callable[[int], None]]:
            given = {**place, "subscribe": "t", "startingOffsets": "earliest", "endOfLog": "logEnd", **options}
            streams.append(Stream(given))
            assert len(streams[-1].trigger()) == 10

            def delete() -> None:
                admin.delete_topics(["t"])["t"].result(PATIENCE)
                until(lambda: not (tmp_path / "t-0").exists())

            def make(count: int) -> None:
                admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE)
                produce(count)

            return streams[-1], delete, make

        yield begin
        for stream in streams:
            stream.reader.stop()


def test_stream_whose_topic_is_deleted_goes_on_when_it_is_made_again(made_again, caplog):
    stream, delete, make = made_again(failOnDataLoss="false")
    delete()
    assert stream.trigger() == []
    assert stream.trigger() == []
    assert "data loss: t-0: gone, offsets from 10 on were not read yet" in caplog.text
    make(4)
    assert stream.trigger() == [("t", 0, offset) for offset in range(4)]


def test_deleted_topic_of_a_stream_is_named_as_data_loss(made_again):
    stream, delete, make = made_again()
    delete()
    with pytest.raises(OffsetOutOfRange, match="data loss: t-0: gone, offsets from 10 on were not read yet"):
        stream.trigger()
    make(4)
    with pytest.raises(OffsetOutOfRange, match="data loss: t-0: was read up to 9, and the log ends at 3"):
        stream.trigger()


def test_topic_that_is_gone_before_its_tasks_are_planned_is_data_loss(made_again):
    stream, delete, _ = made_again(failOnDataLoss="false")
    delete()
    assert stream.reader.partitions({"t": {"0": 5}}, {"t": {"0": 10}}) == []
    strict = MilepostStreamReader(dataclasses.replace(stream.reader.options, fail_on_data_loss=True), COLUMNS)
    with pytest.raises(OffsetOutOfRange, match="data loss: t-0: gone, offsets 5 to 9 are asked for"):
        strict.partitions({"t": {"0": 5}}, {"t": {"0": 10}})
    strict.stop()


def test_topic_that_never_was_is_still_a_mistake(tmp_path):
    write_log(tmp_path, "t", 0, list(many_batches(1)))
    with pytest.raises(InvalidArgument, match=r"there is no topic visits in .*; topics there: t"):
        Stream({"path": tmp_path, "subscribe": "visits"})


def test_log_that_was_cut_is_data_loss(transport):
    stream = transport({"t": {"0": 500, "1": 0}})
    with pytest.raises(OffsetOutOfRange, match="data loss: t-0"):
        stream.trigger()


def test_growing_files_are_followed(tmp_path):
    stream_data = tmp_path / "t-0"
    with open_log(str(stream_data), "a") as log:
        log.append([Record(0, 0, None, b"a")])
        stream = Stream({"path": tmp_path, "subscribe": "t", "startingOffsets": "earliest", "endOfLog": "logEnd"})
        assert len(stream.trigger()) == 1
        for number in range(3):
            log.append([Record(0, 0, None, b"b" * number)])
            assert len(stream.trigger()) == 1
        assert stream.trigger() == []
        (tmp_path / "t-1").mkdir()
        log.append([Record(0, 0, None, b"c")])
        assert len(stream.trigger()) == 1


def test_looks_of_an_idle_stream_keep_their_pace(transport, monkeypatch):
    looks: list[bool] = []

    class Counting(Pace):
        def looked(self, *, found: bool) -> None:
            looks.append(found)
            super().looked(found=found)

    monkeypatch.setattr("milepost.spark.stream_reader.Pace", Counting)
    stream = transport(startingOffsets="earliest")
    assert len(stream.trigger()) == 150
    assert stream.trigger() == []
    assert stream.trigger() == []
    assert looks == [True, False, False]


def test_group_sees_how_far_the_query_has_come(tmp_path, monkeypatch):
    from milepost.client.cluster import Cluster
    from milepost.client.offsets import committed

    # A query does not wait long for what is only good to know.
    monkeypatch.setattr(group_offsets, "PATIENCE_SECONDS", PATIENCE)
    write_log(tmp_path, "t", 0, list(many_batches(10)))
    with milepost.Broker(tmp_path) as running:
        for place in ({"kafka.bootstrap.servers": running.bootstrap_servers}, {"path": tmp_path}):
            options = {"subscribe": "t", "startingOffsets": "earliest", "commitGroupId": f"g-{next(iter(place))[:1]}"}
            stream = Stream({"kafka.bootstrap.servers": running.bootstrap_servers, **place, **options})
            assert len(stream.trigger()) == 30
            stream.reader.stop()
            with Cluster(running.bootstrap_servers) as cluster:
                found = committed(cluster, options["commitGroupId"])
            assert {partition: each.offset for partition, each in found.items()} == {TopicPartition("t", 0): 30}


def test_group_without_a_broker_is_refused(tmp_path):
    write_log(tmp_path, "t", 0, [])
    with pytest.raises(InvalidArgument, match="commitGroupId names a group of a broker"):
        Stream({"path": tmp_path, "subscribe": "t", "commitGroupId": "g"}).trigger()


class Nothing:
    def limit_bytes(self, ranges: Any, most: int) -> dict[TopicPartition, int]:
        raise AssertionError("bytes are not limited")


def test_small_triggers_wait_for_more_but_not_for_ever():
    now = [0.0]
    options = SourceOptions.parse(
        {"path": "x", "subscribe": "t", "minOffsetsPerTrigger": "100", "maxTriggerDelay": "30s"}, streaming=True
    )
    admission = Admission(options, lambda: now[0])
    partition = TopicPartition("t", 0)

    def target(start: int, latest: int) -> int:
        return admission.target({partition: start}, {partition: latest}, Nothing(), is_limited=True)[partition]  # type: ignore[arg-type]

    assert target(0, 99) == 0
    assert target(0, 100) == 100
    now[0] = 29
    assert target(100, 150) == 100
    now[0] = 31
    assert target(100, 150) == 150
    assert target(150, 151) == 150

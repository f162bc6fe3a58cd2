"""What the sink wrote over files is read by everybody else: Java, librdkafka and aiokafka from our broker, and Kafka itself.

All codecs, several segments, times, headers and nulls. What must come out is noted when the rows are made, not read back.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from milepost.files import Disk
from milepost.inspect.verify.verify import verify
from milepost.spark.sink.commit import Commit
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.staging import make_staging
from milepost.spark.sink.task import stage
from tests.clients.java_tools import JAVA, java_command
from tests.clients.served import Served
from tests.interop.kafka_client import create_topics, librdkafka
from tests.interop.kafka_harness import KafkaBroker, dump_log_segments
from tests.interop.test_kafka_reads_our_files import replace_partition
from tests.waiting import PROCESS_PATIENCE

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 2
ROWS = 240
START = 1_700_000_000_000
SECONDS = 2 * PROCESS_PATIENCE
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Record = tuple[str, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Topic, partition, offset, timestamp, key, value, headers."""


def records(topic: str) -> list[Record]:
    """Row n goes to partition n % 2; times go back and forth."""
    source = random.Random(topic)
    return [
        (
            topic,
            number % PARTITIONS,
            number // PARTITIONS,
            START + 1000 * (number ^ 3),
            None if number % 7 == 0 else b"key-%d" % number,
            None if number % 11 == 0 else source.randbytes(number % 200),
            (("h", b"\x00\xff"), ("h", None), ("ü", b"")) if number % 5 == 0 else (),
        )
        for number in range(ROWS)
    ]


def rows(found: list[Record]) -> pa.RecordBatch:
    columns = list(zip(*found, strict=True))
    headers = [[{"key": key, "value": value} for key, value in each] or None for each in columns[6]]
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(columns[1], pa.int32()),
            "at": pa.array([1000 * at for at in columns[3]], pa.timestamp("us", "UTC")),
            "key": pa.array(columns[4], pa.binary()),
            "value": pa.array(columns[5], pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory above `data`, which has a topic for each codec, written in two commits of two tasks each."""
    root = tmp_path_factory.mktemp("sink")
    for codec in CODECS:
        given = {"topic": codec, "partitions": str(PARTITIONS), "segmentBytes": "4k", "kafka.batch.size": "1000"}
        options = SinkOptions.parse(
            {"path": str(root / "data"), **given, "timestampColumn": "at", "kafka.compression.type": codec}
        )
        made = records(codec)
        for number, half in enumerate((made[: ROWS // 2], made[ROWS // 2 :])):
            job = f"{options.staging}/{codec}-{number}"
            tasks = [half[: ROWS // 4], half[ROWS // 4 :]]
            make_staging(Disk(), str(root / "data"), options.staging)
            staged = [stage([rows(task)], options, job, place, f"{place:06d}-0") for place, task in enumerate(tasks)]
            assert Commit(options, job).run([file for files in staged for file in files]) == ROWS // 2
        for partition in range(PARTITIONS):
            assert len(list((root / "data" / f"{codec}-{partition}").glob("*.log"))) >= 3
    assert verify(str(root / "data")).findings == []
    return root


@pytest.fixture(scope="module")
def wanted() -> list[Record]:
    return in_order([record for codec in CODECS for record in records(codec)])


def in_order(found: list[Record]) -> list[Any]:
    return sorted(found, key=lambda record: record[:3])


@pytest.fixture(scope="module")
def served(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A copy: a broker has its own way with the newest segment while it runs."""
    directory = tmp_path_factory.mktemp("served")
    shutil.copytree(written / "data", directory / "data")
    running = Served(directory)
    yield running.bootstrap
    running.stop()


def read_with_java(bootstrap: str, version: str) -> list[Record]:
    command = java_command(version, str(JAVA / "TopicReader.java"), bootstrap, *CODECS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]

    def content(text: str) -> bytes | None:
        return None if text == "-" else bytes.fromhex(text.removesuffix("."))

    found: list[Record] = []
    for line in done.stdout.splitlines():
        topic, partition, offset, timestamp, key, value, *headers = line.split(" ")
        pairs = tuple(
            ((content(name) or b"").decode(), content(text)) for name, text in (header.split(":") for header in headers)
        )
        found.append((topic, int(partition), int(offset), int(timestamp), content(key), content(value), pairs))
    return in_order(found)


def read_with_librdkafka(bootstrap: str) -> list[Record]:
    kafka = librdkafka()
    settings = {"group.id": "g", "enable.auto.commit": False, "check.crcs": True, "enable.partition.eof": True}
    consumer = kafka.Consumer({"bootstrap.servers": bootstrap, **settings, "auto.offset.reset": "error", "fetch.wait.max.ms": 10})
    found: list[Record] = []
    ended = 0
    try:
        consumer.assign([kafka.TopicPartition(codec, number, 0) for codec in CODECS for number in range(PARTITIONS)])
        while ended < len(CODECS) * PARTITIONS:
            message = consumer.poll(SECONDS)
            assert message is not None, f"nothing came for {SECONDS:g} s"
            if message.error() is not None:
                assert message.error().code() == kafka.KafkaError._PARTITION_EOF, message.error()
                ended += 1
                continue
            headers = tuple(message.headers() or ())
            place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
            found.append((*place, message.key(), message.value(), headers))
    finally:
        consumer.close()
    return in_order(found)


async def read_with_aiokafka(bootstrap: str, count: int) -> list[Record]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none", enable_auto_commit=False, check_crcs=True)
    await consumer.start()
    found: list[Record] = []
    try:
        consumer.assign([AioPartition(codec, number) for codec in CODECS for number in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        while len(found) < count:
            for batch in (await consumer.getmany(timeout_ms=1000)).values():
                for each in batch:
                    place = (each.topic, each.partition, each.offset, each.timestamp)
                    found.append((*place, each.key, each.value, tuple(each.headers)))
    finally:
        await consumer.stop()
    return in_order(found)


def test_librdkafka_reads_it_from_our_broker(served: str, wanted: list[Record]) -> None:
    assert read_with_librdkafka(served) == wanted


def test_aiokafka_reads_it_from_our_broker(served: str, wanted: list[Record]) -> None:
    assert asyncio.run(asyncio.wait_for(read_with_aiokafka(served, len(wanted)), SECONDS)) == wanted


@pytest.mark.kafka
@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_java_reads_it_from_our_broker(served: str, wanted: list[Record], version: str) -> None:
    assert read_with_java(served, version) == wanted


@pytest.mark.kafka
def test_kafkas_dump_tool_finds_no_fault_in_it(written: Path, wanted: list[Record]) -> None:
    files = sorted(path for path in (written / "data").glob("*-[01]/0*") if path.suffix in (".log", ".index", ".timeindex"))
    stdout, stderr = dump_log_segments(files, "--deep-iteration")
    assert stderr == ""
    assert "isvalid: false" not in stdout
    assert "invalid bytes" not in stdout
    assert sum(line.startswith("| offset: ") for line in stdout.splitlines()) == len(wanted)


@pytest.mark.kafka
def test_kafka_serves_it_when_it_is_put_under_its_broker(written: Path, wanted: list[Record], tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "work", tmp_path / "kafka") as broker:
        create_topics(broker.bootstrap, *CODECS, partitions=PARTITIONS, config={"segment.ms": "9223372036854775807"})
        broker.stop()
        for codec in CODECS:
            for number in range(PARTITIONS):
                replace_partition(tmp_path / "kafka" / f"{codec}-{number}", written / "data" / f"{codec}-{number}")
        broker.start()
        assert read_with_librdkafka(broker.bootstrap) == wanted
        assert read_with_java(broker.bootstrap, "3.9.1") == wanted
        broker.stop()
        assert " ERROR " not in broker.output()
        assert "corrupt" not in broker.output().lower()

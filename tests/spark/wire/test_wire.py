"""Over the wire come the rows that lie in the files, whatever the log holds and however the options cut it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milepost
from milepost.errors import BrokerUnavailable, InvalidArgument, InvalidConfiguration, OffsetOutOfRange
from milepost.spark.open_transport import open_transport
from milepost.spark.options import SourceOptions
from milepost.topic_partition import TopicPartition
from tests.spark.log_files.test_any_log import bounds, expected
from tests.spark.logs import NOW, Batch, Step, many_batches, plain_scan, steps, write_log
from tests.spark.rows import read_rows, read_tasks
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("wire")
    write_log(found, "visits", 0, list(many_batches(400)), segment_bytes=20_000)
    write_log(found, "visits", 1, list(many_batches(30, seed=1)))
    write_log(found, "empty", 0, [])
    return found


@pytest.fixture(scope="module")
def broker(data: Path) -> Iterator[milepost.Broker]:
    with milepost.Broker(data) as running:
        yield running


def options(broker: milepost.Broker, **given: Any) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "visits", **given}


def scanned(data: Path) -> list[dict[str, Any]]:
    return plain_scan(data / "visits-0").rows + plain_scan(data / "visits-1").rows


def test_whole_topic(broker, data):
    assert read_rows(options(broker)) == scanned(data)


def test_small_answers_add_up(broker, data):
    assert read_rows(options(broker, **{"kafka.fetch.max.bytes": "300"})) == scanned(data)


def test_pattern_and_assignment(broker, data):
    by_pattern = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribePattern": "vis.*"}
    assert read_rows(by_pattern) == scanned(data)
    assigned = {"kafka.bootstrap.servers": broker.bootstrap_servers, "assign": '{"visits": [1]}'}
    assert read_rows(assigned) == plain_scan(data / "visits-1").rows


def test_tasks_are_of_about_equal_bytes_and_cover_everything(broker, data):
    tasks = read_tasks(options(broker, maxBytesPerPartition="10k"))
    assert len(tasks) > 5
    rows = [row for task in tasks for row in task]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        (row["partition"], row["offset"]) for row in scanned(data)
    ]
    sizes = [sum(len(row["value"]) for row in task) for task in tasks]
    assert max(sizes[:-1]) < 3 * min(sizes[:-1])


def test_small_partitions_share_a_task(broker):
    assert len(read_tasks(options(broker))) == 1


def test_min_partitions(broker, data):
    tasks = read_tasks(options(broker, minPartitions="8"))
    assert len(tasks) >= 8
    assert sum(map(len, tasks)) == len(scanned(data))


def test_empty_topic_has_no_rows(broker):
    assert read_rows({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "empty"}) == []


def test_topic_that_does_not_exist_is_named_and_not_created(broker):
    with pytest.raises(InvalidArgument, match="there is no topic visit "):
        read_rows(options(broker, subscribe="visit"))
    with pytest.raises(InvalidArgument, match="there is no topic visit "):
        read_rows(options(broker, subscribe="visit"))


def test_topics_that_are_there_are_named(broker):
    with pytest.raises(InvalidArgument, match=r"there is no topic visit in .*; topics there: empty, visits$"):
        read_rows(options(broker, subscribe="visit"))
    with pytest.raises(InvalidArgument, match=r"there is no partition nope-3 in .*; topics there: empty, visits$"):
        read_rows({"kafka.bootstrap.servers": broker.bootstrap_servers, "assign": '{"nope":[3]}'})


def test_offsets_that_are_gone_are_data_loss(tmp_path):
    write_log(tmp_path, "t", 0, list(many_batches(10)))
    with milepost.Broker(tmp_path) as running:
        given = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t"}
        parsed = SourceOptions.parse({key: str(value) for key, value in given.items()}, streaming=False)
        with open_transport(parsed) as transport:
            splits = transport.plan([range_of(0, 30)])
            delete_records(running.bootstrap_servers, 12)
            from milepost.spark.columns import Columns

            columns = Columns.of("records", False)
            with pytest.raises(OffsetOutOfRange, match="data loss: t-0 at offset 0 is gone, the log holds 12 to 29"):
                list(splits[0].read(columns))
        forgiving = SourceOptions.parse({**given, "failOnDataLoss": "false"}, streaming=False)
        with open_transport(forgiving) as transport:
            (split,) = transport.plan([range_of(0, 30)])
            assert [offset for batch in split.read(columns) for offset in batch.column("offset").to_pylist()] == list(
                range(12, 30)
            )


def range_of(start: int, end: int) -> Any:
    from milepost.spark.offset_range import OffsetRange

    return OffsetRange(TopicPartition("t", 0), start, end)


def delete_records(servers: str, offset: int) -> None:
    from confluent_kafka import TopicPartition as Partition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([Partition("t", 0, offset)]).values():
        future.result(PATIENCE)


def test_nobody_listens():
    with pytest.raises(BrokerUnavailable, match=r"no broker answers at 127\.0\.0\.1:1"):
        read_rows({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism: has no effect without security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: '' is not served"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "ssl.truststore.location: /nowhere cannot be read"),
        ({"security.protocol": "SSL", "ssl.engine.factory.class": "x"}, "milepost's clients do not know this"),
    ],
)
def test_security_that_makes_no_sense_is_one_sentence(broker, given, sentence):
    with pytest.raises(InvalidConfiguration, match=sentence):
        read_rows(options(broker, **{f"kafka.{name}": value for name, value in given.items()}))


def test_plain_text_may_be_asked_for(broker, data):
    assert read_rows(options(broker, **{"kafka.security.protocol": "PLAINTEXT"})) == scanned(data)


def test_number_that_is_none(broker):
    with pytest.raises(InvalidArgument, match=r"kafka\.fetch\.max\.bytes is .many."):
        read_rows(options(broker, **{"kafka.fetch.max.bytes": "many"}))


def test_bytes_are_estimated(broker):
    parsed = SourceOptions.parse({key: str(value) for key, value in options(broker).items()}, streaming=False)
    with open_transport(parsed) as transport:
        from milepost.spark.offset_range import OffsetRange

        whole = OffsetRange(TopicPartition("visits", 0), 0, 1200)
        total = transport.bytes_between([whole])
        assert 40_000 < total < 120_000
        ends = transport.limit_bytes([whole], total // 4)
        assert 280 <= ends[TopicPartition("visits", 0)] <= 320


@settings(max_examples=25)
@given(steps(), bounds(), st.sampled_from([1 << 20, 900]))
def test_rows_are_those_of_a_plain_scan(log: list[Step], chosen: dict[str, Any], segment_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        directory = write_log(Path(root), steps=log, segment_bytes=segment_bytes, interval=100)
        answer = expected(plain_scan(directory), chosen)
        by_partition = ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
        given = {
            name: json.dumps({"t": {"0": value}}) if name in by_partition and isinstance(value, int) else value
            for name, value in chosen.items()
        }
        with milepost.Broker(root) as running:
            asked = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t", **given}
            if isinstance(answer, type):
                with pytest.raises(answer):
                    read_rows(asked)
            else:
                assert read_rows(asked) == answer


@pytest.mark.parametrize("magic", [0, 1])
def test_message_of_an_old_format_that_is_smaller_than_a_header_of_today(tmp_path, magic):
    write_log(tmp_path, "t", 0, [Batch((b"a",), keys=(b"k",), magic=magic), Batch((b"b",), keys=(b"k",), magic=magic)])
    with milepost.Broker(tmp_path) as running:
        asked = {"kafka.bootstrap.servers": running.bootstrap_servers, "subscribe": "t"}
        assert [row["value"] for row in read_rows(asked)] == [b"a", b"b"]
        assert [row["value"] for row in read_rows({**asked, "startingOffsets": '{"t":{"0":1}}'})] == [b"b"]


def test_compacted_end_of_a_range_is_no_reason_to_wait(tmp_path):
    from tests.spark.logs import Gap

    write_log(tmp_path, "t", 0, [Batch((b"a",)), Gap(50), Batch((b"b",))])
    with milepost.Broker(tmp_path) as running:
        rows = read_rows(
            {
                "kafka.bootstrap.servers": running.bootstrap_servers,
                "subscribe": "t",
                "endingOffsets": json.dumps({"t": {"0": 30}}),
            }
        )
    assert [(row["offset"], row["timestamp"]) for row in rows] == [(0, NOW)]

"""Options: the connector's names and rules, and ours."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from milepost.errors import InvalidArgument
from milepost.spark.bound import Bound
from milepost.spark.option_values import duration_ms, partition_numbers
from milepost.spark.options import KNOWN, SourceOptions
from milepost.spark.paths import parse_paths
from milepost.spark.sink.options import SinkOptions
from milepost.spark.subscription import Subscription
from milepost.topic_partition import TopicPartition


def parse(streaming: bool = False, **options: str) -> SourceOptions:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return SourceOptions.parse({"path": "data", "subscribe": "t", **named}, streaming=streaming)


def refused(match: str, *, streaming: bool = False, **options: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        parse(streaming, **options)


def test_defaults_of_a_batch_query_are_the_connectors() -> None:
    options = parse()
    assert (options.starting.kind, options.ending.kind) == ("earliest", "latest")
    assert (options.fail_on_data_loss, options.include_headers, options.read_committed) == (True, False, False)
    assert (options.starting_strategy, options.min_partitions, options.max_trigger_delay_ms) == ("error", None, 900_000)
    assert (options.view, options.mode, options.end_of_log, options.pushdown) == ("records", "strict", "highWatermark", False)


def test_stream_starts_at_the_latest_offset_by_default() -> None:
    assert parse(streaming=True).starting.kind == "latest"


def test_names_are_read_in_any_case() -> None:
    options = SourceOptions.parse(
        {"PATH": "d", "SUBSCRIBE": "t", "STARTINGOFFSETS": "EARLIEST", "FailOnDataLoss": "FALSE"}, streaming=True
    )
    assert (options.starting.kind, options.fail_on_data_loss) == ("earliest", False)


# Where, and which partitions.


def test_path_wins_over_bootstrap_servers() -> None:
    assert parse(kafka_bootstrap_servers="localhost:9092").transport == "path"


def test_neither_path_nor_servers_is_a_question() -> None:
    with pytest.raises(InvalidArgument, match=r"where is the log\? give path.*or kafka.bootstrap.servers"):
        SourceOptions.parse({"subscribe": "t"}, streaming=False)


def test_servers_alone_choose_the_wire() -> None:
    options = SourceOptions.parse(
        {"kafka.bootstrap.servers": "a:9092", "subscribe": "t", "kafka.fetch.max.bytes": "5"}, streaming=False
    )
    assert (options.transport, options.bootstrap_servers, options.kafka) == ("wire", "a:9092", {"fetch.max.bytes": "5"})


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/data", ("/data",)),
        ("/a, /b,/a", ("/a", "/b")),
        ('["/a,b", "/c"]', ("/a,b", "/c")),
        ("file:///data/x", ("/data/x",)),
        ("file:/data/x", ("/data/x",)),
    ],
)
def test_path_is_one_or_several(text: str, paths: tuple[str, ...]) -> None:
    assert parse_paths(text) == paths


@pytest.mark.parametrize("text", ["s3://bucket/data", "hdfs://host/data", "s3a://bucket/x"])
def test_path_of_an_object_store_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"local or mounted file system.*Mount it, or copy the directory first"):
        parse_paths(text)


def test_exactly_one_way_to_subscribe() -> None:
    refused("subscribe and subscribePattern are given", subscribePattern=".*")
    with pytest.raises(InvalidArgument, match="one of assign, subscribe and subscribePattern is needed"):
        SourceOptions.parse({"kafka.bootstrap.servers": "a:1"}, streaming=False)
    assert SourceOptions.parse({"path": "d"}, streaming=False).subscription == Subscription()


def test_subscriptions() -> None:
    t0, t1, u0, internal = (
        TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("__consumer_offsets", 0),
    )  # fmt: skip
    own = TopicPartition("__mine", 0)
    there = [u0, t1, t0, internal]
    assert Subscription.parse({"assign": '{"t":[1]}'}, may_be_all=False).chosen(there) == [t1]
    assert Subscription.parse({"subscribe": " t , u "}, may_be_all=False).chosen(there) == [t0, t1, u0]
    # As with the connector: Kafka's own topics only when they are named.
    assert Subscription.parse({"subscribePattern": "t|__.*"}, may_be_all=False).chosen(there) == [t0, t1]
    assert Subscription.parse({"subscribePattern": ".*"}, may_be_all=False).chosen([*there, own]) == [own, t0, t1, u0]
    assert Subscription.parse({"subscribe": "__consumer_offsets"}, may_be_all=False).chosen(there) == [internal]
    assert Subscription.parse({"subscribePattern": "nothing"}, may_be_all=False).chosen(there) == []
    assert Subscription().chosen(there) == [t0, t1, u0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"subscribe": "v"}, "there is no topic v in data; topics there: t"),
        ({"assign": '{"t":[7]}'}, "there is no partition t-7 in data"),
    ],
)
def test_what_is_named_and_not_there_is_an_error(options: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Subscription.parse(options, may_be_all=False).chosen([TopicPartition("t", 0)], "data")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"assign": "t"}, "JSON by topic is expected"),
        ({"assign": '{"t":0}'}, "a list of partitions is expected"),
        ({"assign": '{"t":[-1]}'}, "partitions count from 0"),
        ({"assign": "{}"}, "partitions are expected"),
        ({"subscribe": " , "}, "topics are expected"),
        ({"subscribePattern": "["}, "no regular expression"),
        ({"subscribePattern": " "}, "is empty"),
    ],
)
def test_subscription_that_says_nothing_is_an_error(options: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        Subscription.parse(options, may_be_all=True)


# Where to start and to end.


def test_global_timestamp_wins_over_timestamps_and_those_over_offsets() -> None:
    all_three = {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t":{"0":6}}', "startingOffsets": "earliest"}
    assert parse(**all_three).starting == Bound("timestamp", 5, option="startingTimestamp")
    del all_three["startingTimestamp"]
    assert parse(**all_three).starting.by_partition == {TopicPartition("t", 0): 6}
    ending = {"endingTimestamp": "5", "endingOffsetsByTimestamp": '{"t":{"0":6}}', "endingOffsets": "latest"}
    assert parse(**ending).ending.kind == "timestamp"
    del ending["endingTimestamp"]
    assert parse(**ending).ending.kind == "timestamps"


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("-10m", "back", 600_000),
        ("-500ms", "back", 500),
        ("-2 h", "back", 7_200_000),
        ("last 100", "last", 100),
        ("LAST 1", "last", 1),
    ],
)
def test_relative_starts(text: str, kind: str, number: int) -> None:
    assert parse(startingOffsets=text).starting == Bound(kind, number, option="startingOffsets")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "t-0 has -1, which is latest"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-2 is earliest and -1 latest"),
        ({"startingOffsets": "sometime"}, "earliest, latest, a time back such as -10m"),
        ({"startingOffsets": '{"t":{"0":1.5}}'}, "a whole number is expected"),
        ({"startingOffsets": '{"t":[0]}'}, "a number per partition is expected"),
        ({"startingOffsets": '{"t":'}, "does not parse"),
        ({"endingOffsets": "earliest"}, "endingOffsets is earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "t-0 has -2, which is earliest"),
        ({"startingTimestamp": "yesterday"}, r"startingTimestamp: time 'yesterday' is none of .*ISO 8601"),
        ({"startingTimestamp": "-5"}, "startingTimestamp: time '-5' lies before 1970"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest is possible"),
        ({"failOnDataLoss": "maybe"}, "true or false is possible"),
        ({"minPartitions": "0"}, "1 is the least"),
        ({"maxRecordsPerPartition": "x"}, "a whole number"),
        ({"maxBytesPerPartition": "64q"}, "a size such as"),
        ({"maxBytesPerPartition": "0"}, "one byte is the least"),
        ({"view": "topics"}, "records, batches, segments or files is possible"),
        ({"mode": "lenient"}, "strict or quarantine is possible"),
        ({"mode": "quarantine"}, "quarantinePath says where to"),
        ({"endOfLog": "x"}, "highWatermark or logEnd is possible"),
        ({"kafka.isolation.level": "some"}, "read_uncommitted or read_committed"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset cannot be set: use startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "keys are binary"),
        ({"kafka.value.deserializer": "x"}, "values are binary"),
        ({"kafka.enable.auto.commit": "true"}, "offsets are kept in the checkpoint"),
        ({"kafka.interceptor.classes": "x"}, "interceptors are not run"),
        ({"startingOffset": "latest"}, "option startingoffset is unknown; is startingOffsets meant"),
        ({"includeHeader": "true"}, "is includeHeaders meant"),
    ],
)
def test_wrong_values_are_refused_with_what_is_possible(options: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        SourceOptions.parse({"path": "data", "subscribe": "t", **options}, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_stream_has_no_end(name: str) -> None:
    refused(f"{name} cannot be set for a stream", streaming=True, **{name: "latest"})


def test_quarantine_lies_outside_of_the_log() -> None:
    for place in ("data/aside", "data", "./data/../data/x"):
        refused("below the log in data, where nothing is written", mode="quarantine", quarantinePath=place)
    assert parse(mode="quarantine", quarantinePath="data-aside").quarantine_path == str(Path.cwd() / "data-aside")


def test_stream_may_start_at_latest_and_at_json_with_latest() -> None:
    assert parse(streaming=True, startingOffsets="latest").starting.kind == "latest"
    assert parse(streaming=True, startingOffsets='{"t":{"0":-1}}').starting.by_partition == {TopicPartition("t", 0): -1}


def test_least_offsets_per_trigger_above_the_most_is_an_error() -> None:
    refused(
        "minOffsetsPerTrigger is 6, above maxOffsetsPerTrigger, 5",
        streaming=True,
        minOffsetsPerTrigger="6",
        maxOffsetsPerTrigger="5",
    )


def test_limits_of_a_stream_are_taken() -> None:
    options = parse(
        streaming=True,
        minOffsetsPerTrigger="5",
        maxOffsetsPerTrigger="6",
        maxTriggerDelay="2m",
        maxBytesPerTrigger="64m",
        commitGroupId="g",
    )
    assert (options.min_offsets_per_trigger, options.max_offsets_per_trigger, options.max_trigger_delay_ms) == (5, 6, 120_000)
    assert (options.max_bytes_per_trigger, options.commit_group) == (64 << 20, "g")


def test_limits_of_a_stream_are_ignored_in_a_batch_query_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "milepost.spark"):
        options = parse(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="6", maxTriggerDelay="soon")
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_trigger_delay_ms) == (
        None,
        None,
        900_000,
    )
    assert "maxOffsetsPerTrigger has no effect in a batch query" in caplog.text


def test_options_without_a_meaning_over_files_are_accepted() -> None:
    SourceOptions.parse(
        {
            "path": "data", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "500", "fetchOffset.numRetries": "5",
            "fetchOffset.retryIntervalMs": "7", "partition.metadata.cache.ttl.ms": "1", "groupIdPrefix": "p", "kafka.group.id": "g",
            "kafka.fetch.max.bytes": "1", "kafka.bootstrap.servers": "a:1",
        },
        streaming=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("topic", "option topic is unknown; is subscribe meant"),
        ("topics", "option topics is unknown; is subscribe meant"),
        ("bootstrap.servers", "option bootstrap.servers is unknown; is kafka.bootstrap.servers meant"),
        ("startingOffset", "option startingoffset is unknown; is startingOffsets meant"),
        ("timestamp", "option timestamp is unknown; is startingTimestamp meant"),
        ("mergeSchema", "option mergeschema is unknown; there are assign, .*, subscribe, subscribePattern"),
    ],
)
def test_unknown_option_is_an_error_with_the_near_one(name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        SourceOptions.parse({"path": "data", name: "x"}, streaming=False)
    with pytest.raises(InvalidArgument, match="option subscribe is unknown; is topic meant"):
        SinkOptions.parse({"path": "data", "subscribe": "x"})


@pytest.mark.parametrize(
    ("text", "ms", "said"),
    [
        ("1763281000000", 1_763_281_000_000, None),
        ("1763281000", 1_763_281_000_000, "startingTimestamp is 1763281000, read as epoch seconds: 2025-11-16T08:16:40.000Z"),
        ("20001", 20_001, "startingTimestamp is 20001, read as epoch milliseconds: 1970-01-01T00:00:20.001Z"),
        ("2025-11-16T08:16:40Z", 1_763_281_000_000, None),
        (
            "2025-11-16 08:16",
            1_763_280_960_000,
            "startingTimestamp is 2025-11-16 08:16, read as ISO 8601 without a zone, taken as UTC: 2025-11-16T08:16:00.000Z",
        ),
    ],
)
def test_unit_of_a_time_is_said_where_it_is_a_guess(
    caplog: pytest.LogCaptureFixture, text: str, ms: int, said: str | None
) -> None:
    with caplog.at_level(logging.WARNING, "milepost.spark"):
        assert parse(startingTimestamp=text).starting.number == ms
    assert caplog.messages == ([said] if said else [])


def test_times_by_partition_are_read_like_one_for_all(caplog: pytest.LogCaptureFixture) -> None:
    given = parse(endingOffsetsByTimestamp='{"t":{"0":1763281000,"1":1763281000000}}').ending.by_partition
    assert set(given.values()) == {1_763_281_000_000}
    assert "endingOffsetsByTimestamp is 1763281000, read as epoch seconds" in caplog.text
    given = parse(startingOffsetsByTimestamp='{"t":{"0":"2025-11-16T08:16:40Z","1":1763281000000}}').starting.by_partition
    assert set(given.values()) == {1_763_281_000_000}
    refused("t, partition 0 has 1.5; a time is expected", startingOffsetsByTimestamp='{"t":{"0":1.5}}')
    refused("startingOffsetsByTimestamp: time 'soon' is none of", startingOffsetsByTimestamp='{"t":{"0":"soon"}}')


def test_views_belong_to_batch_queries_over_files() -> None:
    refused("view=batches is read in a batch query over path", streaming=True, view="batches")
    with pytest.raises(InvalidArgument, match="view=segments is read in a batch query"):
        SourceOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t", "view": "segments"}, streaming=False)


@pytest.mark.parametrize(("text", "ms"), [("15m", 900_000), ("5min", 300_000), ("250", 250), ("3s", 3000), ("1d", 86_400_000)])
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text, "maxTriggerDelay") == ms


def test_partition_numbers_by_topic() -> None:
    found: dict[Any, int] = partition_numbers('{"a":{"0":1,"10":-2},"b":{"3":7}}', "startingOffsets")
    assert found == {TopicPartition("a", 0): 1, TopicPartition("a", 10): -2, TopicPartition("b", 3): 7}


@pytest.mark.parametrize("name", KNOWN)
def test_every_option_stands_in_the_table_of_the_page(name: str) -> None:
    rows = [line for line in (Path(__file__).parents[2] / "docs" / "spark.md").read_text().splitlines() if line.startswith("| `")]
    assert any(f"`{name}`" in row.split("|")[1] for row in rows)

"""BrokerConfig: the broker's log properties, and the topic defaults that come out of them."""

from __future__ import annotations

import pytest

from milepost.config import BrokerConfig, LogConfig
from milepost.errors import InvalidConfiguration

LONG_MAX = 9223372036854775807
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("log.dirs", None),
        ("log.roll.ms", None),
        ("log.roll.hours", 168),
        ("log.roll.jitter.ms", None),
        ("log.roll.jitter.hours", 0),
        ("log.retention.ms", None),
        ("log.retention.minutes", None),
        ("log.retention.hours", 168),
        ("log.retention.check.interval.ms", 300000),
        ("log.flush.scheduler.interval.ms", LONG_MAX),
        ("log.flush.offset.checkpoint.interval.ms", 60000),
        ("log.flush.start.offset.checkpoint.interval.ms", 60000),
        ("log.initial.task.delay.ms", 30000),
        ("log.dir.failure.timeout.ms", 30000),
        ("num.recovery.threads.per.data.dir", 1),
        ("num.partitions", 1),
        ("log.cleaner.enable", True),
        ("log.cleaner.threads", 1),
        ("log.cleaner.dedupe.buffer.size", 134217728),
        ("log.cleaner.io.buffer.size", 524288),
        ("log.cleaner.io.buffer.load.factor", 0.9),
        ("log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308),
        ("log.cleaner.backoff.ms", 15000),
        ("producer.id.expiration.ms", 86400000),
        ("producer.id.expiration.check.interval.ms", 600000),
        ("transaction.max.timeout.ms", 900000),
        ("transaction.partition.verification.enable", True),
        ("replica.high.watermark.checkpoint.interval.ms", 5000),
    ],
)
def test_default_is_kafkas(name, default):
    assert BrokerConfig().get(name) == default


def test_broker_that_sets_nothing_leaves_a_topic_its_own_defaults():
    assert LogConfig.parse(broker=BrokerConfig()) == LogConfig()


def test_every_topic_property_with_a_synonym_follows_it():
    for name in LogConfig.names():
        for synonym in LogConfig.property(name).broker:
            assert synonym in BrokerConfig.names(), f"{name} names the synonym {synonym}"


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        ({"log.cleanup.policy": "compact"}, "cleanup.policy", ("compact",)),
        ({"compression.type": "zstd"}, "compression.type", "zstd"),
        ({"log.cleaner.delete.retention.ms": "1"}, "delete.retention.ms", 1),
        ({"log.segment.delete.delay.ms": "500"}, "file.delete.delay.ms", 500),
        ({"log.flush.interval.messages": "3"}, "flush.messages", 3),
        ({"log.index.interval.bytes": "512"}, "index.interval.bytes", 512),
        ({"log.index.profile": "per-append"}, "index.profile", "per-append"),
        ({"message.max.bytes": "2000000"}, "max.message.bytes", 2000000),
        ({"log.cleaner.min.cleanable.ratio": "0.01"}, "min.cleanable.dirty.ratio", 0.01),
        ({"log.message.timestamp.type": "LogAppendTime"}, "message.timestamp.type", "LogAppendTime"),
        ({"log.preallocate": "true"}, "preallocate", True),
        ({"log.retention.bytes": "5000"}, "retention.bytes", 5000),
        ({"log.segment.bytes": "4096"}, "segment.bytes", 4096),
        ({"log.index.size.max.bytes": "67"}, "segment.index.bytes", 67),
        ({"log.roll.hours": "2"}, "segment.ms", 2 * HOUR),
        ({"log.roll.hours": "2", "log.roll.ms": "5"}, "segment.ms", 5),
        ({"log.roll.jitter.hours": "1"}, "segment.jitter.ms", HOUR),
        ({"log.roll.jitter.hours": "1", "log.roll.jitter.ms": "0"}, "segment.jitter.ms", 0),
        ({"log.retention.hours": "1"}, "retention.ms", HOUR),
        ({"log.retention.hours": "1", "log.retention.minutes": "3"}, "retention.ms", 180000),
        ({"log.retention.minutes": "3", "log.retention.ms": "7"}, "retention.ms", 7),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.ms": "-99"}, "retention.ms", -1),
        ({"log.retention.hours": "2147483647"}, "retention.ms", 2147483647 * HOUR),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "0"}, "flush.ms", 0),
    ],
)
def test_topic_default_comes_from_the_broker_and_the_finer_unit_wins(given, name, expected):
    assert LogConfig.parse(broker=BrokerConfig.parse(given)).get(name) == expected


@pytest.mark.parametrize("given", [{"log.retention.ms": 0}, {"log.retention.minutes": 0}, {"log.retention.hours": 0}])
def test_retention_of_nothing_is_refused(given):
    with pytest.raises(InvalidConfiguration, match="at least 1 ms, or -1"):
        BrokerConfig.parse(given)


@pytest.mark.parametrize("name", ["log.roll.ms", "log.roll.hours", "log.retention.check.interval.ms", "num.partitions"])
def test_zero_is_refused_where_at_least_one_is_needed(name):
    with pytest.raises(InvalidConfiguration, match=f"{name} = '0'"):
        BrokerConfig.parse({name: "0"})


def test_log_dirs_win_over_log_dir():
    assert BrokerConfig().directories == ("milepost-data",)
    assert BrokerConfig.parse({"log.dir": "a"}).directories == ("a",)
    assert BrokerConfig.parse({"log.dir": "a", "log.dirs": "b, c"}).directories == ("b", "c")


@pytest.mark.parametrize("given", [{"log.dirs": ""}, {"log.dirs": " , "}, {"log.dir": ""}])
def test_no_directory_at_all_is_refused(given):
    with pytest.raises(InvalidConfiguration, match="at least one data directory"):
        BrokerConfig.parse(given)


def test_each_cleaner_thread_needs_more_than_a_mebibyte_for_its_map():
    assert BrokerConfig.parse({"log.cleaner.threads": 2, "log.cleaner.dedupe.buffer.size": 2 * 1048577})
    assert BrokerConfig.parse({"log.cleaner.threads": 0, "log.cleaner.dedupe.buffer.size": 0})
    with pytest.raises(InvalidConfiguration, match="more than 2097152 bytes"):
        BrokerConfig.parse({"log.cleaner.threads": 2, "log.cleaner.dedupe.buffer.size": 2 * 1048576})


def test_compaction_lags_of_the_broker_must_agree():
    with pytest.raises(InvalidConfiguration, match=r"log\.cleaner\.min\.compaction\.lag\.ms = 6 is above"):
        BrokerConfig.parse({"log.cleaner.min.compaction.lag.ms": 6, "log.cleaner.max.compaction.lag.ms": 5})


def test_unknown_broker_property_proposes_the_nearest():
    with pytest.raises(InvalidConfiguration, match=r"did you mean log\.segment\.bytes\?"):
        BrokerConfig.parse({"log.segmnt.bytes": 1})


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("queued.max.request.bytes", 268435456),
        ("max.connections.per.ip.overrides", ()),
        ("max.connection.creation.rate", 2147483647),
        ("milepost.metrics.port", None),
        ("milepost.metrics.host", "127.0.0.1"),
        ("milepost.metrics.dialect", "strimzi"),
    ],
)
def test_default_of_the_network_and_of_metrics(name, default):
    assert BrokerConfig().get(name) == default


def test_memory_for_requests_holds_the_largest_one_or_is_not_limited():
    sizes = {"socket.request.max.bytes": "1000"}
    for enough in ("-1", "0", "1000", "5000"):
        assert BrokerConfig.parse({**sizes, "queued.max.request.bytes": enough})
    assert BrokerConfig.parse({"socket.request.max.bytes": "300000000"}), "by itself it is in nobody's way"
    with pytest.raises(
        InvalidConfiguration, match=r"queued\.max\.request\.bytes = 999 is below socket\.request\.max\.bytes = 1000"
    ):
        BrokerConfig.parse({**sizes, "queued.max.request.bytes": "999"})


@pytest.mark.parametrize("pair", ["10.0.0.1", "10.0.0.1:", ":5", "10.0.0.1:many"])
def test_limit_of_an_address_that_is_no_pair_is_refused(pair):
    with pytest.raises(InvalidConfiguration, match="ADDRESS:COUNT pairs between commas"):
        BrokerConfig.parse({"max.connections.per.ip.overrides": pair})


@pytest.mark.parametrize("given", ["nonesuch", "uniform,nonesuch", ""])
def test_assignors_that_are_not_here_are_refused_at_the_start(given):
    with pytest.raises(InvalidConfiguration, match=r"group\.consumer\.assignors .*uniform, range"):
        BrokerConfig.parse({"group.consumer.assignors": given})


@pytest.mark.parametrize(
    "given",
    [
        {"group.consumer.assignment.interval.ms": "15001"},
        {"group.consumer.assignment.interval.ms": "99", "group.consumer.min.assignment.interval.ms": "100"},
        {"group.consumer.min.assignment.interval.ms": "200", "group.consumer.max.assignment.interval.ms": "100"},
    ],
)
def test_assignment_interval_is_within_its_limits(given):
    with pytest.raises(InvalidConfiguration, match=r"group\.consumer\.assignment\.interval\.ms = \d+ is not within"):
        BrokerConfig.parse(given)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("group.consumer.assignment.interval.ms", 1000),
        ("group.consumer.min.assignment.interval.ms", 0),
        ("group.consumer.max.assignment.interval.ms", 15_000),
    ],
)
def test_default_of_the_assignment_interval_is_kafkas(name, default):
    assert BrokerConfig().get(name) == default

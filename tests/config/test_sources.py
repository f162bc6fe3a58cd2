"""Where a setting came from, which one wins, and what happens to names nobody knows."""

from __future__ import annotations

import pytest

from milepost.config import BrokerConfig, LogConfig
from milepost.config.sources import Setting, Source, from_environment, from_file, from_flags, resolve
from milepost.errors import InvalidConfiguration

FILE = "# where\nlog.dirs=/data/a\nlog.segment.bytes=1000\nlog.roll.hours=1\n"


def shown(resolved, name):
    return next(setting for setting in resolved.settings if setting.name == name)


def test_flag_beats_environment_beats_file_beats_default():
    file = from_file(FILE, "server.properties")
    environment = from_environment({"KAFKA_LOG_SEGMENT_BYTES": "2000", "KAFKA_LOG_ROLL_HOURS": "2", "HOME": "/"})
    flags = from_flags(["log.segment.bytes=3000"])
    resolved = resolve(BrokerConfig, flags, environment, file)
    assert shown(resolved, "log.segment.bytes") == Setting("log.segment.bytes", 3000, Source.FLAG, "-X log.segment.bytes")
    assert shown(resolved, "log.roll.hours") == Setting("log.roll.hours", 2, Source.ENVIRONMENT, "KAFKA_LOG_ROLL_HOURS")
    assert shown(resolved, "log.dirs") == Setting("log.dirs", ("/data/a",), Source.FILE, "server.properties, line 2")
    assert shown(resolved, "num.partitions") == Setting("num.partitions", 1, Source.DEFAULT, "default")
    assert (resolved.config.log_segment_bytes, resolved.config.log_roll_hours) == (3000, 2)


def test_every_property_is_shown_once():
    assert [setting.name for setting in resolve(BrokerConfig).settings] == list(BrokerConfig.names())


def test_last_of_two_flags_wins():
    assert resolve(BrokerConfig, from_flags(["num.partitions=1", "num.partitions=5"])).config.num_partitions == 5


def test_value_of_a_flag_may_hold_an_equals_sign():
    assert from_flags(["log.dir=a=b"]) == [Setting("log.dir", "a=b", Source.FLAG, "-X log.dir")]


@pytest.mark.parametrize("flag", ["log.dir", "=5", " =5"])
def test_flag_that_is_no_pair_is_refused(flag):
    with pytest.raises(InvalidConfiguration, match="give a property as key=value"):
        from_flags([flag])


def test_unknown_flag_is_an_error():
    with pytest.raises(InvalidConfiguration, match=r"is no broker property: did you mean log\.segment\.bytes\?"):
        resolve(BrokerConfig, from_flags(["log.segment.byte=1"]))


def test_unknown_names_of_file_and_environment_come_back_as_warnings():
    file = from_file("kafka.csv.metrics.dir=csv\nlog.segment.byte=1\n", "server.properties")
    resolved = resolve(BrokerConfig, file, from_environment({"KAFKA_HEAP_OPTS": "-Xmx1g"}))
    assert resolved.config == BrokerConfig()
    assert resolved.warnings() == (
        "server.properties, line 1: kafka.csv.metrics.dir is not a broker property milepost knows, so it has no effect.",
        "server.properties, line 2: log.segment.byte is not a broker property milepost knows, so it has no effect; "
        "did you mean log.segment.bytes?",
        "KAFKA_HEAP_OPTS: heap.opts is not a broker property milepost knows, so it has no effect.",
    )


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (from_file("\nlog.segment.bytes=big", "server.properties"), "server.properties, line 2: "),
        (from_environment({"KAFKA_LOG_SEGMENT_BYTES": "big"}), "KAFKA_LOG_SEGMENT_BYTES: "),
        (from_flags(["log.segment.bytes=big"]), "-X log.segment.bytes: "),
    ],
)
def test_value_that_does_not_parse_says_where_it_stands(settings, place):
    with pytest.raises(InvalidConfiguration) as refused:
        resolve(BrokerConfig, settings)
    assert str(refused.value) == f"{place}log.segment.bytes = 'big' is not allowed: give a whole number from 14 to 2147483647."


def test_topic_settings_resolve_the_same_way_and_know_their_alias():
    resolved = resolve(LogConfig, from_flags(["internal.segment.bytes=2500"]))
    assert shown(resolved, "segment.bytes") == Setting("segment.bytes", 2500, Source.FLAG, "-X internal.segment.bytes")


def test_source_prints_as_a_word():
    assert [str(source) for source in Source] == ["default", "file", "environment", "flag"]

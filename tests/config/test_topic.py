"""LogConfig: Kafka's topic properties by name, default and rule."""

from __future__ import annotations

import dataclasses

import pytest

from milepost.config import BrokerConfig, LogConfig
from milepost.config.definition import LIST, B, D, I, L, S
from milepost.errors import InvalidConfiguration

LONG_MAX = 9223372036854775807

# Name, type, default, smallest valid value, largest valid value (None: that of the type), as in Kafka's table.
KAFKA = [
    ("cleanup.policy", LIST, ("delete",), None, None),
    ("compression.type", S, "producer", None, None),
    ("compression.gzip.level", I, -1, 1, 9),
    ("compression.lz4.level", I, 9, 1, 17),
    ("compression.zstd.level", I, 3, -131072, 22),
    ("delete.retention.ms", L, 86400000, 0, None),
    ("file.delete.delay.ms", L, 60000, 0, None),
    ("flush.messages", L, LONG_MAX, 1, None),
    ("flush.ms", L, LONG_MAX, 0, None),
    ("index.interval.bytes", I, 4096, 0, None),
    ("max.message.bytes", I, 1048588, 0, None),
    ("max.compaction.lag.ms", L, LONG_MAX, 1, None),
    ("min.compaction.lag.ms", L, 0, 0, None),
    ("min.cleanable.dirty.ratio", D, 0.5, 0, 1),
    ("min.insync.replicas", I, 1, 1, None),
    ("message.timestamp.type", S, "CreateTime", None, None),
    ("message.timestamp.before.max.ms", L, LONG_MAX, 0, None),
    ("message.timestamp.after.max.ms", L, LONG_MAX, 0, None),
    ("message.timestamp.difference.max.ms", L, LONG_MAX, 0, None),
    ("message.format.version", S, "3.0-IV1", None, None),
    ("message.downconversion.enable", B, True, None, None),
    ("preallocate", B, False, None, None),
    ("retention.bytes", L, -1, -(2**63), None),
    ("retention.ms", L, 604800000, -1, None),
    ("segment.bytes", I, 1073741824, 14, None),
    ("segment.index.bytes", I, 10485760, 4, None),
    ("segment.jitter.ms", L, 0, 0, None),
    ("segment.ms", L, 604800000, 1, None),
    ("unclean.leader.election.enable", B, False, None, None),
    ("leader.replication.throttled.replicas", LIST, (), None, None),
    ("follower.replication.throttled.replicas", LIST, (), None, None),
    ("remote.storage.enable", B, False, None, None),
    ("remote.log.copy.disable", B, False, None, None),
    ("remote.log.delete.on.disable", B, False, None, None),
    ("local.retention.ms", L, -2, -2, None),
    ("local.retention.bytes", L, -2, -2, None),
]


def test_names_are_kafkas_and_one_of_our_own():
    assert set(LogConfig.names()) == {name for name, *_ in KAFKA} | {"index.profile"}


@pytest.mark.parametrize(("name", "type", "default", "low", "high"), KAFKA)
def test_default_and_type_are_kafkas(name, type, default, low, high):
    assert LogConfig().get(name) == default
    assert LogConfig.property(name).type is type
    assert LogConfig.property(name).doc


@pytest.mark.parametrize(("name", "type", "default", "low", "high"), [row for row in KAFKA if row[3] is not None])
def test_smallest_valid_value_is_taken_and_the_one_below_is_refused(name, type, default, low, high):
    assert LogConfig.parse({name: str(low)}).get(name) == low
    with pytest.raises(InvalidConfiguration, match=name):
        LogConfig.parse({name: low - 1})


@pytest.mark.parametrize(("name", "type", "default", "low", "high"), [row for row in KAFKA if row[4] is not None])
def test_largest_valid_value_is_taken_and_the_one_above_is_refused(name, type, default, low, high):
    assert LogConfig.parse({name: str(high)}).get(name) == high
    with pytest.raises(InvalidConfiguration, match=name):
        LogConfig.parse({name: high + 1})


def test_segment_bytes_is_an_int_so_a_segment_stays_under_two_gib():
    with pytest.raises(InvalidConfiguration, match="from 14 to 2147483647"):
        LogConfig.parse({"segment.bytes": "2147483648"})


@pytest.mark.parametrize(
    ("given", "compact", "delete"),
    [
        ("delete", False, True),
        ("compact", True, False),
        ("compact,delete", True, True),
        ("delete, compact", True, True),
        ("", False, False),
    ],
)
def test_cleanup_policy_is_any_subset(given, compact, delete):
    config = LogConfig.parse({"cleanup.policy": given})
    assert (config.compact, config.delete) == (compact, delete)


@pytest.mark.parametrize("given", ["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])
def test_compression_type_is_one_of_six(given):
    assert LogConfig.parse({"compression.type": given}).compression_type == given


@pytest.mark.parametrize("given", ["none", "GZIP", ""])
def test_compression_type_of_another_spelling_is_refused(given):
    with pytest.raises(InvalidConfiguration, match="uncompressed, zstd, lz4, snappy, gzip, producer"):
        LogConfig.parse({"compression.type": given})


@pytest.mark.parametrize("given", ["*", "0:1", "0:1,1:2", ""])
def test_throttled_replicas_are_pairs_or_a_star(given):
    assert LogConfig.parse({"leader.replication.throttled.replicas": given})


@pytest.mark.parametrize("given", ["2.4", "0.9.0", "0.10.0", "3.0-IV1"])
def test_message_format_version_of_old_topics_is_taken(given):
    assert LogConfig.parse({"message.format.version": given}).message_format_version == given


def test_message_format_version_that_is_no_version_is_refused():
    with pytest.raises(InvalidConfiguration, match="a Kafka version such as"):
        LogConfig.parse({"message.format.version": "newest"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("segment.byte", "'segment.byte' is no topic property: did you mean segment.bytes?"),
        ("segment_bytes", "'segment_bytes' is no topic property: did you mean segment.bytes?"),
        ("Retention.MS", "'Retention.MS' is no topic property: did you mean retention.ms?"),
        ("colour", "'colour' is no topic property: no name is near it."),
    ],
)
def test_unknown_name_is_an_error_that_proposes_the_nearest(given, sentence):
    with pytest.raises(InvalidConfiguration) as refused:
        LogConfig.parse({given: "1"})
    assert str(refused.value) == sentence


def test_internal_segment_bytes_stands_for_segment_bytes_and_wins_over_it():
    assert LogConfig.parse({"internal.segment.bytes": "2500"}).segment_bytes == 2500
    assert LogConfig.parse({"internal.segment.bytes": "2500", "segment.bytes": "1048576"}).segment_bytes == 2500


@pytest.mark.parametrize("profile", ["per-batch", "per-append"])
def test_index_profile_is_ours_and_has_two_values(profile):
    assert LogConfig().index_profile == "per-batch"
    assert LogConfig.parse({"index.profile": profile}).index_profile == profile
    with pytest.raises(InvalidConfiguration, match="per-batch, per-append"):
        LogConfig.parse({"index.profile": "per-record"})


def test_least_compaction_lag_may_equal_the_greatest_and_not_exceed_it():
    assert LogConfig.parse({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 5})
    with pytest.raises(InvalidConfiguration) as refused:
        LogConfig.parse({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5})
    assert str(refused.value) == (
        "min.compaction.lag.ms = 6 is above max.compaction.lag.ms = 5: lower the first or raise the second."
    )


def test_tiered_storage_cannot_be_switched_on():
    assert LogConfig.parse({"remote.storage.enable": "false"})
    with pytest.raises(InvalidConfiguration, match="no tiered storage"):
        LogConfig.parse({"remote.storage.enable": "true"})


def test_timestamp_difference_is_used_for_the_limits_that_are_not_set():
    config = LogConfig.parse({"message.timestamp.difference.max.ms": 1000, "message.timestamp.after.max.ms": 5})
    assert config.message_timestamp_before_max_ms == 1000
    assert config.message_timestamp_after_max_ms == 5


def test_timestamp_difference_set_anew_moves_the_limits_that_followed_it():
    first = LogConfig.parse({"message.timestamp.difference.max.ms": 1000})
    config = first.override({"message.timestamp.difference.max.ms": 2000})
    assert config.message_timestamp_before_max_ms == 2000
    assert config.message_timestamp_after_max_ms == 2000


def test_segment_of_a_compacted_log_spans_no_more_than_the_compaction_lag():
    lag = {"segment.ms": 1000, "max.compaction.lag.ms": 300}
    assert LogConfig.parse(lag).max_segment_ms == 1000
    assert LogConfig.parse({**lag, "cleanup.policy": "compact"}).max_segment_ms == 300
    assert LogConfig.parse({**lag, "cleanup.policy": "compact,delete", "segment.ms": 200}).max_segment_ms == 200


def test_override_changes_what_it_names_and_nothing_else():
    config = LogConfig.parse({"segment.bytes": "4096", "retention.ms": "-1"})
    changed = config.override({"segment.bytes": 2048})
    assert changed.changed() == {"segment.bytes": 2048, "retention.ms": -1}
    assert config.segment_bytes == 4096


def test_override_is_checked_like_the_first_time():
    with pytest.raises(InvalidConfiguration, match="above"):
        LogConfig.parse({"max.compaction.lag.ms": 5}).override({"min.compaction.lag.ms": 6})


def test_constructor_with_python_names_checks_too():
    assert LogConfig(segment_bytes=4096).segment_bytes == 4096
    with pytest.raises(InvalidConfiguration, match=r"segment\.bytes = 13"):
        LogConfig(segment_bytes=13)


def test_items_give_back_the_same_configuration():
    config = LogConfig.parse({"cleanup.policy": "compact", "segment.ms": "60000", "message.timestamp.difference.max.ms": "7"})
    assert LogConfig.parse(dict(config.items())) == config


def test_configuration_is_frozen_and_slotted():
    config = LogConfig()
    assert not hasattr(config, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.segment_bytes = 1


def test_broker_property_is_the_default_and_the_topics_own_value_wins():
    broker = BrokerConfig.parse({"log.segment.bytes": "5000", "log.index.size.max.bytes": "4096", "message.max.bytes": 2000000})
    config = LogConfig.parse({"segment.bytes": "2500"}, broker=broker)
    assert config.changed() == {"segment.bytes": 2500, "segment.index.bytes": 4096, "max.message.bytes": 2000000}

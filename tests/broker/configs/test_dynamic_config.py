"""Settings of a broker that change while it runs. Codes and synonyms are those of Kafka 4.3.0; the sentences are ours."""

from __future__ import annotations

import socket

import pytest

from milepost.topic_partition import TopicPartition
from tests.broker.settings import BROKER, DELETE, SET, TOPIC, alter, configs, describe, replace
from tests.broker.topics import create, offset, wanted
from tests.broker.transaction_talk import Producer, Talk
from tests.broker.wire import Wire


def test_settings_of_this_broker_win_over_those_of_all_and_topics_inherit_them(brokers):
    """Kafka 4.3.0's synonyms after the same requests."""
    broker = brokers.start({"log.segment.bytes": "1073741823"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"), wanted("own", segment_bytes="3000000"))
        assert alter(wire, BROKER, "0", ("log.segment.bytes", SET, "5000000")) == (0, None)
        assert alter(wire, BROKER, "", ("log.segment.bytes", SET, "4000000"), ("log.retention.ms", SET, "12345678")) == (0, None)
        places = [
            ("log.segment.bytes", "5000000", 2),
            ("log.segment.bytes", "4000000", 3),
            ("log.segment.bytes", "1073741823", 4),
            ("log.segment.bytes", "1073741824", 5),
        ]
        assert configs(wire, BROKER, "0", "log.segment.bytes") == {"log.segment.bytes": ("5000000", 2, places)}
        assert configs(wire, TOPIC, "visits", "segment.bytes") == {"segment.bytes": ("5000000", 2, places)}
        assert configs(wire, TOPIC, "own", "segment.bytes")["segment.bytes"][:2] == ("3000000", 1)
        assert configs(wire, TOPIC, "visits", "retention.ms") == {
            "retention.ms": ("12345678", 3, [("log.retention.ms", "12345678", 3), ("log.retention.hours", "168", 5)])
        }
        assert configs(wire, BROKER, "") == {
            "log.retention.ms": ("12345678", 3, [("log.retention.ms", "12345678", 3)]),
            "log.segment.bytes": ("4000000", 3, [("log.segment.bytes", "4000000", 3)]),
        }
    logs = {name: broker.replicas.partition(TopicPartition(name, 0)).log for name in ("visits", "own")}
    assert {name: log.config.segment_bytes for name, log in logs.items()} == {"visits": 5_000_000, "own": 3_000_000}


def test_topic_made_later_inherits_the_brokers_setting_too(wire):
    alter(wire, BROKER, "0", ("message.max.bytes", SET, "2000"))
    create(wire, wanted("visits"))
    assert configs(wire, TOPIC, "visits", "max.message.bytes")["max.message.bytes"][:2] == ("2000", 2)


def test_settings_of_a_broker_are_taken_away_again(wire):
    create(wire, wanted("visits"))
    alter(wire, BROKER, "0", ("log.segment.bytes", SET, "5000000"))
    assert replace(wire, BROKER, "0") == (0, None)
    assert configs(wire, TOPIC, "visits", "segment.bytes")["segment.bytes"][:2] == ("1073741824", 5)


@pytest.mark.parametrize(
    ("operation", "code", "sentence"),
    [
        (
            ("auto.create.topics.enable", SET, "false"),
            42,
            "auto.create.topics.enable: may not change while the broker runs; set it where the broker is started",
        ),
        (("log.retention.hours", SET, "1"), 42, None),
        (("foo.bar", SET, "x"), 42, "'foo.bar' is no broker property: no name is near it."),
        (("log.retention.ms", SET, "x"), 42, None),
        (("log.cleaner.max.compaction.lag.ms", SET, "5"), 42, None),
    ],
)
@pytest.mark.parametrize("name", ["", "0"])
def test_setting_that_a_broker_or_its_topics_cannot_have_is_refused(wire, name, operation, code, sentence):
    create(wire, wanted("visits", min_compaction_lag_ms="10"))
    found, message = alter(wire, BROKER, name, operation)
    assert found == code
    assert message
    if sentence is not None:
        assert message == sentence
    assert configs(wire, BROKER, "") == {}
    assert offset(wire, "visits", -1) == 0


# What a change does.


def test_threads_change_by_no_more_than_half_or_double(brokers):
    broker = brokers.start({"num.io.threads": "2", "request.channel.mode": "pooled"})
    pool = broker.server._pools[-1]
    with Wire(broker.bootstrap_servers) as wire:
        assert alter(wire, BROKER, "0", ("num.io.threads", SET, "4")) == (0, None)
        assert pool.size == 4
        for count in ("9", "1"):
            sentence = f"num.io.threads: from 4 to {count} is too much at once; between half and double, and at least 1"
            assert alter(wire, BROKER, "0", ("num.io.threads", SET, count)) == (42, sentence)
        assert alter(wire, BROKER, "0", ("num.io.threads", SET, "0"))[0] == 42
        assert pool.size == 4
        # What is stored for all brokers does not hold here, so it may be anything.
        assert alter(wire, BROKER, "", ("num.io.threads", SET, "1")) == (0, None)
        assert configs(wire, BROKER, "0", "num.io.threads")["num.io.threads"][:2] == ("4", 2)
        # And it is too little once it would hold.
        assert alter(wire, BROKER, "0", ("num.io.threads", DELETE, None))[0] == 42
        assert alter(wire, BROKER, "0", ("num.io.threads", SET, "8")) == (0, None)
        assert pool.size == 8
    brokers.stop(broker)
    broker = brokers.start({"num.io.threads": "2", "request.channel.mode": "pooled"})
    assert broker.server._pools[-1].size == 8


def test_threads_change_where_there_is_no_pool_too(broker, wire):
    assert alter(wire, BROKER, "0", ("num.io.threads", SET, "16")) == (0, None)
    assert broker.config.num_io_threads == 16


def test_the_cleaner_takes_up_its_settings(brokers):
    broker = brokers.start()
    settings = {
        "log.cleaner.backoff.ms": "99",
        "log.cleaner.io.max.bytes.per.second": "1000000.0",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.io.buffer.size": "4096",
        "log.cleaner.io.buffer.load.factor": "0.5",
    }
    with Wire(broker.bootstrap_servers) as wire:
        assert alter(wire, BROKER, "", *((name, SET, value) for name, value in settings.items())) == (0, None)
    for _ in range(2):
        cleaner = broker.logs.cleaner
        assert (cleaner.backoff_ms, cleaner._throttle.bytes_per_second) == (99, 1_000_000)
        offset_map, buffer_bytes = cleaner._next_memory
        assert (offset_map.slots, offset_map.desired, buffer_bytes) == (2097152 // 24, 2097152 // 48, 2048)
        brokers.stop(broker)
        broker = brokers.start()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.cleaner.io.buffer.load.factor", "7"),
        ("log.cleaner.dedupe.buffer.size", "1000"),
        ("log.cleaner.threads", "3"),
        ("log.cleaner.threads", "0"),
    ],
)
def test_a_cleaner_that_could_not_work_is_refused(wire, name, value):
    assert alter(wire, BROKER, "0", (name, SET, value))[0] == 42
    assert describe(wire, BROKER, "0", name).configs[0].config_source == 5


def test_connections_over_a_new_limit_are_refused_and_those_that_are_there_stay(broker, wire):
    assert alter(wire, BROKER, "0", ("max.connections.per.ip", SET, "1")) == (0, None)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as second:
        assert second.recv(1) == b"", "closed at once"
    assert alter(wire, BROKER, "0", ("max.connections.per.ip.overrides", SET, "127.0.0.1:2")) == (0, None)
    with Wire(broker.bootstrap_servers) as second:
        assert configs(second, BROKER, "0", "max.connections.per.ip")["max.connections.per.ip"][:2] == ("1", 2)


def test_silent_producers_are_forgotten_as_the_new_setting_says(broker, wire):
    create(wire, wanted("visits"))
    assert alter(wire, BROKER, "0", ("producer.id.expiration.ms", SET, "70000")) == (0, None)
    assert broker.replicas.partition(TopicPartition("visits", 0)).log.producers.expiration_ms == 70_000
    create(wire, wanted("later"))
    assert broker.replicas.partition(TopicPartition("later", 0)).log.producers.expiration_ms == 70_000


def test_verification_of_transactions_is_switched_off_and_on(broker, wire):
    talk = Talk(broker.bootstrap_servers)
    talk.topic("visits", 1)
    for value in ("false", "true"):
        assert alter(wire, BROKER, "0", ("transaction.partition.verification.enable", SET, value)) == (0, None)
        talk.produce("gone", Producer(4000 + len(value), 3), "visits-0", 0, version=9)
    talk.close()
    assert [line.rpartition(": ")[2] for line in talk.lines] == ["NONE 0", "INVALID_PRODUCER_ID_MAPPING -1"]


@pytest.mark.parametrize(
    "name",
    [
        *("broker.id", "node.id", "log.dirs", "listeners", "num.partitions", "fetch.max.bytes", "connections.max.idle.ms"),
        *("socket.request.max.bytes", "queued.max.requests", "offsets.retention.minutes", "transactional.id.expiration.ms"),
        *("group.consumer.session.timeout.ms", "log.retention.hours", "log.roll.hours", "auto.create.topics.enable"),
    ],
)
def test_what_only_a_start_can_change_is_read_only_and_refused(wire, name):
    (found,) = describe(wire, BROKER, "0", name).configs
    assert found.read_only
    sentence = f"{name}: may not change while the broker runs; set it where the broker is started"
    assert alter(wire, BROKER, "0", (name, SET, "5")) == (42, sentence)


@pytest.mark.parametrize(
    "name",
    [
        *("num.io.threads", "log.cleaner.threads", "num.recovery.threads.per.data.dir", "log.cleaner.backoff.ms"),
        *("message.max.bytes", "log.retention.ms", "log.segment.bytes", "max.connections", "max.connection.creation.rate"),
        *("producer.id.expiration.ms", "transaction.partition.verification.enable", "log.message.timestamp.type"),
        "group.consumer.assignment.interval.ms",
    ],
)
def test_what_may_change_is_not_read_only(wire, name):
    (found,) = describe(wire, BROKER, "0", name).configs
    assert not found.read_only

"""Attached directories as clients see them: everything that Kafka had in them is there, and nothing of them changes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

import milepost
from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.kinds.attached import AttachedBroker
from milepost.broker.lifecycle import Life
from milepost.client.admin import create_topic
from milepost.client.cluster import Cluster
from milepost.clock import ManualClock
from milepost.errors import KafkaStorage
from milepost.files import Overlay
from milepost.protocol.error_codes import ErrorCode
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition as Name
from tests.broker.attaching import FREE_PORT, SECONDS, attached, consumer_of
from tests.broker.topics import metadata
from tests.broker.wire import Wire
from tests.golden_expectations import in_the_form_of
from tests.golden_fixture import Golden, all_cases
from tests.waiting import until

HOLE = range(115, 119)
"""Of unclean/kafka-3.9.1-badcrc-before: the batch with the flipped bit."""


def consume(broker: Broker, starts: dict[Name, int], **settings: Any) -> dict[Name, list[Any]]:
    """Everything from these offsets on: offset, timestamp, key, value, headers. Over damage the consumer seeks."""
    consumer = consumer_of(broker, **settings)
    consumer.assign([TopicPartition(name.topic, name.partition, offset) for name, offset in starts.items()])
    found: dict[Name, list[Any]] = {name: [] for name in starts}
    left = set(starts)
    deadline = time.monotonic() + SECONDS
    while left:
        assert time.monotonic() < deadline, f"{left} did not come to an end"
        message = consumer.poll(1)
        if message is None:
            continue
        name, error = Name(message.topic(), message.partition()), message.error()
        if error is None:
            headers = [[key, value] for key, value in message.headers() or ()]
            found[name].append([message.offset(), message.timestamp()[1], message.key(), message.value(), headers])
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(name)
        elif error.code() == ErrorCode.CORRUPT_MESSAGE:
            consumer.seek(TopicPartition(name.topic, name.partition, HOLE.stop))
        else:
            raise KafkaException(error)
    consumer.close()
    return found


def printed_rows(expected: dict[str, Any], start: int) -> list[Any]:
    """What Kafka's tool printed of the records from an offset on, without the markers of transactions."""
    rows = [row for segment in expected["segments"] for row in segment["records"]]
    return [row for row in rows if row[0] >= start and not isinstance(row[5], dict)]


def in_form(row: list[Any], printed: list[Any]) -> list[Any]:
    offset, timestamp, key, value, headers = row
    forms = [form for _, form in printed[5]]
    shown = [
        [name, in_the_form_of(forms[place] if place < len(forms) else None, header)]
        for place, (name, header) in enumerate(headers)
    ]
    # A consumer is told neither the sequence, nor that a message of magic 0 has no timestamp.
    timestamp = printed[1] if printed[1] < 0 and timestamp <= 0 else timestamp
    return [offset, timestamp, printed[2], in_the_form_of(printed[3], key), in_the_form_of(printed[4], value), shown]


@pytest.mark.parametrize("case", all_cases())
def test_directory_that_kafka_wrote_is_consumed_to_the_last_record(golden: Golden, case: str) -> None:
    with attached(golden(case) / "logdir") as broker:
        starts = {name: log.start_offset for name, log in broker.logs.logs.items()}
        found = consume(broker, starts)
    assert found
    for name, rows in found.items():
        expected = golden.expected(case, str(name))
        start = expected["live"]["earliest"] if "live" in expected else expected["segments"][0]["baseOffset"]
        assert starts[name] == start
        printed = printed_rows(expected, start)
        if case == "unclean/kafka-3.9.1-badcrc-before":
            printed = [row for row in printed if row[0] not in HOLE]
        assert len(rows) == len(printed)
        assert [in_form(row, beside) for row, beside in zip(rows, printed, strict=True)] == printed


@pytest.mark.parametrize("case", all_cases("transactions"))
def test_consumer_with_read_committed_gets_what_it_got_from_kafka(golden: Golden, case: str) -> None:
    with attached(golden(case) / "logdir") as broker:
        names = [name for name in broker.logs.logs if not name.topic.startswith("__")]
        found = consume(broker, dict.fromkeys(names, 0), isolation_level="read_committed")
    for name, rows in found.items():
        visible = golden.expected(case, str(name))["live"]["readCommittedOffsets"]
        assert [row[0] for row in rows] == [offset for first, last in visible for offset in range(first, last + 1)]


def test_old_transactions_are_shown_and_not_ended(golden: Golden) -> None:
    with attached(golden("transactions/kafka-4.3.0") / "logdir") as broker:
        states = {each.transactional_id: each.state.name for each in broker.transactions.all()}
        assert (states["tid-B"], states["tid-C"]) == ("ONGOING", "ONGOING")
        # Both are far beyond their time. A broker would look for such every 10 seconds; this one does in 24 days.
        assert broker.transactions.settings.abort_interval_ms == 2**31 - 1


# Groups.


def committed_by(consumer: Consumer) -> dict[int, int]:
    asked = [TopicPartition("page_visits", number) for number in range(3)]
    return {each.partition: each.offset for each in consumer.committed(asked, SECONDS)}


@pytest.mark.parametrize("version", ["2.4.1", "3.9.1", "4.3.0"])
def test_groups_are_where_they_were(golden: Golden, version: str) -> None:
    case = f"groups/kafka-{version}"
    with attached(golden(case) / "logdir") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for group, rows in golden.case_json(case)["facts"]["committedAtEnd"]["groups"].items():
            answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(SECONDS)
            offsets = {(each.topic, each.partition): each.offset for each in answer.topic_partitions}
            assert offsets == {(topic, partition): offset for topic, partition, offset, _ in rows}


def test_group_goes_on_from_there_and_what_it_commits_is_gone_with_the_broker(golden: Golden) -> None:
    case = "groups/kafka-4.3.0"
    with attached(golden(case) / "logdir") as broker:
        consumer = consumer_of(broker, group_id="g-librdkafka")
        consumer.subscribe(["page_visits"])
        first: dict[int, int] = {}
        finished: set[int] = set()
        deadline = time.monotonic() + SECONDS
        while len(finished) < 3:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is not None and message.error():
                finished.add(message.partition())
            elif message is not None:
                first.setdefault(message.partition(), message.offset())
        assert first == {0: 7, 1: 8}
        consumer.commit(asynchronous=False)
        consumer.close()
        again = consumer_of(broker, group_id="g-librdkafka")
        assert committed_by(again) == {0: 24, 1: 20, 2: 20}
        again.close()
    with attached(golden(case) / "logdir") as broker:
        fresh = consumer_of(broker, group_id="g-librdkafka")
        assert committed_by(fresh) == {0: 7, 1: 8, 2: 20}
        fresh.close()


def test_group_of_the_consumer_protocol_works_without_an_offsets_topic(golden: Golden) -> None:
    with attached(golden("page_visits/kafka-3.9.1") / "logdir") as broker:
        consumer = consumer_of(broker, group_id="new", group_protocol="consumer", auto_offset_reset="earliest")
        consumer.subscribe(["page_visits"])
        count, finished = 0, set()
        deadline = time.monotonic() + SECONDS
        while len(finished) < 5:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is not None and message.error():
                finished.add(message.partition())
            elif message is not None:
                count += 1
        consumer.commit(asynchronous=False)
        consumer.close()
        assert count == 1224
        assert broker.cluster.topics.keys() == {"page_visits"}


# Which directories.


def test_partition_directories_of_several_places_are_one_topic(golden: Golden, tmp_path: Path) -> None:
    logdir = golden("page_visits/kafka-4.3.0") / "logdir"
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(logdir / "page_visits-0", first / "page_visits-0")
    shutil.copytree(logdir / "page_visits-1", second / "page_visits-1")
    with attached(first / "page_visits-0", second) as broker:
        found = consume(broker, {Name("page_visits", 0): 0, Name("page_visits", 1): 0})
        for name, rows in found.items():
            assert len(rows) == len(printed_rows(golden.expected("page_visits/kafka-4.3.0", str(name)), 0))


def test_partition_that_is_not_attached_has_no_leader_and_the_others_keep_their_numbers(golden: Golden) -> None:
    logdir = golden("page_visits/kafka-4.3.0") / "logdir"
    with attached(logdir / "page_visits-3", logdir / "page_visits-1") as broker:
        with Wire(broker.bootstrap_servers) as wire:
            (topic,) = metadata(wire)
        assert [(part.partition_index, part.leader_id, part.error_code) for part in topic.partitions] == [
            (0, -1, 5),
            (1, 0, 0),
            (2, -1, 5),
            (3, 0, 0),
        ]
        rows = consume(broker, {Name("page_visits", 3): 0})[Name("page_visits", 3)]
        assert len(rows) == len(printed_rows(golden.expected("page_visits/kafka-4.3.0", "page_visits-3"), 0))
        with Cluster(broker.bootstrap_servers) as cluster:
            assert [part.leader_id for part in cluster.topic("page_visits").partitions] == [-1, 0, -1, 0]


def test_same_partition_twice_is_refused_with_both_places(golden: Golden) -> None:
    ours = golden("page_visits/kafka-4.3.0") / "logdir"
    theirs = golden("page_visits/kafka-3.9.1") / "logdir" / "page_visits-2"
    with pytest.raises(KafkaStorage) as caught:
        AttachedBroker([str(ours), str(theirs)], FREE_PORT)
    assert str(caught.value) == (
        f"page_visits-2 is in two places, {ours}/page_visits-2 and {theirs}; attach one of them, or both with a broker and a port each"
    )


def test_same_directory_named_twice_is_one(golden: Golden) -> None:
    logdir = golden("page_visits/kafka-4.3.0") / "logdir"
    with Life(AttachedBroker([str(logdir), str(logdir / "page_visits-0"), f"{logdir}/"], FREE_PORT)) as broker:
        partitions = list(broker.logs.logs)
    assert sorted(map(str, partitions)) == [f"page_visits-{number}" for number in range(5)]


def test_deleted_partition_is_left_out_of_a_data_directory_and_served_when_it_is_named(golden: Golden, tmp_path: Path) -> None:
    logdir = golden("page_visits/kafka-4.3.0", tmp_path) / "logdir"
    deleted = logdir / f"page_visits-4.{'0' * 32}-delete"
    (logdir / "page_visits-4").rename(deleted)
    with attached(logdir) as broker:
        assert Name("page_visits", 4) not in broker.logs.logs
    with attached(deleted) as broker:
        rows = consume(broker, {Name("page_visits", 4): 0})[Name("page_visits", 4)]
        assert len(rows) == len(printed_rows(golden.expected("page_visits/kafka-4.3.0", "page_visits-4"), 0))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ([], "no such file or directory"),
        ([""], "neither segments (such as 00000000000000000000.log) nor partition directories (such as page_visits-0) are in it"),
        (["meta.properties"], "no partition directory (such as page_visits-0) is in it, so there is nothing to serve"),
        (["00000000000000000000.log"], "expected <topic>-<partition> with a partition from 0 to 2147483647; move it elsewhere"),
    ],
)
def test_directory_that_holds_nothing_to_serve_is_a_sentence(tmp_path: Path, made: list[str], sentence: str) -> None:
    for name in made:
        (tmp_path / "copy").mkdir()
        if name:
            (tmp_path / "copy" / name).touch()
    with pytest.raises(KafkaStorage) as caught:
        AttachedBroker([str(tmp_path / "copy")], FREE_PORT)
    assert sentence in str(caught.value)


def test_topics_of_milepost_keep_their_ids_settings_and_partitions(tmp_path: Path) -> None:
    with milepost.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders", 3, {"cleanup.policy": "compact"})
        with Cluster(broker.bootstrap_servers) as cluster:
            topic_id = cluster.topic("orders").topic_id
    with attached(tmp_path / "data" / "orders-1") as attached_broker:
        topic = attached_broker.cluster.topics["orders"]
        assert (topic.topic_id, topic.partitions, topic.configs) == (topic_id, 3, {"cleanup.policy": "compact"})
        assert attached_broker.logs.config_of("orders").compact


def test_cluster_is_that_of_the_directory_and_its_topics_have_no_settings_but_to_stay(golden: Golden) -> None:
    with attached(golden("page_visits/kafka-4.3.0") / "logdir") as broker:
        assert broker.cluster.cluster_id == "aFI2YNwyQcqd8y4tIupr1Q"
        assert broker.logs.config_of("page_visits").retention_ms == -1


def test_damaged_small_files_keep_nothing_from_being_served(golden: Golden, tmp_path: Path) -> None:
    logdir = golden("page_visits/kafka-4.3.0", tmp_path) / "logdir"
    for name in ("meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "milepost.cluster.json"):
        (logdir / name).write_bytes(b"version=9\n\xff\0 garbage")
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        (logdir / "page_visits-0" / name).write_bytes(b"\xff\0 garbage")
    with attached(logdir) as broker:
        names = [Name("page_visits", number) for number in range(5)]
        assert sum(map(len, consume(broker, dict.fromkeys(names, 0)).values())) == 1221


def test_nothing_happens_to_the_logs_when_time_goes_by(tmp_path: Path) -> None:
    with milepost.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders", 1, {"cleanup.policy": "compact,delete", "retention.ms": 1, "min.cleanable.dirty.ratio": 0})
    with milepost.open_log(str(tmp_path / "data" / "orders-0"), "a", {"segment.bytes": 300}) as log:
        for number in range(20):
            log.append([Record(timestamp=1 + number, key=b"k", value=b"v%d" % number)])
    clock = ManualClock(10**12)
    with Life(
        AttachedBroker([str(tmp_path / "data")], {**FREE_PORT, "log.initial.task.delay.ms": "0"}, clock=clock)
    ) as attached_broker:
        logs = attached_broker.logs
        for _ in range(3):
            clock.advance(10**9)
            list(logs.maintenance.pieces())
            assert logs.clean() is None
            assert list(logs.cleaner.retain(logs.logs)) == [None]
        assert len(consume(attached_broker, {Name("orders", 0): 0})[Name("orders", 0)]) == 20


# Beside a broker that runs.


def test_directory_of_a_running_broker_is_served_as_it_was_at_that_moment(tmp_path: Path) -> None:
    # Its owner writes into it every now and then, but not while it is compared.
    checkpoints = ("replica.high.watermark", "log.flush.offset", "log.flush.start.offset")
    seldom = {f"{name}.checkpoint.interval.ms": "3600000" for name in checkpoints}
    with Life(AloneBroker({"log.dirs": str(tmp_path), **FREE_PORT, **seldom})) as running:
        with Cluster(running.bootstrap_servers) as cluster:
            create_topic(cluster, "live", partitions=1)
        partition = running.replicas.partition(Name("live", 0))
        assert partition is not None
        for number in range(50):
            partition.log.append([Record(value=b"v%d" % number)])
        until((tmp_path / "live-0" / "leader-epoch-checkpoint").read_bytes, "its leader epoch was not written")
        with attached(tmp_path) as broker:
            rows = consume(broker, {Name("live", 0): 0})[Name("live", 0)]
            assert [row[3] for row in rows] == [b"v%d" % number for number in range(50)]
        with Life(AttachedBroker([str(tmp_path)], FREE_PORT)) as broker:
            partition.log.append([Record(value=b"later")])
            assert len(consume(broker, {Name("live", 0): 0})[Name("live", 0)]) == 50


def test_file_that_its_owner_takes_away_while_it_is_loaded_makes_loading_begin_anew(tmp_path: Path, monkeypatch) -> None:
    with milepost.open_log(str(tmp_path / "live-0"), "a", {"segment.bytes": 300}) as log:
        for number in range(20):
            log.append([Record(value=b"v%d" % number)])
        oldest = log.segments.base_offsets()[0]
    listdir = Overlay.listdir
    taken: list[str] = []

    def listed_and_taken_away(overlay: Overlay, path: str) -> list[str]:
        names = listdir(overlay, path)
        if path.endswith("live-0") and not taken:
            for file in (tmp_path / "live-0").glob(f"{oldest:020d}.*"):
                file.unlink()
                taken.append(file.name)
        return names

    monkeypatch.setattr(Overlay, "listdir", listed_and_taken_away)
    with Life(AttachedBroker([str(tmp_path)], FREE_PORT)) as broker:
        assert taken
        assert broker.logs.logs[Name("live", 0)].start_offset > oldest

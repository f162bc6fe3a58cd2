"""What a broker tells about itself: which metrics there are, and that they say what happened."""

from __future__ import annotations

import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost.codec.crc32c import crc32c
from milepost.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteTopicsRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.broker import talking
from tests.broker.scraping import scrape
from tests.broker.talking import Transactional
from tests.broker.telemetry.metered import ON, REQUESTS, TOPICS, fetch, settled
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire


def batch(*values: bytes, key: bytes | None = b"k", **settings) -> bytes:
    return build_batch([Record(at, 1000 + at, key, value) for at, value in enumerate(values)], base_offset=0, **settings)


def without_sequence(data: bytes) -> bytes:
    """The same batch with base sequence -1 and a checksum that fits."""
    changed = data[:53] + struct.pack(">i", -1) + data[57:]
    return changed[:17] + struct.pack(">I", crc32c(changed[21:])) + changed[21:]


def send(wire: Wire, data: bytes, topic: str = "t", version: int = 9) -> int:
    """The error code of an append."""
    part = ProduceRequest.TopicData.PartitionData(index=0, records=data)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[ProduceRequest.TopicData(name=topic, partition_data=[part])])
    return wire.ask(request, version).responses[0].partition_responses[0].error_code


def test_produced_and_fetched_bytes_and_records_are_counted_for_the_topic_and_for_all(broker, wire):
    create(wire, wanted("t"), wanted("other"))
    first, second = batch(b"a", b"b"), batch(b"c")
    assert [send(wire, first), send(wire, second), send(wire, second)] == [0, 0, 0]
    produce(wire, "other", [b"x"])
    fetched = len(fetch(wire, 0).records)
    found = scrape(broker)
    assert found.value(f"{TOPICS}_messagesin_total", topic="t") == 4
    assert found.value(f"{TOPICS}_messagesin_total") == 5
    assert found.value(f"{TOPICS}_bytesin_total", topic="t") == len(first) + 2 * len(second)
    assert found.value(f"{TOPICS}_totalproducerequests_total", topic="t") == 3
    assert found.value(f"{TOPICS}_bytesout_total", topic="t") == fetched == len(first) + 2 * len(second)
    assert found.value(f"{TOPICS}_totalfetchrequests_total", topic="t") == 1
    assert found.value(f"{TOPICS}_bytesout_total", topic="other") == 0


def test_requests_are_counted_by_version_whichever_way_they_take(broker, wire):
    create(wire, wanted("t"))
    for _ in range(20):
        assert send(wire, batch(b"a"), version=9) == 0
    assert send(wire, batch(b"a"), version=7) == 0
    found = settled(broker, f"{REQUESTS}_requests_total", 1, request="Produce", version="7")
    assert found.value(f"{REQUESTS}_requests_total", request="Produce", version="9") == 20
    assert found.value(f"{REQUESTS}_requests_total", request="CreateTopics", version="7") == 1
    assert found.value(f"{REQUESTS}_errors_total", request="Produce", error="NONE") == 21
    assert found.value(f"{REQUESTS}_totaltimems_count", request="Produce") == 21
    assert found.value(f"{REQUESTS}_localtimems", request="Produce", quantile="0.50") > 0
    assert found.value(f"{REQUESTS}_requestbytes", request="Produce", quantile="1") > len(batch(b"a"))


def test_time_a_fetch_waits_for_records_is_not_time_it_is_handled(broker, wire):
    create(wire, wanted("t"))
    fetch(wire, 0, max_wait_ms=1000)
    found = settled(broker, f"{REQUESTS}_requests_total", 1, request="FetchConsumer", version="11")
    local, remote, total = (
        found.value(f"{REQUESTS}_{each}timems", request="FetchConsumer", quantile="1") for each in ("local", "remote", "total")
    )
    assert remote > 500
    assert local + remote <= total * 1.1, "no moment is counted twice"
    assert found.value(f"{REQUESTS}_totaltimems_count", request="Fetch") == 1


def test_fetch_that_waits_is_in_the_purgatory(broker, wire):
    create(wire, wanted("t"))
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert scrape(broker).value(name, delayedOperation="Fetch") == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetch, wire, 0, max_wait_ms=50_000)
        found = settled(broker, name, 1, delayedOperation="Fetch")
        assert found.value(name, delayedOperation="Produce") == 0
        with Wire(broker.bootstrap_servers) as other:
            produce(other, "t", [b"a"])
        assert waiting.result().error_code == 0
    settled(broker, name, 0, delayedOperation="Fetch")


def test_those_that_wait_for_other_replicas_are_counted_apart(broker):
    purgatory, name = broker.replicas.purgatory, TopicPartition("t", 0)
    for keys in ([("committed", name)], [("committed", name)], [("start", name)], [("topic", "t")], ["brokers"], [name]):
        broker.loop.post(lambda keys=keys: purgatory.wait(keys, lambda key: False, lambda: None, 600))
    size = "kafka_server_delayedoperationpurgatory_purgatorysize"
    found = settled(broker, size, 2, delayedOperation="Produce")
    assert [found.value(size, delayedOperation=each) for each in ("Fetch", "DeleteRecords")] == [1, 1]


@pytest.mark.parametrize(
    ("data", "code", "is_failed", "reason"),
    [
        (batch(b"a")[:-1] + b"!", 2, 0, "invalidmessagecrcrecords"),
        (batch(b"a" * 3000), 10, 0, None),
        (batch(b"a", key=None), 87, 1, "nokeycompactedtopicrecords"),
        (
            without_sequence(batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)),
            87,
            1,
            "invalidoffsetorsequencerecords",
        ),
        (batch(b"a", producer_id=5, producer_epoch=0, base_sequence=7), 0, 0, None),
    ],
)
def test_refused_batch_is_counted_for_its_reason(broker, wire, data, code, is_failed, reason):
    create(wire, wanted("t", cleanup_policy="compact", max_message_bytes="2000"))
    assert send(wire, data) == code
    found = scrape(broker)
    reasons = ("invalidmessagecrcrecords", "nokeycompactedtopicrecords", "invalidoffsetorsequencerecords")
    assert {each: found.value(f"{TOPICS}_{each}_total") for each in reasons} == {each: each == reason for each in reasons}
    assert found.value(f"{TOPICS}_failedproducerequests_total", topic="t") == is_failed
    assert found.value(f"{TOPICS}_totalproducerequests_total", topic="t") == 1
    assert found.value(f"{TOPICS}_bytesrejected_total", topic="t") == (len(data) if code == 10 else 0)
    assert found.value(f"{TOPICS}_messagesin_total", topic="t") == (code == 0)


def test_error_codes_of_answers_are_counted_by_name(broker, wire):
    create(wire, wanted("t"))
    assert send(wire, batch(b"a"), topic="missing") == 3
    assert fetch(wire, 99).error_code == 1
    found = settled(broker, f"{REQUESTS}_errors_total", 1, request="Fetch", error="OFFSET_OUT_OF_RANGE")
    assert found.value(f"{REQUESTS}_errors_total", request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert found.value(f"{TOPICS}_failedfetchrequests_total", topic="t") == 0, "the client's news, not the broker's trouble"


def test_logs_are_measured_when_they_are_asked_for(broker, wire):
    create(wire, wanted("t", 2, segment_bytes="300"))
    for _ in range(4):
        produce(wire, "t", [b"x" * 100], partition=1)
    found = scrape(broker)
    where = {"topic": "t", "partition": "1"}
    assert found.value("kafka_log_log_logendoffset", **where) == 4
    assert found.value("kafka_log_log_logstartoffset", **where) == 0
    assert found.value("kafka_log_log_numlogsegments", **where) == 4
    assert found.value("kafka_log_log_size", **where) == 4 * len(batch(b"x" * 100, key=b"key"))
    assert found.value("kafka_log_log_logendoffset", topic="t", partition="0") == 0


def test_topic_that_is_deleted_is_gone_and_the_sums_stay(broker, wire):
    create(wire, wanted("t"))
    produce(wire, "t", [b"a"])
    assert ("partition", "t") not in scrape(broker).samples[f"{TOPICS}_messagesin_total"]
    wire.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")], timeout_ms=1000), 6)
    found = scrape(broker)
    assert found.value(f"{TOPICS}_messagesin_total") == 1
    assert not [labels for samples in found.samples.values() for labels in samples if ("topic", "t") in labels]


def test_counters_never_fall(broker, wire):
    create(wire, wanted("t"))
    seen: dict[tuple[str, object], float] = {}
    for step in range(4):
        for _ in range(step + 1):
            produce(wire, "t", [b"a"])
            fetch(wire, 0)
        found = scrape(broker)
        for name, samples in found.samples.items():
            if name.endswith(("_total", "_count", "_sum")) and name != "kafka_server_socket_server_metrics_connection_count":
                for labels, value in samples.items():
                    assert value >= seen.get((name, labels), 0), (name, labels)
                    seen[name, labels] = value


def test_one_broker_is_controller_of_all_its_partitions_and_has_no_replica_behind(broker, wire):
    create(wire, wanted("t", 3), wanted("careful", min_insync_replicas="2"))
    found = scrape(broker)
    replicas, controller = "kafka_server_replicamanager", "kafka_controller_kafkacontroller"
    assert found.value(f"{controller}_activecontrollercount") == 1
    assert found.value(f"{replicas}_partitioncount") == found.value(f"{replicas}_leadercount") == 4
    assert found.value(f"{controller}_globaltopiccount") == 2
    assert found.value(f"{controller}_globalpartitioncount") == 4
    for name in ("underreplicatedpartitions", "offlinereplicacount"):
        assert found.value(f"{replicas}_{name}") == 0
    assert found.value(f"{controller}_offlinepartitionscount") == 0
    assert found.value(f"{replicas}_underminisrpartitioncount") == 1
    assert found.value("kafka_cluster_partition_underminisr", topic="careful", partition="0") == 1
    assert found.value("kafka_cluster_partition_atminisr", topic="t", partition="0") == 1
    assert found.value("kafka_server_kafkaserver_brokerstate") == 3


def test_partition_is_counted_whose_transaction_is_silent_for_longer_than_any_may_last(brokers, monkeypatch):
    monkeypatch.setattr(talking, "NOW", round(time.time() * 1000))  # and not when the tests were collected
    broker = brokers.start({**ON, "transaction.max.timeout.ms": "60000"})
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("visits"))
        producer = Transactional(wire, "app")
        producer.write(b"now")
        assert scrape(broker).value(late) == 0
        said = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "is_transactional": True}
        for sequence, minutes, count in ((1, 5, 0), (2, 7, 1)):  # a minute, and five in which the coordinator may be slow
            record = Record(0, round(time.time() * 1000) - minutes * 60_000, b"k", b"v")
            data = build_batch([record], base_offset=0, base_sequence=sequence, **said)
            assert talking.produce(wire, data, transactional_id="app").error_code == 0
            assert scrape(broker).value(late) == count
        assert producer.end(committed=True) == 0
        settled(broker, late, 0)


def test_groups_are_counted_by_state_and_protocol(broker, wire):
    create(wire, wanted("t"))
    commit = OffsetCommitRequest.Topic
    wire.ask(
        OffsetCommitRequest(
            group_id="offsets-only",
            generation_id_or_member_epoch=-1,
            topics=[commit(name="t", partitions=[commit.Partition(partition_index=0, committed_offset=5)])],
        ),
        8,
    )
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    joined = JoinGroupRequest(
        group_id="classic", protocol_type="consumer", protocols=protocols, session_timeout_ms=60_000, rebalance_timeout_ms=60_000
    )
    assert wire.ask(joined, 3).error_code == 0
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="new",
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert wire.ask(heartbeat, 0).error_code == 0
    found = scrape(broker)
    groups = "kafka_coordinator_group_groupmetadatamanager"
    assert found.value(f"{groups}_numgroups") == 3
    assert found.value(f"{groups}_numgroupsempty") == 1
    assert found.value(f"{groups}_numgroupscompletingrebalance") == 1
    assert found.value(f"{groups}_numoffsets") == 1
    coordinator = "kafka_server_group_coordinator_metrics"
    assert found.value(f"{coordinator}_group_count", protocol="consumer") == 1
    assert found.value(f"{coordinator}_group_count", protocol="classic") == 2
    assert sum(found.samples[f"{coordinator}_consumer_group_count"].values()) == 1


def test_fetch_sessions_are_counted(broker, wire):
    create(wire, wanted("t"))
    fetch(wire, 0, session_id=0, session_epoch=0)
    found = scrape(broker)
    assert found.value("kafka_server_fetchsessioncache_numincrementalfetchsessions") == 1
    assert found.value("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached") == 1


def test_time_of_an_fsync_is_noted(broker, wire):
    create(wire, wanted("t", flush_messages="1"))
    produce(wire, "t", [b"a"])
    found = scrape(broker)
    assert found.value("kafka_log_logflushstats_logflushrateandtimems_count") > 0
    assert found.value("kafka_log_logflushstats_logflushrateandtimems", quantile="1") > 0


def test_process_says_what_it_costs(broker):
    found = scrape(broker)
    assert found.value("process_cpu_seconds_total") > 0
    assert 10 << 20 < found.value("process_resident_memory_bytes") < 4 << 30
    assert abs(found.value("process_start_time_seconds") - time.time()) < 86_400


def test_pooled_requests_are_counted_as_inline_ones_are(brokers):
    broker = brokers.start({**ON, "request.channel.mode": "pooled"})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
        for _ in range(10):
            produce(wire, "t", [b"a"])
    found = settled(broker, f"{REQUESTS}_requests_total", 10, request="Produce", version="9")
    assert found.value(f"{TOPICS}_messagesin_total", topic="t") == 10
    assert found.value(f"{REQUESTS}_requestqueuetimems", request="Produce", quantile="1") > 0


def test_metadata_without_partitions_counts_its_errors(broker, wire):
    wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="nope")], allow_auto_topic_creation=False), 12)
    settled(broker, f"{REQUESTS}_errors_total", 1, request="Metadata", error="UNKNOWN_TOPIC_OR_PARTITION")

"""`milepost.Broker`: in a program, on a thread of its own, and gone without a trace."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import milepost
from milepost.broker.embedded import EmbeddedBroker
from milepost.client.cluster import Cluster
from milepost.errors import DirectoryLocked, InvalidArgument, InvalidConfiguration, PortUnavailable, RequestFailed
from tests.ports import held_port
from tests.waiting import until

SECONDS = 60
CLEAN = ".kafka_cleanshutdown"


def produce(broker: EmbeddedBroker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0


def consume(broker: EmbeddedBroker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, timeout=SECONDS)]
    finally:
        consumer.close()


def test_client_produces_and_consumes_in_a_group():
    with milepost.Broker() as broker:
        produce(broker, "visits", b"1", b"2", b"3")
        assert consume(broker, "visits", 3) == [b"1", b"2", b"3"]


def test_address_is_a_free_port_of_the_loopback_interface():
    with milepost.Broker() as broker:
        assert broker.bootstrap_servers == f"{broker.host}:{broker.port}"
        assert broker.host == "127.0.0.1"
        assert broker.port > 0
        assert repr(broker) == f"<milepost.Broker 127.0.0.1:{broker.port}>"


def test_temporary_directory_goes_with_it():
    before = set(Path(tempfile.gettempdir()).glob("milepost-*"))
    with milepost.Broker() as broker:
        directory = Path(broker.data)
        assert directory.is_dir()
        assert directory not in before
    assert not directory.exists()


def test_given_directory_stays_and_is_left_clean(tmp_path):
    with milepost.Broker(tmp_path / "kept") as broker:
        assert broker.data == str(tmp_path / "kept")
        produce(broker, "visits", b"kept")
    assert (tmp_path / "kept" / CLEAN).exists()
    with milepost.Broker(str(tmp_path / "kept")) as broker:
        assert consume(broker, "visits", 1) == [b"kept"]


def test_several_run_in_one_process_and_know_nothing_of_each_other():
    with milepost.Broker() as first, milepost.Broker() as second:
        produce(first, "visits", b"first")
        produce(second, "visits", b"second")
        assert consume(first, "visits", 1) == [b"first"]
        assert consume(second, "visits", 1) == [b"second"]


def test_properties_have_kafkas_names_and_kafkas_defaults():
    config = {"num.partitions": 4, "auto.create.topics.enable": False, "log.message.timestamp.type": "LogAppendTime"}
    with milepost.Broker(config=config) as broker:
        broker.create_topic("visits")
        with Cluster(broker.bootstrap_servers) as cluster:
            assert len(cluster.topic("visits").partitions) == 4
            with pytest.raises(RequestFailed):
                cluster.topic("other")


def test_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    with milepost.Broker() as broker:
        broker.create_topic("visits")
        with Cluster(broker.bootstrap_servers) as cluster:
            assert len(cluster.topic("visits").partitions) == 1


def test_topic_is_made_with_settings_of_any_type_and_deleted():
    with milepost.Broker() as broker:
        broker.create_topic("visits", 3, {"retention.ms": -1, "preallocate": False, "cleanup.policy": "compact"})
        with pytest.raises(
            RequestFailed, match=r"topic visits: the broker answers TOPIC_ALREADY_EXISTS \(36\): topic visits already exists"
        ):
            broker.create_topic("visits")
        broker.delete_topic("visits")
        with pytest.raises(RequestFailed, match=r"UNKNOWN_TOPIC_OR_PARTITION \(3\): there is no such topic"):
            broker.delete_topic("visits")


def test_it_can_be_started_and_stopped_again_and_again(tmp_path):
    broker = milepost.Broker(tmp_path)
    for number in range(3):
        assert broker.start() is broker
        assert broker.is_running
        produce(broker, "visits", b"%d" % number)
        broker.stop()
        broker.stop()
        assert not broker.is_running
    with broker:
        assert consume(broker, "visits", 3) == [b"0", b"1", b"2"]


def test_stopped_and_started_again_it_has_its_port_and_its_data():
    broker = milepost.Broker().start()
    address, data = broker.bootstrap_servers, broker.data
    produce(broker, "visits", b"before")
    broker.stop()
    assert os.path.isdir(data)
    with broker:
        assert (broker.bootstrap_servers, broker.data) == (address, data)
        assert consume(broker, "visits", 1) == [b"before"]
    assert not os.path.exists(data)
    with broker:
        assert broker.data != data


def test_metrics_are_where_they_were_after_a_restart():
    broker = milepost.Broker(config={"milepost.metrics.port": 0}).start()
    before = broker._running.metrics_endpoint.url
    broker.stop()
    with broker:
        assert broker._running.metrics_endpoint.url == before


def test_what_a_stop_keeps_goes_with_the_broker():
    broker = milepost.Broker().start()
    data = broker.data
    broker.stop()
    del broker
    gc.collect()
    assert not os.path.exists(data)


def test_port_that_is_named_is_taken():
    with held_port() as port, milepost.Broker(port=port) as broker:
        assert broker.port == port


# What goes wrong is a sentence, where it was asked for.


def test_port_in_use_leaves_nothing_behind(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortUnavailable, match=f"127.0.0.1:{port}: cannot listen there"):
            milepost.Broker(tmp_path / "data", port=port).start()
    assert not (tmp_path / "data").exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortUnavailable):
        milepost.Broker(port=taken.getsockname()[1]).start()
    assert list(tmp_path.iterdir()) == []


def test_directory_that_another_broker_has_is_refused_and_free_when_that_one_stops(tmp_path):
    with milepost.Broker(tmp_path), pytest.raises(DirectoryLocked, match=f"this process .pid {os.getpid()}. has it open already"):
        milepost.Broker(tmp_path).start()
    with milepost.Broker(tmp_path) as broker:
        assert broker.is_running


def test_start_that_fails_half_way_gives_the_directory_back(tmp_path):
    (tmp_path / "milepost.cluster.json").write_text("{")
    broker = milepost.Broker(tmp_path)
    for _ in range(2):
        with pytest.raises(milepost.MilepostError, match="not what this broker wrote"):
            broker.start()
    (tmp_path / "milepost.cluster.json").unlink()
    with broker:
        assert broker.is_running


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (
            {"config": {"num.partition": 3}},
            InvalidConfiguration,
            "'num.partition' is no broker property: did you mean num.partitions?",
        ),
        ({"config": {"num.partitions": "many"}}, InvalidConfiguration, "num.partitions"),
        ({"config": {"listeners": "PLAINTEXT://127.0.0.1:0"}, "port": 9092}, InvalidArgument, "port and the property listeners"),
        ({"config": {"log.dirs": "a"}, "data": "b"}, InvalidArgument, "data and the property log.dirs"),
    ],
)
def test_wrong_argument_is_told_before_anything_is_made(arguments, error, sentence):
    with pytest.raises(error) as caught:
        milepost.Broker(**arguments)
    assert sentence in str(caught.value)


def test_broker_that_does_not_run_has_no_address():
    broker = milepost.Broker()
    with pytest.raises(InvalidArgument, match=r"the broker does not run: call start\(\), or use it in a with statement"):
        _ = broker.bootstrap_servers
    assert repr(broker) == "<milepost.Broker stopped>"


def test_broker_that_runs_is_not_started_twice():
    with milepost.Broker() as broker, pytest.raises(InvalidArgument, match="runs already"):
        broker.start()


def test_error_that_ends_its_thread_is_raised_when_it_is_stopped():
    broker = milepost.Broker().start()

    def fail() -> None:
        raise RuntimeError("the ceiling came down")

    thread = broker._life.thread
    assert thread is not None
    broker._running.loop.post(fail)
    thread.join(SECONDS)
    with pytest.raises(RuntimeError, match="the ceiling came down"):
        broker.stop()
    assert not broker.is_running


# Threads and processes.


def test_it_leaves_no_thread_and_no_descriptor_behind():
    with milepost.Broker():
        pass
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with milepost.Broker() as broker:
            produce(broker, "visits", b"1")
    # librdkafka ends its threads, and closes their descriptors, a moment after its client is gone. So it does for tests before this one.
    until(lambda: threading.active_count() <= threads and len(os.listdir("/proc/self/fd")) <= descriptors)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=180, check=False)


def test_program_that_ends_without_stopping_it_leaves_the_directory_clean(tmp_path):
    done = python(f"import milepost; broker = milepost.Broker({str(tmp_path)!r}).start(); print(broker.port > 0)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert (tmp_path / CLEAN).exists()


def test_forked_child_is_a_client_and_takes_nothing_away_from_its_parent():
    code = """
import os, sys, milepost
from milepost.client.cluster import Cluster
with milepost.Broker() as broker:
    child = os.fork()
    if not child:
        with Cluster(broker.bootstrap_servers) as cluster:
            assert list(cluster.refresh(()).nodes) == [0]
        broker.stop()
        sys.exit(7)  # with everything that Python does at the end of a process
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    broker.create_topic("after")
    print(os.path.isdir(broker.data))
"""
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\nTrue\n", "")

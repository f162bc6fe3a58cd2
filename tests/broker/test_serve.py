"""`milepost serve` as a program: what it prints, how it stops, what it refuses, and that what it was told is there again."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milepost.client.admin import create_topic
from milepost.client.cluster import Cluster
from milepost.client.configs import Resource, ResourceType, describe_configs
from milepost.client.consumer import Consumer
from milepost.client.offsets import EARLIEST, LATEST, ends
from milepost.client.producer import Producer
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.cli.running import run

COMMAND = [sys.executable, "-W", "error", "-c", "from milepost.cli.main import main; main(prog_name='milepost')", "serve"]
CLEAN = ".kafka_cleanshutdown"


class Served:
    """A running `milepost serve`, ready: the lines it printed and where it listens."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process
        assert process.stdout is not None
        self.lines: list[str] = []
        while not self.lines or not self.lines[-1].startswith("ready "):
            line = process.stdout.readline()
            assert line, f"it ended before it was ready: {self.lines} {process.stderr.read() if process.stderr else ''}"
            self.lines.append(line.rstrip("\n"))
        self.address = self.lines[-1].removeprefix("ready ")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """The exit code, and what it said after `ready`."""
        self.process.send_signal(number)
        out, errors = self.process.communicate(timeout=180)
        return self.process.returncode, out, errors


@contextmanager
def serving(data: Path, *arguments: str, port: int | None = 0, first: str = "") -> Iterator[Served]:
    """`first` is Python that runs before the program."""
    command = [
        *COMMAND[:-2],
        f"{first}\n{COMMAND[-2]}",
        COMMAND[-1],
        "--data",
        str(data),
        *([] if port is None else ["--port", str(port)]),
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Served(process)
        finally:
            if process.poll() is None:
                process.kill()


def refused(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=180, check=False)
    return done.returncode, done.stdout, done.stderr


def read_all(address: str, topic: str) -> dict[int, list[Record]]:
    with Cluster(address) as cluster:
        partitions = [TopicPartition(topic, part.partition) for part in cluster.topic(topic).partitions]
        last = ends(cluster, partitions, LATEST)
        found: dict[int, list[Record]] = {partition.partition: [] for partition in partitions}
        with Consumer(cluster, ends(cluster, partitions, EARLIEST)) as consumer:
            while any(consumer.positions[partition] < last[partition] for partition in partitions):
                for partition, records in consumer.poll(5).items():
                    found[partition.partition] += records
    return found


def test_it_says_where_the_data_is_and_what_a_client_needs_and_last_that_it_is_ready(tmp_path):
    with serving(tmp_path / "data") as served:
        host, _, port = served.address.rpartition(":")
        assert (host, int(port) > 0) == ("127.0.0.1", True)
        assert [line.split(maxsplit=2) for line in served.lines[:-1]] == [
            ["data", "directory", str(tmp_path / "data")],
            ["for", "a", f"client     bootstrap.servers={served.address}"],
        ]
        with Cluster(served.address) as cluster:
            assert list(cluster.refresh(()).nodes) == [0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_it_cleanly_without_a_word(tmp_path, number):
    with serving(tmp_path) as served:
        assert not (tmp_path / CLEAN).exists()
        assert served.stop(number) == (0, "", "")
    assert (tmp_path / CLEAN).exists()


def test_clients_that_are_connected_do_not_keep_it_from_stopping(tmp_path):
    with serving(tmp_path) as served, Cluster(served.address) as cluster:
        create_topic(cluster, "t")
        with Consumer(cluster, {TopicPartition("t", 0): 0}) as consumer:
            consumer._ask(600.0, [])
            assert served.stop() == (0, "", "")


def test_what_a_start_found_damaged_is_said_with_what_was_done_and_where_the_bytes_are(golden, tmp_path):
    data = golden("unclean/kafka-3.9.1-badcrc-before", tmp_path) / "logdir"
    log = data / "crash-0" / "00000000000000000094.log"
    with serving(data) as served:
        recovered = [line for line in served.lines if line.startswith("recovered")]
        code, _, errors = served.stop()
    assert recovered == [
        "recovered        1 partition was not closed cleanly, 2 segments of it were read through: 1 damaged stretch was left out; "
        "the warnings say where"
    ]
    assert code == 0
    [warning] = [line for line in errors.splitlines() if "crash-0" in line]
    assert warning.endswith(
        f"WARNING {log}: bytes 1144 to 1354 are no valid batch: offsets 115 to 118 cannot be read, 119 is the next that can; "
        f"a copy of the bytes is kept as {log}.hole-1144-1354-115-119; fetch them from a replica, or run milepost repair"
    )


def test_a_torn_end_that_a_start_cut_off_is_said_with_where_it_is_kept(golden, tmp_path):
    data = golden("unclean/kafka-3.9.1-torn-before", tmp_path) / "logdir"
    log = data / "crash-0" / "00000000000000000094.log"
    with serving(data) as served:
        assert any("were read through: 123 bytes were cut off; the warnings say where" in line for line in served.lines)
        _, _, errors = served.stop()
    said = f"{log}: 123 bytes behind offset 135 were not a whole batch and were cut off; a copy is kept as {log}.cut-2227"
    assert said in errors
    assert Path(f"{log}.cut-2227").stat().st_size == 123


def test_rebuilt_indexes_are_said(golden, tmp_path):
    data = golden("unclean/kafka-3.9.1-clean-garbageindex-before", tmp_path) / "logdir"
    with serving(data) as served:
        assert "recovered        indexes were rebuilt for 4 segments; the warnings say where" in served.lines
        _, _, errors = served.stop()
    assert sum(line.endswith("the indexes of this segment are rebuilt from its log") for line in errors.splitlines()) == 4


def test_port_in_use_is_one_sentence_and_3(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, errors = refused("--data", str(tmp_path), "--port", str(port))
    assert (code, out, errors.count("\n")) == (3, "", 1)
    assert errors.startswith("milepost: ")
    assert f"127.0.0.1:{port}" in errors


def test_directory_in_use_is_one_sentence_with_the_owners_pid_and_3(tmp_path):
    with serving(tmp_path) as served:
        code, out, errors = refused("--data", str(tmp_path), "--port", "0")
        assert (code, out, errors.count("\n")) == (3, "", 1)
        assert errors.startswith("milepost: ")
        assert str(tmp_path) in errors
        assert str(served.process.pid) in errors
        with Cluster(served.address) as cluster:
            assert list(cluster.refresh(()).nodes) == [0]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--port", "99999"], 2),
        (["-X", "log.segment.bytes=many"], 2),
        (["-X", "listeners=nonsense"], 2),
        (["--config", "no-such-file.properties"], 3),
        (["--frobnicate"], 2),
    ],
)
def test_wrong_settings_are_told_before_anything_is_made(tmp_path, arguments, code):
    ended, out, errors = refused("--data", str(tmp_path / "data"), *arguments)
    assert (ended, out) == (code, "")
    assert "Traceback" not in errors
    assert not (tmp_path / "data").exists()


def test_restart_keeps_topics_settings_and_records(tmp_path):
    with serving(tmp_path) as served:
        with Cluster(served.address) as cluster:
            create_topic(cluster, "kept", partitions=2, configs={"retention.ms": "-1"})
            topic_id = cluster.topic("kept").topic_id
            with Producer(cluster) as producer:
                for number in range(100):
                    producer.send("kept", b"v%d" % number, partition=number % 2)
        assert served.stop()[0] == 0
    with serving(tmp_path) as served:
        with Cluster(served.address) as cluster:
            assert cluster.topic("kept").topic_id == topic_id
        found = read_all(served.address, "kept")
        assert [record.value for record in found[0]] == [b"v%d" % number for number in range(0, 100, 2)]
        assert [record.value for record in found[1]] == [b"v%d" % number for number in range(1, 100, 2)]
        assert json.loads((tmp_path / "milepost.cluster.json").read_text())["topics"]["kept"]["config"] == {"retention.ms": "-1"}
        assert served.stop()[0] == 0


def test_acknowledged_records_survive_a_kill(tmp_path):
    with serving(tmp_path) as served:
        with Cluster(served.address) as cluster, Producer(cluster) as producer:
            for number in range(50):
                producer.send("survived", b"v%d" % number)
        assert served.stop(signal.SIGKILL)[0] == -signal.SIGKILL
    assert not (tmp_path / CLEAN).exists()
    with serving(tmp_path) as served:
        assert [record.value for record in read_all(served.address, "survived")[0]] == [b"v%d" % number for number in range(50)]


def test_settings_come_from_the_file_and_a_flag_beats_it(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=5\nlog.segment.bytes=1000000\n")
    with (
        serving(tmp_path / "data", "--config", str(file), "-X", "num.partitions=3") as served,
        Cluster(served.address) as cluster,
    ):
        assert create_topic(cluster, "t").partitions == 3


def test_environment_beats_the_file_and_a_flag_beats_both(tmp_path, monkeypatch):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=5\nnum.io.threads=9\nmessage.max.bytes=5000\n")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "4")
    monkeypatch.setenv("KAFKA_NUM_IO_THREADS", "7")
    with (
        serving(tmp_path / "data", "--config", str(file), "-X", "num.io.threads=6") as served,
        Cluster(served.address) as cluster,
    ):
        assert create_topic(cluster, "t").partitions == 4
        settings = describe_configs(cluster, Resource(ResourceType.BROKER, "0"), ["num.io.threads", "message.max.bytes"])
        assert {entry.name: entry.value for entry in settings} == {"num.io.threads": "6", "message.max.bytes": "5000"}


def test_setting_that_has_no_effect_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    file = tmp_path / "server.properties"
    file.write_text("kafka.csv.metrics.dir=csv\n")
    with serving(tmp_path / "data", "--config", str(file)) as served:
        assert served.stop() == (
            0,
            "",
            f"warning: {file}, line 1: kafka.csv.metrics.dir is not a broker property milepost knows, so it has no effect.\n"
            "warning: KAFKA_HEAP_OPTS: heap.opts is not a broker property milepost knows, so it has no effect.\n",
        )


def test_listening_to_the_whole_world_is_refused(tmp_path):
    ran = run("serve", "--data", str(tmp_path / "data"), "-X", "listeners=PLAINTEXT://0.0.0.0:0")
    assert (ran.code, ran.lines) == (2, [])
    assert ran.errors == [
        "milepost: -X listeners: listeners: PLAINTEXT://0.0.0.0:0 can be reached from elsewhere, and nobody has to say who it is there: "
        "give it SASL_SSL, or SSL with ssl.client.auth=required, or give milepost.insecure.listener=true if that is meant."
    ]
    assert not (tmp_path / "data").exists()


def test_listening_to_the_whole_world_is_a_warning_where_it_is_meant(tmp_path):
    properties = ("-X", "listeners=PLAINTEXT://0.0.0.0:0", "-X", "milepost.insecure.listener=true")
    with serving(tmp_path, *properties, port=None) as served:
        code, _, errors = served.stop()
    assert (code, errors) == (
        0,
        "warning: it listens on 0.0.0.0 without authentication: every client that can connect may read and write everything\n",
    )


def test_pool_of_handlers_is_said_to_be_for_teaching(tmp_path):
    with serving(tmp_path / "data", "-X", "request.channel.mode=pooled") as served:
        assert any(line.startswith("request handlers pooled, to see Kafka's threads") for line in served.lines)
    with serving(tmp_path / "inline") as served:
        assert not any(line.startswith("request handlers") for line in served.lines)


@pytest.mark.parametrize(("version", "count"), [("2.4.1", 1653), ("3.9.1", 1224), ("4.3.0", 1221)])
def test_directory_that_kafka_left_behind_is_served_to_the_last_record(golden, tmp_path, version, count):
    case = f"page_visits/kafka-{version}"
    data = golden(case, tmp_path) / "logdir"
    with serving(data) as served:
        assert served.lines[1] == "adopted          page_visits: found without settings, so nothing is deleted by age"
        found = read_all(served.address, "page_visits")
        assert served.stop()[0] == 0
    assert sum(map(len, found.values())) == count
    for number, records in found.items():
        expected = golden.expected(case, f"page_visits-{number}")
        rows = [row for segment in expected["segments"] for row in segment["records"]]
        assert [[each.offset, each.timestamp, each.key.decode(), each.value.decode()] for each in records] == [
            [row[0], row[1], row[3], row[4]] for row in rows
        ]

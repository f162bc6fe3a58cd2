"""`milepost cluster`: three brokers and a ZooKeeper that go on when the command has ended, and every mistake one can make with them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.cluster.local.cluster import LocalCluster
from milepost.cluster.local.manifest import read_record, write_record
from milepost.errors import KafkaStorage
from tests.cli.programs import milepost
from tests.waiting import PROCESS_PATIENCE, until


@pytest.fixture(scope="module")
def directory(kafka_zookeeper, tmp_path_factory):
    """Of a cluster that runs. Where Java is missing `kafka_zookeeper` has skipped already."""
    directory = tmp_path_factory.mktemp("clusters") / "new" / "cluster"
    started = milepost("cluster", "start", "--data", directory, "--port-base", 0)
    try:
        assert started.code == 0, started.errors
        assert [line.split()[0] for line in started.lines] == ["data", "ZooKeeper", "broker", "broker", "broker", "for", "up"]
        yield directory
    finally:
        milepost("cluster", "stop", "--data", directory)


@pytest.fixture
def cluster(directory):
    """`cluster("status")`; all of it runs before and after the test."""

    def ask(*arguments):
        return milepost("cluster", arguments[0], "--data", directory, *arguments[1:])

    yield ask
    broken = [number for number, broker in read_record(str(directory)).brokers.items() if not broker.is_running]
    if broken:
        assert ask("restart", *broken).code == 0


def status(cluster):
    return json.loads(cluster("status", "--json").lines[0])


def create_topic(cluster, name, partitions=3):
    bootstrap = status(cluster)["bootstrap_servers"]
    sizes = ("--partitions", partitions, "--replication-factor", 3)
    assert milepost("topics", "create", name, *sizes, "--bootstrap-server", bootstrap).code == 0


def pids(directory):
    record = read_record(str(directory))
    return {number: broker.process.pid for number, broker in record.brokers.items() if broker.process}


def is_replaced(told, broker):
    leads_or_follows = any(broker in (part["leader"], *part["isr"]) for part in told["partitions"])
    return told["controller"] not in (broker, None) and not leads_or_follows


def test_status_has_controller_epochs_leaders_and_in_sync_replicas(cluster, directory):
    create_topic(cluster, "visits")
    assert cluster("restart", 1).code == 0  # which waits until all is in sync
    told = status(cluster)
    assert told["controller"] in (2, 3) and told["controller_epoch"] >= 1
    assert [(row["broker"], row["state"]) for row in told["brokers"]] == [(1, "running"), (2, "running"), (3, "running")]
    assert {row["broker"]: row["pid"] for row in told["brokers"]} == pids(directory)
    assert sum(row["leads"] for row in told["brokers"]) == 3 and {row["replicas"] for row in told["brokers"]} == {3}
    assert (told["under_replicated"], told["offline"]) == (0, 0)
    assert [sorted(part["isr"]) for part in told["partitions"]] == [[1, 2, 3]] * 3
    text = cluster("status")
    assert text.code == 0
    assert f"controller       broker {told['controller']}, epoch {told['controller_epoch']}" in text.lines
    assert "partitions       3, 0 under-replicated, 0 without a leader" in text.lines


def test_killed_broker_is_seen_replaced_and_restarted(cluster, directory):
    create_topic(cluster, "orders")
    victim = status(cluster)["controller"]
    process = read_record(str(directory)).brokers[victim].process
    pid = process.pid
    assert cluster("kill", victim).lines == [f"killed broker {victim}, pid {pid}"]
    assert not process.is_running
    until(lambda: is_replaced(status(cluster), victim), f"broker {victim} is controller and leader no more", PROCESS_PATIENCE)
    told = status(cluster)
    assert [row["state"] for row in told["brokers"] if row["broker"] == victim] == ["killed"]
    assert told["under_replicated"] == len(told["partitions"]) and told["offline"] == 0
    shown = cluster("status", "--under-replicated")
    assert shown.code == 1 and sum(line.endswith("under-replicated") for line in shown.lines) == told["under_replicated"]
    again = cluster("kill", victim)
    assert (again.code, again.errors) == (
        2,
        [f"milepost: broker {victim} does not run: `milepost cluster restart {victim}` starts it"],
    )
    assert cluster("restart", victim).code == 0
    assert status(cluster)["under_replicated"] == 0 and pids(directory)[victim] != pid


def test_broker_that_ended_by_itself_is_told_from_one_that_was_stopped(cluster, directory):
    process = read_record(str(directory)).brokers[3].process
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: not process.is_running, "the process has ended", PROCESS_PATIENCE)
    assert status(cluster)["brokers"][2]["state"] in ("crashed", "crashed, still registered")


def test_log_of_a_broker_says_when(cluster, directory):
    said = [line for line in (directory / "broker-1.log").read_text().splitlines() if " INFO " in line]
    assert said
    assert all(re.match(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO \S", line) for line in said)


def test_several_are_restarted_in_turn(cluster, directory):
    before = pids(directory)
    ran = cluster("restart", 1, 2, 3, "--json")
    assert [json.loads(line)["restarted"] for line in ran.lines] == [1, 2, 3]
    assert not set(before.values()) & set(pids(directory).values())


def test_second_start_is_refused_and_names_what_runs(cluster, directory):
    ran = cluster("start")
    assert ran.code == 2
    named = ", ".join(f"broker {number} with pid {pid}" for number, pid in pids(directory).items())
    assert ran.errors == [f"milepost: the cluster in {directory} runs already: {named}; `milepost cluster stop` ends it"]


def test_process_that_got_the_number_of_ours_is_never_signalled(cluster, directory):
    assert cluster("kill", 2).code == 0
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        record = read_record(str(directory))
        one = record.brokers[1]
        stale = type(one.process)(stranger.pid, one.process.started, one.process.boot)
        write_record(str(directory), record.with_broker(type(one)(2, record.brokers[2].port, stale)))
        assert [row["state"] for row in status(cluster)["brokers"]][1] in ("crashed", "crashed, still registered")
        assert cluster("kill", 2).errors == ["milepost: broker 2 does not run: `milepost cluster restart 2` starts it"]
        assert cluster("restart", 2).code == 0
        assert stranger.poll() is None
        stranger.communicate(b"\n")
        assert stranger.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("kill", "7"), "there is no broker 7 in {}, only 1, 2, 3"),
        (("restart", "1", "7"), "there is no broker 7 in {}, only 1, 2, 3"),
    ],
)
def test_wrong_number_is_a_sentence_before_anything_happens(cluster, directory, arguments, sentence):
    before = pids(directory)
    ran = cluster(*arguments)
    assert (ran.code, ran.errors) == (2, [f"milepost: {sentence.format(directory)}"])
    assert pids(directory) == before


def test_stop_ends_everything_and_start_brings_it_back_with_its_data_and_ports(cluster, directory):
    create_topic(cluster, "kept")
    before = status(cluster)
    zookeeper = read_record(str(directory)).zookeeper.process
    assert cluster("stop").lines == ["stopped brokers 1, 2, 3"]
    assert not zookeeper.is_running
    stopped = cluster("status", "--json")
    assert stopped.code == 1
    assert [row["state"] for row in json.loads(stopped.lines[0])["brokers"]] == ["stopped"] * 3
    assert cluster("stop").lines == ["no broker was running"]
    looked = milepost("zk", "tree", "--data", directory)
    assert looked.code == 4 and "does not run" in looked.errors[0]
    fewer = cluster("start", "-n", 2)
    assert (fewer.code, fewer.errors) == (
        2,
        [f"milepost: the cluster in {directory} has 3 brokers with data: start as many, or more"],
    )
    assert cluster("start").code == 0
    assert cluster("restart", 1, 2, 3).code == 0
    after = status(cluster)
    assert (after["cluster_id"], after["bootstrap_servers"]) == (before["cluster_id"], before["bootstrap_servers"])
    assert {part["topic"] for part in after["partitions"]} == {part["topic"] for part in before["partitions"]}
    assert after["under_replicated"] == 0


# Without a cluster.


def test_directory_without_a_cluster_is_a_sentence(tmp_path):
    for command in (["status"], ["stop"], ["kill", "1"], ["restart", "1"]):
        ran = milepost("cluster", *command, "--data", tmp_path)
        assert (ran.code, ran.errors) == (
            2,
            [f"milepost: no cluster was started in {tmp_path}: `milepost cluster start --data DIR` starts one"],
        )


def test_directory_with_modules_of_its_own_is_no_obstacle(kafka_zookeeper, tmp_path):
    """`python -m` puts the directory it is started in first on the path: `inspect/` there would be imported for Python's own."""
    (tmp_path / "inspect").mkdir()
    (tmp_path / "inspect" / "__init__.py").write_text("raise ImportError('this is not the one')")
    program = [sys.executable, "-P", "-m", "milepost.cli", "cluster"]
    start = [*program, "start", "-n", "1", "--data", "c", "--port-base", "0", "--zookeeper", f"{kafka_zookeeper.address}/modules"]
    try:
        done = subprocess.run(start, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        subprocess.run([*program, "stop", "--data", "c"], cwd=tmp_path, capture_output=True, timeout=180, check=False)


def test_brokers_and_their_zookeeper_have_ports_of_their_own(tmp_path, monkeypatch):
    """What is free for one is free for another who asks later: they are asked for together."""
    monkeypatch.setattr("milepost.cluster.local.cluster.free_ports", lambda count: list(range(5000, 5000 + count)))
    record = LocalCluster.planned(str(tmp_path / "c"), 2).record
    ports = [record.zookeeper.port, *(broker.port for broker in record.brokers.values())]
    assert sorted(ports) == [5000, 5001, 5002]


def test_ports_stay_taken_until_the_brokers_take_them(tmp_path, monkeypatch):
    planned = LocalCluster.planned(str(tmp_path / "c"), 2)
    seen = []

    def look(self):
        for broker in planned.record.brokers.values():
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", broker.port))
            seen.append(broker.broker_id)
        raise KafkaStorage("far enough")

    monkeypatch.setattr(LocalCluster, "_start_zookeeper", look)
    with pytest.raises(KafkaStorage, match="far enough"):
        planned.start()
    assert seen == [1, 2]


def test_taken_port_is_named_and_nothing_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = milepost("cluster", "start", "-n", 1, "--data", tmp_path / "c", "--port-base", port)
    assert (ran.code, ran.lines) == (3, [])
    assert ran.errors[0].startswith(f"milepost: port {port}, which broker 1 would take, is in use by another program")
    assert not (tmp_path / "c").exists()


def test_machine_without_java_is_told_what_to_do(tmp_path):
    ran = milepost("cluster", "start", "--data", tmp_path / "c", "--port-base", 0, PATH=str(tmp_path))
    assert ran.code == 2
    assert ran.errors == [
        "milepost: the bundled ZooKeeper needs Java, and there is none on the PATH: install Java 17, or name a running server with "
        "--zookeeper"
    ]


def test_setting_of_one_broker_is_refused_for_all(tmp_path):
    ran = milepost("cluster", "start", "--data", tmp_path / "c", "-X", "broker.id=5")
    assert ran.errors == [
        "milepost: broker.id is different for each broker of a cluster: `milepost cluster start` sets it itself"
    ]


def test_setting_that_does_not_exist_is_told_before_anything_is_started(tmp_path):
    ran = milepost("cluster", "start", "-n", 2, "--data", tmp_path / "c", "--port-base", 0, "-X", "num.partition=3")
    assert (ran.code, ran.errors) == (2, ["milepost: 'num.partition' is no broker property: did you mean num.partitions?"])
    assert not (tmp_path / "c").exists()


def test_damaged_record_is_a_sentence(tmp_path):
    (tmp_path / "cluster.json").write_text('{"version": 1}')
    ran = milepost("cluster", "status", "--data", tmp_path)
    assert ran.code == 3 and ran.errors[0].startswith(
        f"milepost: {tmp_path}/cluster.json is not what `milepost cluster start` writes"
    )


def test_cluster_on_a_zookeeper_that_runs_leaves_it_running(kafka_zookeeper, tmp_path):
    zookeeper = f"{kafka_zookeeper.address}/deep/below"
    started = milepost("cluster", "start", "-n", 1, "--data", tmp_path, "--port-base", 0, "--zookeeper", zookeeper, "--json")
    told = json.loads(started.lines[0])
    assert told["zookeeper"] == {"connect": zookeeper, "pid": None} and len(told["brokers"]) == 1
    process = read_record(str(tmp_path)).brokers[1].process
    # Whoever starts it may go, and so may its terminal.
    assert os.getsid(process.pid) == process.pid
    assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path(os.devnull)
    process.send(signal.SIGSTOP)
    assert milepost("cluster", "stop", "--data", tmp_path).code == 0
    assert not process.is_running
    looked = milepost("zk", "get", "/cluster/id", "--zookeeper", zookeeper)
    assert looked.code == 0

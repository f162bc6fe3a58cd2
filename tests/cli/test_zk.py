"""`milepost zk`: znodes shown readable, one at a time, as a tree, and as they change."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from tests.cli.programs import milepost
from tests.cli.running import run
from tests.waiting import PATIENCE, PROCESS_PATIENCE

STATE = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}'


@pytest.fixture
def writer(kafka_zookeeper):
    client = KazooClient(kafka_zookeeper.address, timeout=60)
    client.start(PATIENCE)
    client.delete("/looked-at", recursive=True)
    client.ensure_path("/looked-at/brokers/topics")
    for number in (2, 10):
        client.create(f"/looked-at/brokers/topics/visits/partitions/{number}/state", STATE, makepath=True)
    client.create("/looked-at/controller_epoch", b"7")
    client.create("/looked-at/controller", b'{"brokerid":2}', ephemeral=True)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def place(kafka_zookeeper, writer):
    return ("--zookeeper", f"{kafka_zookeeper.address}/looked-at")


def test_tree_is_indented_and_numbers_are_in_order(place):
    ran = run("zk", "tree", *place)
    assert ran.code == 0
    assert ran.lines == [
        "/",
        "  brokers",
        "    topics",
        "      visits",
        "        partitions",
        "          2",
        '            state  {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 1]}',
        "          10",
        '            state  {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 1]}',
        '  controller  {"brokerid": 2}  (ephemeral)',
        "  controller_epoch  7",
    ]
    assert run("zk", "tree", "/brokers/topics/visits/partitions/2/", *place).lines[0] == "/brokers/topics/visits/partitions/2"


def test_tree_as_json_has_one_object_per_node(place):
    nodes = [json.loads(line) for line in run("zk", "tree", "/controller_epoch", *place, "--json").lines]
    assert [(node["path"], node["content"], node["data"], node["ephemeral_owner"]) for node in nodes] == [
        ("/controller_epoch", 7, "7", 0)
    ]


def test_content_that_is_json_is_shown_readable(place):
    lines = run("zk", "get", "/controller", *place).lines
    assert lines[0].startswith("version 0, czxid ") and "ephemeral of session 0x" in lines[0]
    assert lines[1:] == ["{", '  "brokerid": 2', "}"]


def test_content_that_is_not_json_moves_no_cursor(place, writer):
    writer.create("/looked-at/odd", b"\x1b[2J\xff{")
    assert run("zk", "get", "/odd", *place).lines[1:] == ["\\x1b[2J\\xff{"]


def test_node_without_data_is_shown_as_empty(place, writer):
    writer.create("/looked-at/nothing", None)
    assert run("zk", "tree", "/nothing", *place).lines == ["/nothing"]
    assert len(run("zk", "get", "/nothing", *place).lines) == 1


def test_watch_tells_what_is_created_changed_and_deleted(place, writer):
    command = [sys.executable, "-m", "milepost.cli", "zk", "watch", *place, "--max-changes", "4", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching, ExitStack() as stack:
        stack.callback(watching.kill)
        late = threading.Timer(PROCESS_PATIENCE, watching.kill)
        late.start()
        stack.callback(late.cancel)
        assert watching.stderr.readline().startswith("watching / at ")

        def told():
            change = json.loads(watching.stdout.readline())
            return change["change"], change["path"], change.get("data")

        writer.set("/looked-at/controller_epoch", b"8")
        assert told() == ("changed", "/controller_epoch", "8")
        writer.create("/looked-at/brokers/ids/1", b"{}", makepath=True)
        assert told()[:2] == ("created", "/brokers/ids")
        assert told() == ("created", "/brokers/ids/1", "{}")
        writer.delete("/looked-at/controller")
        assert told() == ("deleted", "/controller", None)
        assert watching.wait(PROCESS_PATIENCE) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("get", "/nothing"), 2, "there is no znode /nothing at "),
        (("tree", "/nothing"), 2, "there is no znode /nothing at "),
        (("get", "/a/../b"), 2, "not a path of a znode: "),
    ],
)
def test_path_that_cannot_be_is_a_sentence(place, arguments, code, sentence):
    ran = run("zk", *arguments, *place)
    assert ran.code == code and ran.errors[0].startswith(f"milepost: {sentence}")


def test_address_where_nobody_answers_is_a_sentence(nobody, monkeypatch):
    monkeypatch.setattr("milepost.cluster.zookeeper.reader.ANSWER_SECONDS", 1.0)
    ran = run("zk", "tree", "--zookeeper", nobody)
    assert (ran.code, ran.errors) == (4, [f"milepost: no ZooKeeper answers at {nobody} within 1 seconds"])


def test_directory_without_a_cluster_is_a_sentence(tmp_path):
    ran = milepost("zk", "tree", "--data", tmp_path)
    assert ran.code == 2 and ran.errors[0].startswith(f"milepost: no cluster was started in {tmp_path}")

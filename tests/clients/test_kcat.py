"""kcat, as Debian packages it: librdkafka of that age, on the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from milepost.codec.compression import Codec
from tests.clients.served import Served
from tests.interop.kafka_harness import unavailable

SECONDS = 20
CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


@pytest.fixture(scope="module")
def kcat() -> str:
    path = shutil.which("kcat")
    if path is None:
        unavailable("kcat is not installed (Debian: apt install kcat)")
    return path


def run(kcat: str, served: Served, *arguments: str, given: str = "") -> str:
    command = [kcat, "-b", served.bootstrap, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def produce(kcat: str, served: Served, topic: str, text: str, *arguments: str) -> None:
    run(kcat, served, "-P", "-t", topic, "-p", "0", "-X", "linger.ms=5", *arguments, given=text)


def consume(kcat: str, served: Served, topic: str, *arguments: str) -> str:
    return run(kcat, served, "-C", "-t", topic, "-p", "0", "-e", "-q", *arguments)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(kcat, served, codec):
    topic = served.name()
    text = "".join(f"{number} {'page visit ' * 20}\n" for number in range(200))
    produce(kcat, served, topic, text, "-z", codec)
    assert consume(kcat, served, topic, "-o", "beginning") == text
    assert served.codecs(topic) == {CODECS[codec]}


def test_keys_headers_and_nulls_come_back(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "key:value\n", "-K:", "-H", "trace=abc", "-H", "empty=")
    produce(kcat, served, topic, "gone:\n", "-K:", "-Z")
    lines = consume(kcat, served, topic, "-o", "beginning", "-J").splitlines()
    first, null = (json.loads(line) for line in lines)
    assert (first["key"], first["payload"], first["headers"]) == ("key", "value", ["trace", "abc", "empty", ""])
    assert (null["key"], null["payload"], null["offset"]) == ("gone", None, 1)


def test_a_large_message_comes_back(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "x" * 900_000)
    assert consume(kcat, served, topic, "-o", "beginning", "-f", "%S") == "900000"


def test_offsets_are_asked_by_number_from_the_end_and_by_time(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "0\n1\n2\n")
    time.sleep(0.01)
    between = time.time_ns() // 1_000_000
    time.sleep(0.01)
    produce(kcat, served, topic, "3\n4\n")
    assert consume(kcat, served, topic, "-o", "3") == "3\n4\n"
    assert consume(kcat, served, topic, "-o", "-1") == "4\n"
    assert consume(kcat, served, topic, "-o", f"s@{between}") == "3\n4\n"
    assert run(kcat, served, "-Q", "-t", f"{topic}:0:{between}").split() == [topic, "[0]", "offset", "3"]


def test_metadata_lists_brokers_topics_and_partitions(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "made by the first message\n")
    metadata = json.loads(run(kcat, served, "-L", "-J", "-t", topic))
    assert metadata["brokers"] == [{"id": 0, "name": served.bootstrap}]
    (found,) = metadata["topics"]
    assert (found["topic"], [partition["leader"] for partition in found["partitions"]]) == (topic, [0, 0])


def test_an_idempotent_and_a_transactional_producer_are_read_as_committed(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "once\n", "-X", "enable.idempotence=true")
    produce(kcat, served, topic, "together\n", "-X", f"transactional.id={served.name('transaction')}")
    assert consume(kcat, served, topic, "-o", "beginning", "-X", "isolation.level=read_committed") == "once\ntogether\n"


def test_a_group_goes_on_where_it_stopped(kcat, served):
    topic, group = served.name(), served.name("group")
    produce(kcat, served, topic, "0\n1\n2\n3\n")
    balanced = ["-G", group, "-q", "-X", "auto.offset.reset=earliest", topic]
    assert run(kcat, served, "-c", "3", *balanced) == "0\n1\n2\n"
    assert run(kcat, served, "-c", "1", *balanced) == "3\n"


def test_two_members_share_and_the_one_left_takes_over(kcat, served, tmp_path):
    topic, group = served.name(), served.name("group")
    produce(kcat, served, topic, "0\n")
    settings = ["-X", "heartbeat.interval.ms=200", "-X", "session.timeout.ms=6000"]
    outputs = [tmp_path / "first", tmp_path / "second"]
    members: list[subprocess.Popen[bytes]] = []

    def until_they_have(*counts: int) -> None:
        deadline = time.monotonic() + SECONDS
        while (has := tuple(last_assigned(output.read_text()) for output in outputs[: len(counts)])) != counts:
            assert time.monotonic() < deadline, f"after {SECONDS} s the members have {has}, not {counts}"
            time.sleep(0.02)

    def join(output: Path) -> None:
        with output.open("wb") as stream:
            command = [kcat, "-b", served.bootstrap, "-G", group, *settings, topic]
            members.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream))

    try:
        join(outputs[0])
        until_they_have(2)
        join(outputs[1])
        until_they_have(1, 1)
        members[1].terminate()
        until_they_have(2)
    finally:
        for member in members:
            member.terminate()
            member.wait(SECONDS)


def last_assigned(printed: str) -> int:
    """How many partitions the last rebalance gave: "... assigned: visits-1 [0], visits-1 [1]"."""
    assigned = [line for line in printed.splitlines() if " rebalanced " in line]
    return assigned[-1].partition(" assigned: ")[2].count("[") if assigned else 0

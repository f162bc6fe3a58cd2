"""kcat, as Debian packages it: librdkafka of that age, on the command line."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients import situations
from tests.clients.client import Client
from tests.clients.served import Served
from tests.clients.situations import CODECS, covers
from tests.interop.toolchain import program
from tests.waiting import PROCESS_PATIENCE, until

SECONDS = PROCESS_PATIENCE
LACKS = {
    situations.TIMESTAMPS: "it leaves them to librdkafka",
    situations.CONSUMER_PROTOCOL: "its librdkafka has the classic protocol only",
    situations.OFFSETS_IN_TRANSACTIONS: "it does not consume and produce in one",
    situations.TOPICS: "it only lists them",
    situations.DELETE_RECORDS: "it administers nothing",
    situations.GROUPS: "it administers nothing",
    situations.GROUP_OFFSETS: "it administers nothing",
    situations.DELETE_GROUPS: "it administers nothing",
}


def installed_version() -> str:
    told = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    kcat, librdkafka = re.findall(r"(?:Version|librdkafka) (\d+\.\d+\.\d+)", told)
    return f"{kcat} with librdkafka {librdkafka}"


CLIENTS = [Client("kcat", "command line", installed_version)]


@pytest.fixture(scope="module")
def kcat() -> str:
    return program("kcat", "Debian has it as a package of that name")


def run(kcat: str, served: Served, *arguments: str, given: str = "") -> str:
    command = [kcat, "-b", served.bootstrap, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def produce(kcat: str, served: Served, topic: str, text: str, *arguments: str) -> None:
    run(kcat, served, "-P", "-t", topic, "-p", "0", "-X", "linger.ms=5", *arguments, given=text)


def consume(kcat: str, served: Served, topic: str, *arguments: str) -> str:
    return run(kcat, served, "-C", "-t", topic, "-p", "0", "-e", "-q", *arguments)


@covers("codec {codec}")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(kcat, served, codec):
    topic = served.name()
    text = "".join(f"{number} {'page visit ' * 20}\n" for number in range(200))
    produce(kcat, served, topic, text, "-z", codec)
    assert consume(kcat, served, topic, "-o", "beginning") == text
    assert served.codecs(topic) == {CODECS[codec]}


@covers(situations.HEADERS)
def test_keys_headers_and_nulls_come_back(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "key:value\n", "-K:", "-H", "trace=abc", "-H", "empty=")
    produce(kcat, served, topic, "gone:\n", "-K:", "-Z")
    lines = consume(kcat, served, topic, "-o", "beginning", "-J").splitlines()
    first, null = (json.loads(line) for line in lines)
    assert (first["key"], first["payload"], first["headers"]) == ("key", "value", ["trace", "abc", "empty", ""])
    assert (null["key"], null["payload"], null["offset"]) == ("gone", None, 1)


@covers(situations.LARGE, situations.TOO_LARGE)
def test_a_message_near_the_limit_passes_and_one_above_is_refused(kcat, served):
    topic = served.name()
    produce(kcat, served, topic, "x" * 900_000)
    assert consume(kcat, served, topic, "-o", "beginning", "-f", "%S") == "900000"
    command = [kcat, "-b", served.bootstrap, "-P", "-t", topic, "-p", "0", "-X", "message.max.bytes=3000000"]
    refused = subprocess.run(command, input="x" * 2_000_000, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (refused.returncode, refused.stderr) == (1, "% Delivery failed for message: Broker: Message size too large\n")


@covers(situations.OFFSETS_BY_TIME)
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
    assert {broker["id"] for broker in metadata["brokers"]} == served.node_ids
    assert served.bootstrap in {broker["name"] for broker in metadata["brokers"]}
    (found,) = metadata["topics"]
    assert found["topic"] == topic
    assert [partition["leader"] in served.node_ids for partition in found["partitions"]] == [True, True]


@covers(situations.IDEMPOTENCE)
def test_an_idempotent_producer_writes_each_record_once_in_order(kcat, served):
    topic = served.name()
    text = "".join(f"{number}\n" for number in range(1000))
    produce(kcat, served, topic, text, "-X", "enable.idempotence=true", "-X", "batch.num.messages=50")
    assert consume(kcat, served, topic, "-o", "beginning") == text
    served.assert_idempotent(topic, 1000)


def until_committed(kcat: str, served: Served, topic: str, text: str) -> None:
    """A commit is answered before its markers are written, where they are written by another broker."""
    arguments = ["-o", "beginning", "-X", "isolation.level=read_committed"]
    until(lambda: consume(kcat, served, topic, *arguments) == text, f"a reader of committed records gets {text!r}", SECONDS)


SOME_BYTES = 1000


@contextmanager
def in_transaction(kcat: str, served: Served, topic: str, transaction: str, value: str) -> Iterator[subprocess.Popen[str]]:
    """A kcat in the middle of its transaction: first records are in the log, and its input has not ended.

    It reads its input in large pieces; one record alone would wait for the next.
    """
    command = [kcat, "-b", served.bootstrap, "-P", "-t", topic, "-p", "0", "-X", f"transactional.id={transaction}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        process.stdin.write(f"{value}\n" * 20_000)
        process.stdin.flush()
        # More than a marker of the transaction before, which may come a moment later.
        until(lambda: served.size(topic) >= SOME_BYTES, "records are in the log", SECONDS)
        yield process
    finally:
        process.kill()
        process.communicate()


@covers(situations.TRANSACTIONS)
def test_committed_transactions_are_read_and_interrupted_ones_are_not(kcat, served):
    """Killed in a transaction, it leaves the abort to the next producer of its transactional id."""
    topic, name = served.name(), served.name("transaction")
    produce(kcat, served, topic, "first\n", "-X", f"transactional.id={name}")
    with in_transaction(kcat, served, topic, name, "lost") as interrupted:
        interrupted.kill()
    produce(kcat, served, topic, "third\n", "-X", f"transactional.id={name}")
    until_committed(kcat, served, topic, "first\nthird\n")
    everything = consume(kcat, served, topic, "-o", "beginning", "-X", "isolation.level=read_uncommitted").split()
    assert [value for value, _ in itertools.groupby(everything)] == ["first", "lost", "third"]


@covers(situations.FENCING)
def test_a_second_producer_of_the_same_id_fences_the_first(kcat, served):
    topic, name = served.name(), served.name("transaction")
    produce(kcat, served, topic, "the topic\n")
    with in_transaction(kcat, served, topic, name, "fenced") as first:
        produce(kcat, served, topic, "second\n", "-X", f"transactional.id={name}")
        complaint = first.communicate(timeout=SECONDS)[1]
        assert first.returncode == 1
        assert "fenced by newer producer instance" in complaint
    until_committed(kcat, served, topic, "the topic\nsecond\n")


@covers(situations.RESUME)
def test_a_group_goes_on_where_it_stopped(kcat, served):
    topic, group = served.name(), served.name("group")
    produce(kcat, served, topic, "0\n1\n2\n3\n")
    balanced = ["-G", group, "-q", "-X", "auto.offset.reset=earliest", topic]
    assert run(kcat, served, "-c", "3", *balanced) == "0\n1\n2\n"
    assert run(kcat, served, "-c", "1", *balanced) == "3\n"


@covers(situations.CLASSIC_GROUP)
def test_two_members_share_and_the_one_left_takes_over(kcat, served, tmp_path):
    topic, group = served.name(), served.name("group")
    produce(kcat, served, topic, "0\n")
    settings = ["-X", "heartbeat.interval.ms=200", "-X", "session.timeout.ms=60000"]
    outputs = [tmp_path / "first", tmp_path / "second"]
    members: list[subprocess.Popen[bytes]] = []

    def until_they_have(*counts: int) -> None:
        shown = outputs[: len(counts)]
        until(lambda: tuple(last_assigned(each.read_text()) for each in shown) == counts, f"the members have {counts}", SECONDS)

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
        for member in members:
            member.wait(SECONDS)


def last_assigned(printed: str) -> int:
    """How many partitions the last rebalance gave: "... assigned: visits-1 [0], visits-1 [1]"."""
    assigned = [line for line in printed.splitlines() if " rebalanced " in line]
    return assigned[-1].partition(" assigned: ")[2].count("[") if assigned else 0

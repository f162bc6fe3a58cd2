"""`milepost produce`: lines become records."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from milepost.cli import produce
from tests.cli.running import run


def consumed(ask, topic: str, count: int) -> list[dict]:
    return [json.loads(line) for line in ask("consume", topic, "--from-beginning", "--max-messages", count, "--json").lines]


def test_lines_become_records_in_order(ask):
    ask("topics", "create", "lines")
    ran = ask("produce", "lines", stdin=b"one\n\n three\r\nlast without an end")
    assert (ran.code, ran.lines) == (0, ["lines-0: 4 records, offsets 0 to 3"])
    assert [record["value"] for record in consumed(ask, "lines", 4)] == ["one", "", " three\r", "last without an end"]
    assert [record["key"] for record in consumed(ask, "lines", 4)] == [None] * 4


def test_keys_headers_nulls_and_bytes_that_are_no_text(ask):
    ask("topics", "create", "keys")
    arguments = ["--key-separator", "\\t", "--null-marker", "NULL", "--header", "a=1", "--header", "a=b=c"]
    assert ask("produce", "keys", *arguments, stdin=b"k\tv\tw\nk\tNULL\nNULL\t\xff\n").code == 0
    records = consumed(ask, "keys", 3)
    assert [(record["key"], record["value"]) for record in records] == [("k", "v\tw"), ("k", None), (None, {"hex": "ff"})]
    assert records[0]["headers"] == [["a", "1"], ["a", "b=c"]]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression(ask, codec):
    topic = f"compressed-{codec}"
    ask("topics", "create", topic)
    assert ask("produce", topic, "--compression", codec, stdin=b"value\n" * 100).code == 0
    assert [record["value"] for record in consumed(ask, topic, 100)] == ["value"] * 100


def test_partition_can_be_named_and_json_says_where_records_went(ask):
    ask("topics", "create", "three", "--partitions", 3)
    ran = ask("produce", "three", "--partition", 2, "--json", stdin=b"a\nb\n")
    assert [json.loads(line) for line in ran.lines] == [
        {"topic": "three", "partition": 2, "first_offset": 0, "last_offset": 1, "records": 2}
    ]
    wrong = ask("produce", "three", "--partition", 3, stdin=b"a\n")
    assert (wrong.code, wrong.errors) == (
        2,
        ["milepost: topic three has partitions 0 to 2, not 3 (0 of 1 records were acknowledged)"],
    )


def test_without_idempotence(ask):
    ask("topics", "create", "plain")
    assert ask("produce", "plain", "--no-idempotence", stdin=b"a\n").lines == ["plain-0: 1 record, offset 0"]


def test_nothing_to_send_is_fine_and_the_topic_is_made(ask):
    ran = ask("produce", "made-by-nothing", stdin=b"")
    assert (ran.code, ran.lines) == (0, [])
    assert "made-by-nothing" in ask("topics", "list").lines


def test_line_without_the_separator_is_named_with_its_number(ask):
    ran = ask("produce", "odd", "--key-separator", ":", stdin=b"a:1\nnone\n")
    assert (ran.code, ran.lines) == (2, [])
    assert ran.errors == ["milepost: line 2 has no ':' between key and value: b'none' (0 of 2 records were acknowledged)"]


def test_refusal_of_the_broker_says_what_was_acknowledged_before(ask):
    ask("topics", "create", "bounded", "--config", "max.message.bytes=1000")
    stdin = b"small\n" * 10 + b"x" * 5000 + b"\n"
    ran = ask("produce", "bounded", "--batch-size", 300, stdin=stdin)
    assert ran.code == 4
    assert "bounded-0, a batch of 1 record and" in ran.errors[0]
    assert ran.errors[0].endswith("(10 of 11 records were acknowledged)")


def test_internal_topic_is_refused(ask):
    ask("produce", "some", stdin=b"x\n")
    ask("consume", "some", "--group", "g", "--from-beginning", "--max-messages", 1)
    ran = ask("produce", "__consumer_offsets", stdin=b"x\n")
    assert ran.code == 4
    assert "INVALID_TOPIC_EXCEPTION (17)" in ran.errors[0]


def test_line_without_an_end_is_bounded(ask, monkeypatch):
    monkeypatch.setattr(produce, "MAX_LINE", 1000)
    ran = ask("produce", "endless", stdin=b"x" * 1001)
    assert (ran.code, ran.errors) == (
        2,
        ["milepost: a line is longer than 1000 bytes, which no broker takes in one request (0 of 0 records were acknowledged)"],
    )


@pytest.mark.parametrize(
    "arguments", [[], ["t", "--key-separator", ""], ["t", "--header", "x"], ["t", "--compression", "brotli"]]
)
def test_wrong_usage_is_2(arguments):
    assert run("produce", *arguments).code == 2


def test_line_from_a_slow_writer_is_sent_before_the_next_one_comes(ask, broker):
    ask("topics", "create", "live")
    code = "from milepost.cli.main import main; main(prog_name='milepost')"
    command = [sys.executable, "-W", "error", "-c", code, "produce", "live", "--bootstrap-server", broker.bootstrap_servers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"first\n")
        process.stdin.flush()
        assert ask("consume", "live", "--from-beginning", "--max-messages", 1).lines == ["first"]
        assert process.poll() is None
        out, errors = process.communicate(b"second\n")
    assert (process.returncode, out, errors) == (0, b"live-0: 2 records, offsets 0 to 1\n", b"")

"""`milepost consume`: where it starts, what it prints, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.client.cluster import Cluster
from milepost.client.producer import Producer
from tests.cli.running import run
from tests.waiting import PROCESS_PATIENCE

CODE = "from milepost.cli.main import main; main(prog_name='milepost')"


@pytest.fixture(scope="module")
def topic(broker) -> str:
    """Ten records v0 … v9 in partition 0, at 1,700,000,000,000 ms and each a second later; partition 1 is empty."""
    with Cluster(broker.bootstrap_servers) as cluster:
        run("topics", "create", "ten", "--partitions", 2, "--bootstrap-server", broker.bootstrap_servers)
        with Producer(cluster) as producer:
            for number in range(10):
                producer.send(
                    "ten", b"v%d" % number, key=b"k", partition=0, timestamp=1700000000000 + 1000 * number, headers=(("h", b"1"),)
                )
    return "ten"


def test_from_the_beginning_until_nothing_more_comes(ask, topic):
    ran = ask("consume", topic, "--from-beginning", "--timeout", "3")
    assert (ran.code, ran.lines, ran.errors) == (0, [f"v{number}" for number in range(10)], [])


def test_only_so_many(ask, topic):
    assert ask("consume", topic, "--from-beginning", "--max-messages", 3).lines == ["v0", "v1", "v2"]


def test_from_an_offset_in_one_partition(ask, topic):
    assert ask("consume", topic, "--offset", 8, "--partition", 0, "--max-messages", 2).lines == ["v8", "v9"]


@pytest.mark.parametrize("time", ["1700000007000", "1699999999.500", "2023-11-14T22:13:27Z", "1700000006001"])
def test_from_a_time(ask, topic, time):
    first = 0 if time.startswith("1699") else 7
    ran = ask("consume", topic, "--time", time, "--max-messages", 10 - first)
    assert ran.lines == [f"v{number}" for number in range(first, 10)]


def test_from_a_time_that_is_yet_to_come_is_from_the_end(ask, topic):
    assert ask("consume", topic, "--time", "2100-01-01", "--timeout", "0.1").lines == []


def test_without_a_start_only_what_comes_from_now_on(ask, topic):
    assert ask("consume", topic, "--timeout", "0.1").lines == []


def test_fields_that_are_asked_for(ask, topic):
    fields = "value,key,offset,partition,timestamp,headers"
    ran = ask("consume", topic, "--offset", 4, "--partition", 0, "--max-messages", 1, "--print", fields, "--separator", "|")
    assert ran.lines == ["1700000004000|0|4|k|h:1|v4"]


def test_records_as_json(ask, topic):
    (line,) = ask("consume", topic, "--offset", 4, "--partition", 0, "--max-messages", 1, "--json").lines
    assert json.loads(line) == {
        "topic": "ten",
        "partition": 0,
        "offset": 4,
        "timestamp": 1700000004000,
        "key": "k",
        "value": "v4",
        "headers": [["h", "1"]],
    }


def test_bytes_go_into_a_pipe_as_they_are(ask, broker):
    ask("topics", "create", "binary")
    ask("produce", "binary", stdin=b"\x00\xff\x1b[31m\n")
    command = [sys.executable, "-c", CODE, "consume", "binary", "--from-beginning", "--max-messages", "1"]
    done = subprocess.run(
        [*command, "--bootstrap-server", broker.bootstrap_servers], capture_output=True, timeout=PROCESS_PATIENCE, check=True
    )
    assert done.stdout == b"\x00\xff\x1b[31m\n"


def test_group_goes_on_where_it_was(ask, topic):
    first = ask("consume", topic, "--group", "steps", "--from-beginning", "--max-messages", 4)
    second = ask("consume", topic, "--group", "steps", "--from-beginning", "--max-messages", 4)
    rest = ask("consume", topic, "--group", "steps", "--max-messages", 2)
    assert [ran.lines for ran in (first, second, rest)] == [["v0", "v1", "v2", "v3"], ["v4", "v5", "v6", "v7"], ["v8", "v9"]]
    assert ask("consume", topic, "--group", "steps", "--timeout", "0.1").lines == []


def test_offset_beats_the_group(ask, topic):
    ask("consume", topic, "--group", "beaten", "--from-beginning", "--max-messages", 9)
    assert ask("consume", topic, "--group", "beaten", "--offset", 2, "--partition", 0, "--max-messages", 1).lines == ["v2"]
    assert ask("consume", topic, "--group", "beaten", "--max-messages", 1).lines == ["v3"]


def test_offset_that_is_not_there_is_one_sentence_with_what_is(ask, topic):
    ran = ask("consume", topic, "--offset", 11, "--partition", 0)
    sentence = "milepost: fetch of ten-0 at offset 11: the broker answers OFFSET_OUT_OF_RANGE (1): the log holds offsets 0 to 9"
    assert (ran.code, ran.lines, ran.errors) == (4, [], [sentence])


def test_topic_and_partition_that_are_not_there(ask, topic):
    absent = ask("consume", "absent")
    assert absent.code == 4
    assert absent.errors[0].startswith("milepost: topic absent: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3): ")
    wrong = ask("consume", topic, "--partition", 2)
    assert (wrong.code, wrong.errors) == (2, ["milepost: topic ten has partitions 0 to 1, not 2"])


def test_committed_records_only(golden, tmp_path):
    from milepost.broker.kinds.alone import AloneBroker
    from milepost.broker.lifecycle import Life

    directory = golden("transactions/kafka-3.9.1", tmp_path) / "logdir"
    settings = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", "log.retention.ms": "-1"}
    with Life(AloneBroker({**settings, "transaction.state.log.num.partitions": "2"})) as broker:
        arguments = ["consume", "open", "--print", "offset", "--bootstrap-server", broker.bootstrap_servers]
        committed = run(*arguments, "--isolation", "read_committed", "--from-beginning", "--max-messages", 7).lines
        open_ones = run(*arguments, "--isolation", "read_committed", "--offset", 8, "--timeout", "0.2").lines
        everything = run(*arguments, "--from-beginning", "--max-messages", 40).lines
        behind = run(*arguments, "--offset", int(everything[-1]) + 1, "--timeout", "0.2").lines
    # As Kafka's own consumer saw it: offset 4 is a marker, from 8 on a transaction is open.
    assert (committed, open_ones) == (["0", "1", "2", "3", "5", "6", "7"], [])
    assert (len(everything), behind) == (40, [])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["t", "--from-beginning", "--offset", 1],
        ["t", "--offset", 1, "--time", "0"],
        ["t", "--offset", -1],
        ["t", "--print", "value,size"],
        ["t", "--isolation", "serializable"],
        ["t", "--max-messages", 0],
        ["t", "--time", "yesterday"],
    ],
)
def test_wrong_usage_is_2(arguments):
    assert run("consume", *arguments).code == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_cleanly_and_what_was_printed_is_committed(ask, broker, topic, number):
    group = f"stopped-{number.name}"
    command = [sys.executable, "-W", "error", "-c", CODE, "consume", topic, "--from-beginning", "--group", group]
    with subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        lines = [process.stdout.readline() for _ in range(10)]
        process.send_signal(number)
        rest, errors = process.communicate(timeout=PROCESS_PATIENCE)
    assert lines == [b"v%d\n" % at for at in range(10)]
    assert (process.returncode, rest, errors) == (0, b"", b"")
    described = [json.loads(line) for line in ask("groups", "describe", group, "--json").lines]
    assert [(row["partition"], row["committed"], row["lag"]) for row in described[1:]] == [(0, 10, 0)]


def test_reader_that_goes_away_ends_it_quietly(broker, topic):
    command = [sys.executable, "-c", CODE, "consume", topic, "--from-beginning", "--bootstrap-server", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


def test_records_on_a_terminal_cannot_move_its_cursor():
    from milepost.cli.terminal.record_output import RecordOutput

    output = RecordOutput()
    assert output._shown(b"\x1b[2J") == b"\x1b[2J"
    output._is_terminal = True
    assert output._shown(b"\x1b[2J\xff") == b"\\x1b[2J\xef\xbf\xbd"


def test_a_topic_that_is_not_there_names_those_that_are(ask, topic):
    ask("topics", "create", "binary")  # another test may have made it
    for command in (("consume", "tne"), ("topics", "describe", "tne"), ("groups", "reset", "g", "--topic", "tne", "--to-earliest")):
        ran = ask(*command)
        assert ran.code == 4
        assert ran.errors == ["milepost: topic tne: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3): the topics there are binary, ten"]


def test_a_topic_that_is_not_there_where_there_is_none(tmp_path):
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    with Life(AloneBroker(settings)) as broker:
        ran = run("consume", "nope", "--bootstrap-server", broker.bootstrap_servers)
    assert ran.errors == ["milepost: topic nope: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3): there are no topics"]

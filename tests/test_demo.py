"""`make demo`: it runs in an empty directory and again over itself, and what it proposes to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from milepost import open_log
from milepost.cli.main import main as milepost
from milepost.demo import __main__ as demo
from milepost.demo import clients
from milepost.demo.__main__ import main
from milepost.demo.visits import PARTITIONS, visit
from milepost.record.partitioner import partition_for


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Where it runs, without its Spark part: that takes half a minute, and the last test runs the whole."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "what_is_missing", lambda: "Java was not found")
    return tmp_path


def test_five_partitions_are_written_shown_and_looked_into(here, capsys):
    assert main() == 0
    shown = capsys.readouterr().out
    assert sorted(path.name for path in (here / "milepost-demo").iterdir() if path.is_dir()) == [
        "__consumer_offsets-0",
        "page_visits-0",
        "page_visits-1",
        "page_visits-2",
        "page_visits-3",
        "page_visits-4",
    ]
    assert "Where in page_visits-0 is offset 112?" in shown
    assert "Where in page_visits-0 is the first record from 2018-05-15T11:45:18.288Z on?" in shown
    assert "The time was understood as epoch milliseconds; Kafka keeps it as 1526384718288." in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_broker_over_the_same_directory_is_used_by_a_real_client(here, capsys):
    assert main() == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(r"milepost\.Broker\('milepost-demo'\) listens on 127\.0\.0\.1:\d+, \d+ ms after it was called\.", shown)
    assert re.search(r"The client is confluent-kafka \S+ \(librdkafka \S+\)\.", shown)
    assert "It produced 500 more visits to page_visits" in shown
    assert (
        "It consumed 252 + 271 + 304 + 318 + 355 = 1500 visits from the 5 partitions, in the group 'demo', and committed."
        in shown
    )
    assert "the broker says offset 85, the record that was explained above, found in the same way" in shown


def test_without_confluent_kafka_milepost_is_its_own_client(here, capsys, monkeypatch):
    monkeypatch.setattr(clients.importlib.util, "find_spec", lambda name: None)
    assert main() == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The client is milepost's own client (confluent-kafka is not installed)." in shown
    assert (
        "It consumed 252 + 271 + 304 + 318 + 355 = 1500 visits from the 5 partitions, in the group 'demo', and committed."
        in shown
    )
    assert "the broker says offset 85, the record that was explained above" in shown


def test_every_partition_has_several_segments_and_the_visits_of_its_keys(here, capsys):
    main()
    total = 0
    for partition in range(PARTITIONS):
        with open_log(str(here / "milepost-demo" / f"page_visits-{partition}")) as log:
            records = list(log.records())
            assert len(log.segments) >= 3
        expected = [visit(number) for number in range(1500)]
        assert [record.value for record in records] == [
            record.value for record in expected if partition_for(record.key, PARTITIONS) == partition
        ]
        total += len(records)
    assert total == 1500


def test_second_run_makes_it_anew(here, capsys):
    main()
    first = capsys.readouterr().out
    assert main() == 0

    def without_chance(text: str) -> str:
        return re.sub(r"127\.0\.0\.1:\d+, \d+ ms", "", text)

    assert without_chance(capsys.readouterr().out) == without_chance(first)


def test_directory_with_something_else_in_it_is_left_alone(here, capsys):
    (here / "milepost-demo").mkdir()
    (here / "milepost-demo" / "thesis.txt").write_text("years of work")
    assert main() == 3
    assert capsys.readouterr().err == (
        "milepost: milepost-demo: holds thesis.txt, which this demonstration did not write; move the directory away first\n"
    )
    assert (here / "milepost-demo" / "thesis.txt").read_text() == "years of work"


def proposed(shown: str) -> list[list[str]]:
    lines = shown.partition("What to try next\n")[2].split("\n")
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith(".venv/bin/milepost ")]


def test_commands_it_proposes_work(here, capsys):
    main()
    commands = proposed(capsys.readouterr().out)
    assert [command[0] for command in commands] == [
        *("explain", "explain", "dump", "dump", "verify", "tune"),
        *("serve", "consume", "groups", "topics"),
    ]
    for command in commands[:6]:
        result = CliRunner().invoke(milepost, command)
        assert result.exit_code == 0, f"milepost {' '.join(command)}: {result.output}"
    serve = [sys.executable, "-m", "milepost.cli", *commands[6], "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = next(line for line in process.stdout if line.startswith("ready ")).split()[1]
            for command in commands[7:]:
                result = CliRunner().invoke(milepost, [*command, "--bootstrap-server", address])
                assert result.exit_code == 0, f"milepost {' '.join(command)}: {result.output}"
        finally:
            process.terminate()
    assert process.returncode == 0


def test_without_java_the_pipeline_is_left_out_in_a_sentence(here, capsys):
    assert main() == 0
    assert "A SPARK PIPELINE OVER THE SAME SEGMENTS\n   Not shown: Java was not found.\n" in capsys.readouterr().out
    assert not (here / "milepost-demo-pipeline").exists()


def test_make_demo_runs_the_module_and_the_pipeline_leaves_what_it_names(tmp_path):
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert "$(BIN)/python -m milepost.demo" in makefile
    command = [sys.executable, "-m", "milepost.demo"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    assert process.stdout.startswith("The topic page_visits with 5 partitions, in ./milepost-demo\n")
    assert "2 transform: Parquet in milepost-demo-pipeline/out/sessions; topic sessions" in process.stdout
    assert "3 transform: 1,500 records streamed to Parquet in milepost-demo-pipeline/out/pages" in process.stdout
    named = re.findall(r"^      (milepost-demo\S+) ", process.stdout, re.MULTILINE)
    assert len(named) == 6
    assert max(map(len, process.stdout.splitlines())) <= 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["milepost-demo", "milepost-demo-pipeline"]
    for place in named:
        assert (tmp_path / place).exists(), place
    dry_run = next(command for command in proposed(process.stdout) if command[0] == "pipeline")
    shown = subprocess.run(
        [sys.executable, "-m", "milepost.cli", *dry_run], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert shown.returncode == 0, shown.stderr

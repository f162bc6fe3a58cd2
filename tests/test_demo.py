"""`make demo`: it runs in an empty directory and again over itself, and what it proposes to type works."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from milepost import open_log
from milepost.cli.main import main as milepost
from milepost.demo import PARTITIONS, main, visits
from milepost.record.partitioner import partition_for


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_five_partitions_are_written_shown_and_looked_into(here, capsys):
    assert main() == 0
    shown = capsys.readouterr().out
    assert sorted(path.name for path in (here / "milepost-demo").iterdir() if path.is_dir()) == [
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


def test_every_partition_has_several_segments_and_the_visits_of_its_keys(here, capsys):
    main()
    total = 0
    for partition in range(PARTITIONS):
        with open_log(str(here / "milepost-demo" / f"page_visits-{partition}")) as log:
            records = list(log.records())
            assert len(log.segments) >= 3
        assert {partition_for(record.key, PARTITIONS) for record in records} == {partition}
        assert [record.value for record in records] == [record.value for record in visits()[partition]]
        total += len(records)
    assert total == 1000


def test_second_run_makes_it_anew(here, capsys):
    main()
    first = capsys.readouterr().out
    assert main() == 0
    assert capsys.readouterr().out == first


def test_directory_with_something_else_in_it_is_left_alone(here, capsys):
    (here / "milepost-demo").mkdir()
    (here / "milepost-demo" / "thesis.txt").write_text("years of work")
    assert main() == 3
    assert capsys.readouterr().err == (
        "milepost: milepost-demo: holds thesis.txt, which this demonstration did not write; move the directory away first\n"
    )
    assert (here / "milepost-demo" / "thesis.txt").read_text() == "years of work"


def test_commands_it_proposes_work(here, capsys):
    main()
    proposed = capsys.readouterr().out.partition("What to try next\n")[2].split("\n")
    commands = [shlex.split(line)[1:] for line in proposed if line.strip()]
    assert [command[0] for command in commands] == ["explain", "explain", "dump", "dump", "verify", "tune"]
    for command in commands:
        result = CliRunner().invoke(milepost, command)
        assert result.exit_code == 0, f"milepost {' '.join(command)}: {result.output}"


def test_make_demo_runs_the_module(here):
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    assert "$(BIN)/python -m milepost.demo" in makefile
    process = subprocess.run([sys.executable, "-m", "milepost.demo"], capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("The topic page_visits with 5 partitions, in ./milepost-demo\n")
    assert process.stderr == ""

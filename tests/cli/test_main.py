"""The shell around the commands: help, version, exit codes, and that bad input never ends in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import milepost
from milepost.cli import main as main_module
from milepost.cli.main import COMMANDS, main
from milepost.errors import CorruptRecord, DirectoryLocked, InvalidArgument
from tests.cli.running import run
from tests.inspect.logs import batch, partition
from tests.waiting import PROCESS_PATIENCE


def test_the_version_is_the_programs():
    assert run("--version").lines == [f"milepost {milepost.__version__}"]


def test_help_names_every_command_with_a_line_of_its_own():
    ran = run("--help")
    assert ran.code == 0
    shown = {words[0]: " ".join(words[1:]) for line in ran.lines if (words := line.split())}
    assert {name: shown.get(name) for name in COMMANDS} == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_own_help(name):
    ran = run(name, "--help")
    assert ran.code == 0
    assert ran.lines[0].startswith(f"Usage: main {name}")


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["--frobnicate"], ["dump"], ["verify", "--frobnicate", "x"], ["repair"], ["config", "x"]]
)
def test_wrong_usage_ends_with_2(arguments):
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.lines == []


def test_help_imports_no_command_and_no_log():
    code = "import sys; from milepost.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name for name in loaded if name.startswith(("milepost.inspect", "milepost.log", "milepost.record", "milepost.cli.dump"))}
    assert not {"pyarrow", "numpy", "rich", "asyncio"} & set(loaded)


def failing(error: BaseException) -> click.Command:
    @click.command()
    def command() -> None:
        raise error

    return command


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch):
    """Run a command that raises; the result."""

    def invoke(error: BaseException):
        monkeypatch.setattr(main_module.CommandTable, "get_command", lambda self, ctx, name: failing(error))
        return CliRunner().invoke(main, ["dump"])

    return invoke


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (InvalidArgument("offset -5 is negative"), 2, "milepost: offset -5 is negative\n"),
        (CorruptRecord("a.log: batch at position 5:\n  odd"), 3, "milepost: a.log: batch at position 5: odd\n"),
        (DirectoryLocked("data: process 12 has it open"), 3, "milepost: data: process 12 has it open\n"),
        (PermissionError(13, "Permission denied", "data/x.log"), 3, "milepost: data/x.log: Permission denied\n"),
        (OSError(5, "Input/output error"), 3, "milepost: Input/output error\n"),
        (MemoryError(), 3, "milepost: MemoryError: the input is larger or deeper than this machine can take\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_error_is_one_sentence_and_its_exit_code(raising, error, code, sentence):
    result = raising(error)
    assert (result.exit_code, result.stderr, result.stdout) == (code, sentence, "")


def test_a_closed_pipe_ends_quietly(raising):
    result = raising(BrokenPipeError(32, "Broken pipe"))
    assert (result.exit_code, result.stderr) == (141, "")


def test_a_mistake_of_ours_is_not_hidden(raising):
    assert isinstance(raising(ZeroDivisionError()).exception, ZeroDivisionError)


def test_a_command_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setitem(COMMANDS, "teleport", "Move a partition in no time.")
    ran = run("teleport")
    assert ran.code == 2
    assert "this milepost was installed without the command 'teleport'" in ran.errors[-1]


# As a program.


def program(*arguments: str, **options) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "error", "-c", "from milepost.cli.main import main; main(prog_name='milepost')", *arguments]
    return subprocess.run(command, capture_output=True, timeout=PROCESS_PATIENCE, check=False, **options)


def test_the_program_answers_a_wrong_path_with_one_sentence(tmp_path: Path):
    done = program("verify", str(tmp_path / "nothing"))
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.decode() == f"milepost: {tmp_path}/nothing: no such file or directory\n"


def test_a_reader_that_goes_away_leaves_no_trace(tmp_path: Path):
    directory = partition(tmp_path, (0, [batch(at * 2) for at in range(2000)]))
    code = "from milepost.cli.main import main; main(prog_name='milepost')"
    command = [sys.executable, "-c", code, "dump", "--print-data-log", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, b"")


def test_a_full_disk_behind_the_output_is_one_sentence(tmp_path: Path):
    directory = partition(tmp_path, (0, [batch(0)]))
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", "from milepost.cli.main import main; main(prog_name='milepost')", "dump", str(directory)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=PROCESS_PATIENCE, check=False)
    assert done.returncode == 3
    assert done.stderr.decode().splitlines() == ["milepost: standard output: No space left on device"]


def test_odd_bytes_in_names_and_records_do_not_end_in_an_encoding_error(tmp_path: Path):
    directory = partition(tmp_path, (0, [batch(0)]), name="t\udcff-0")
    done = program("dump", os.fspath(directory), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stderr == b""

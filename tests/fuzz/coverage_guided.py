"""Runs of atheris: a target gives its function to `fuzz`, a test runs the target by `run_target`, as `python -m tests.fuzz.fuzz_…`."""

from __future__ import annotations

import atexit
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed (it has no wheel for every Python)"
)


def fuzz(one_input: Callable[[bytes], object]) -> None:
    import atheris

    # The timer behind -timeout goes on while Python ends, when nobody takes its alarm any more: it would end the process.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


def run_target(target: str, directory: Path, *options: str | Path) -> None:
    """One input may take a minute: it is endless loops that are looked for, and the machine may have other things to do.

    A program takes over the peak of memory of the process that starts it, and libFuzzer would measure that of a whole test run: a shell
    stands in between.
    """
    program = [sys.executable, "-m", f"tests.fuzz.{target}", f"-artifact_prefix={directory}/", "-timeout=60", *options]
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory)},
    )
    assert done.returncode == 0, done.stderr[-4000:]

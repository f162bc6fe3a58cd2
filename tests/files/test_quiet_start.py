"""What a started process says is heard when the start fails, and once it runs; not in between."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import subprocess, sys
from milepost.files.quiet_start import quiet_start
try:
    with quiet_start():
        child = subprocess.Popen(["sh", "-c", "echo noise >&2; echo up; read line; echo later >&2"], stdin=-1, stdout=-1)
        child.stdout.readline()
        if "fails" in sys.argv:
            raise SystemExit(3)
finally:
    child.communicate(b"go\\n")
print("own", file=sys.stderr)
"""


@pytest.mark.parametrize(("argument", "heard", "code"), [("works", {"later", "own"}, 0), ("fails", {"noise", "later"}, 3)])
def test_noise_of_a_start_is_heard_when_it_fails(argument: str, heard: set[str], code: int) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, argument], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    # "later" may still be in the pipe when the program ends.
    assert set(done.stderr.split()) | {"later"} == heard

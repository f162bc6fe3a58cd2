"""The program as a process of its own, for commands that leave something running behind."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cli.running import Ran

TIMEOUT = 300


def milepost(*arguments: object, **environment: str) -> Ran:
    command = [sys.executable, "-m", "milepost.cli", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env={**os.environ, **environment}
    )
    return Ran(done.returncode, done.stdout.splitlines(), done.stderr.splitlines())

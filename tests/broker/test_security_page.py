"""docs/security.md: what stands there under "TLS in five minutes" is done as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def section(title: str) -> str:
    return PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the page uses openssl, which is not here")
def test_tls_in_five_minutes(tmp_path):
    commands = []
    for kind, text in BLOCK.findall(section("TLS in five minutes")):
        if kind == "properties":
            name = text.partition("\n")[0].removeprefix("# ")
            (tmp_path / name).write_text(text)
        else:
            commands.append(text)
    # The broker of the page goes on until it is ended; one that is not ready in time ends the test.
    script = "set -e\ntrap 'kill $!; wait $!' EXIT\n" + "\n".join(commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    lines = ran.stdout.splitlines()
    assert "user alice has a password for SCRAM-SHA-256, SCRAM-SHA-512" in lines, ran.stderr
    assert "ready 127.0.0.1:19093" in lines, ran.stderr
    assert [line.split() for line in lines[-4:]] == [
        ["alice", "SCRAM-SHA-256", "4096"],
        ["alice", "SCRAM-SHA-512", "4096"],
        ["bob", "SCRAM-SHA-256", "4096"],
        ["bob", "SCRAM-SHA-512", "4096"],
    ]

"""docs/cluster.md: its commands run in order, on ports that are free here."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from milepost.cluster.local.manifest import read_record

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
LINE = re.compile(r"^\$ milepost (.+)$", re.MULTILINE)


def test_commands_of_the_page_run_from_its_top(kafka_zookeeper, tmp_path):
    def run(line: str) -> None:
        words = shlex.split(line)
        if words[:2] == ["cluster", "start"]:
            words += ["--port-base", "0"]
        elif words[0] == "topics":
            words += ["--bootstrap-server", bootstrap()]
        done = subprocess.run(
            [sys.executable, "-m", "milepost.cli", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        # Right after a topic was made, its followers may still be on their way.
        assert done.returncode == 0 or words == ["cluster", "status"], f"`{line}`: {done.stdout}{done.stderr}"

    def bootstrap() -> str:
        record = read_record(str(tmp_path / "milepost-cluster"))
        assert record is not None
        return record.bootstrap_servers

    lines = LINE.findall(PAGE.read_text())
    assert [line.split()[:2] for line in lines[:2]] == [["cluster", "start"], ["topics", "create"]]
    try:
        for line in lines:
            run(line)
    finally:
        run("cluster stop")

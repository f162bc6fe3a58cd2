"""A client of another language: its program is run once, and each situation is compared with what it printed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.clients.served import Served
from tests.clients.situations import CODECS, IDEMPOTENCE, SEEN
from tests.interop.toolchain import cached, make, program

HERE = Path(__file__).parent
SECONDS = 600
Seen = tuple[dict[str, str], str]
"""What a program saw, and what went wrong."""


def go_program(name: str) -> Path:
    """What Go makes of the sources in the directory `name`, with the modules that its go.mod pins."""
    directory = HERE / name

    def build(target: Path) -> None:
        command = [program("go", f"it builds the program of {name}"), "build", "-buildvcs=false", "-o", str(target / name), "."]
        make(command, f"the program of {name}", directory)

    return cached(name, directory.iterdir(), build) / name


def rust_program(name: str) -> Path:
    """What Cargo makes of the sources in the directory `name`. Its lock file, which names a registry, stays in the cache."""
    directory = HERE / name

    def build(target: Path) -> None:
        # Unoptimized: the build is most of the time.
        sources = shutil.copytree(directory, target / "build")
        make([program("cargo", f"it builds the program of {name}"), "build", "--quiet"], f"the program of {name}", sources)
        shutil.copy(sources / f"target/debug/{name}-client", target / name)
        shutil.rmtree(sources)

    sources = [path for path in directory.rglob("*") if path.is_file()]
    return cached(name, sources, build) / name


def node_program(name: str) -> tuple[list[str], dict[str, str]]:
    """How to run `client.js` of the directory `name`, with the packages that its package.json pins."""
    directory = HERE / name
    package = directory / "package.json"

    def fetch(target: Path) -> None:
        shutil.copy(package, target)
        options = ["--silent", "--no-audit", "--no-fund", "--prefix", str(target)]
        make([program("npm", f"it fetches {name}"), "install", *options], f"a directory with {name}")

    node = program("node", f"{name} runs on it")
    return [node, str(directory / "client.js")], {"NODE_PATH": str(cached(name, [package], fetch) / "node_modules")}


def run(command: list[str], environment: dict[str, str] | None = None) -> Seen:
    everything = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=everything)
    trouble = f"exit {done.returncode}\n{done.stderr[-4000:]}" if done.returncode else ""
    return dict(line.split("=", 1) for line in done.stdout.splitlines()), trouble


def expected(lacks: Iterable[str]) -> dict[str, dict[str, str]]:
    """What a client sees that can do everything but what it lacks."""
    return {situation: lines for situation, lines in SEEN.items() if situation not in set(lacks)}


def stored_as_sent(served: Served, prefix: str, lacks: Iterable[str]) -> None:
    """What the program cannot see: how the broker's files hold what it wrote."""
    codecs = [codec for codec in CODECS if f"codec {codec}" not in set(lacks)]
    assert {codec: served.codecs(f"{prefix}codec-{codec}") for codec in codecs} == {codec: {CODECS[codec]} for codec in codecs}
    if IDEMPOTENCE not in set(lacks):
        served.assert_idempotent(f"{prefix}idempotent", 1000)

"""What tests need and pip does not install: jars, modules and programs, fetched or built once into the user's cache.

A directory of the cache is named by what it is made from (the digest of its sources), so a change of a pinned version makes a
new one. It is filled beside its final name and renamed: who finds it finds all of it. A lock keeps a second test process
from doing the same work at the same time.

A machine without the tool skips the tests that need it, with the reason; where CI is set they must run.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import pytest

POM = Path(__file__).parent / "pom.xml"

# One core and a short life: compile little, collect simply.
JVM_OPTIONS = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true"]


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def program(name: str, purpose: str) -> str:
    """The path of an installed program; `purpose` ends the sentence that says why it is missed."""
    path = shutil.which(name)
    if path is None:
        unavailable(f"{name} is not installed: {purpose}")
    return path


def cached(name: str, sources: Iterable[Path], fill: Callable[[Path], None]) -> Path:
    """The directory of the cache that `fill` made from `sources`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost-tests"
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    target = cache / f"{name}-{digest.hexdigest()[:12]}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=cache))
            try:
                fill(partial)
                partial.rename(target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return target


def make(command: list[str], what: str, directory: Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run a tool that fetches or builds `what`."""
    everything = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=directory, env=everything, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        unavailable(f"{Path(command[0]).name} could not make {what} (exit {done.returncode}): {said}")


@functools.cache
def java() -> str:
    """The path of Java 17 or newer."""
    path = program("java", "Kafka needs Java 17")
    text = subprocess.run([path, "-version"], capture_output=True, text=True, check=True).stderr
    version = text.split('"')[1].split(".")[0] if '"' in text else ""
    if not version.isdigit() or int(version) < 17:
        unavailable(f"Java 17 is needed, {path} says {text.splitlines()[0] if text else 'nothing'}")
    return path


@functools.cache
def jars(version: str) -> Path:
    """The directory with the jars of Kafka's broker, clients, tools and Streams of one version."""

    def fetch(target: Path) -> None:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}", f"-Dkafka.version={version}"]
        make([program("mvn", "it fetches Kafka's jars"), "-B", "-q", "-f", str(POM), *goal], f"a directory with Kafka {version}")

    return cached(f"kafka-{version}", [POM], fetch)


def java_command(version: str, main: str, *arguments: str, log4j: Path) -> list[str]:
    """`main` is a class, or a source file, which the JVM compiles in memory; `log4j` says what is logged."""
    return [java(), *JVM_OPTIONS, f"-Dlog4j.configuration=file:{log4j}", "-cp", f"{jars(version)}/*", main, *arguments]

"""Where Java is, and the jars of Apache Kafka, which Maven fetches once into the user's cache directory; which version says a POM."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
VERSION = "4.3.0"


class Unavailable(Exception):
    """Kafka cannot be run here; the sentence says why."""


@functools.cache
def java() -> str:
    path = shutil.which("java")
    if path is None:
        raise Unavailable("Java is not installed")
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=True).stderr
    version = said.split('"')[1].split(".")[0] if '"' in said else ""
    if not version.isdigit() or int(version) < 17:
        raise Unavailable(f"Kafka {VERSION} needs Java 17, {path} says {said.splitlines()[0] if said else 'nothing'}")
    return path


@functools.cache
def jars(pom: Path = POM, version: str = VERSION) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost-benchmarks"
    target = cache / f"kafka-{version}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if target.exists():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven is not installed, which fetches Kafka's jars")
    cache.mkdir(parents=True, exist_ok=True)
    # Filled beside its final name and renamed: whoever finds it finds all of it.
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=cache))
    command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(partial)
        raise Unavailable(f"Maven could not fetch Kafka {version}: {done.stdout[-500:]}{done.stderr[-500:]}")
    partial.rename(target)
    return target

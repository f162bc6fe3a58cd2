"""The two clients that drive the brokers, both C programs that are compiled when they are first needed."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.broker.frames import ProduceFrames, Target, fetch_frames, values

HERE = Path(__file__).parent


class Clients:
    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    # The bare client.

    def produce(
        self, port: int, frames: ProduceFrames, *, connections: int, in_flight: int, requests: int, seconds: float
    ) -> dict[str, Any]:
        heads = self._file("heads", frames.heads)
        rest = self._file("rest", frames.rest)
        numbers = [connections, in_flight, requests, seconds, frames.error_at]
        return self._run([self.bare, "produce", port, heads, frames.head_size, rest, *numbers])

    def fetch(
        self, port: int, targets: Sequence[Target], *, max_bytes: int, records: int, seconds: float, in_session: bool = False
    ) -> dict[str, Any]:
        """`records` from each target, each on a connection of its own."""
        frames = fetch_frames(targets, max_bytes, in_session=in_session)
        path = self._file("fetches", frames.frames)
        places = [frames.records_at, int(frames.has_varint), frames.session_at, frames.session_answered_at]
        numbers = [frames.frame_size, frames.offset_at, len(targets), records, seconds, *places]
        return self._run([self.bare, "fetch", port, path, *numbers])

    # librdkafka.

    def librdkafka(
        self, mode: str, bootstrap: str, topic: str, *, size: int, records: int, seconds: float, settings: dict[str, object]
    ) -> dict[str, Any]:
        """`mode`: produce, wait or consume."""
        path = self._file("values", b"".join(values(64, size)) if size else b"")
        pairs = [f"{name}={value}" for name, value in settings.items()]
        return self._run([self.rdkafka, mode, bootstrap, topic, path, size, records, seconds, *pairs])

    def _file(self, name: str, data: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(data)
        return path

    def _run(self, command: Iterable[object]) -> dict[str, Any]:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the client failed: {done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        if answer["errors"]:
            raise SystemExit(f"{answer['errors']} requests failed, the first with {answer.get('first_error')}: {command}")
        return answer

    @functools.cached_property
    def bare(self) -> Path:
        return self._compiled("bare")

    @functools.cached_property
    def rdkafka(self) -> Path:
        library = next(Path(sysconfig.get_path("platlib"), "confluent_kafka.libs").glob("librdkafka*.so*"))
        return self._compiled("rdkafka", str(library), f"-Wl,-rpath,{library.parent}")

    def _compiled(self, name: str, *libraries: str) -> Path:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("the clients are C programs: install a C compiler (Debian: apt install gcc)")
        program = self.directory / name
        subprocess.run([compiler, "-O2", "-o", str(program), str(HERE / f"{name}.c"), *libraries], check=True)
        return program

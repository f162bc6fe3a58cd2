"""`milepost serve` in a process of its own: what a client that is not ours talks to.

The internal topics are small and a group's first rebalance does not wait, so that a test takes milliseconds and not seconds.
Ending it checks what no client can see: the exit code, and that no handler let an exception through.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

from milepost.codec.compression import Codec
from milepost.record.batches import iter_batches

SETTINGS = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
}
STOP_SECONDS = 30


class Served:
    """A running broker; `name()` gives names that no other test of the module has."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None):
        self.data = directory / "data"
        self.errors = directory / "broker.err"
        command = [sys.executable, "-m", "milepost.cli", "serve", "--data", str(self.data), "--port", "0"]
        for name, value in {**SETTINGS, **(settings or {})}.items():
            command += ["-X", f"{name}={value}"]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.bootstrap = self._address()
        self._numbers = itertools.count(1)

    def name(self, prefix: str = "visits") -> str:
        return f"{prefix}-{next(self._numbers)}"

    def codecs(self, topic: str, partition: int = 0) -> set[Codec]:
        """How the batches of a partition are stored, from its files."""
        files = sorted(Path(self.data, f"{topic}-{partition}").glob("*.log"))
        return {batch.codec for path in files for batch in iter_batches(path.read_bytes())}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()
        errors = self.errors.read_text(encoding="utf-8", errors="replace")
        assert "Traceback" not in errors, f"an exception escaped in the broker:\n{errors[-4000:]}"
        assert code == 0, f"the broker ended with {code}:\n{errors[-4000:]}"

    def _address(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                return line.split()[1]
        raise AssertionError(f"the broker ended with {self.process.wait()} before it was ready:\n{self.errors.read_text()}")

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
from milepost.record.batch import RecordBatch
from milepost.record.batches import iter_batches
from tests.waiting import PROCESS_PATIENCE

SETTINGS = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
}
LISTENING = Path(__file__).parent / "compatibility/asked.py"


class Served:
    """A running broker; `name()` gives names that no other test of the module has.

    `requests` is a file that gets what clients asked for; see `compatibility/asked.py`.
    """

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, requests: Path | None = None):
        self.data = directory / "data"
        self.errors = directory / "broker.err"
        milepost = ["-m", "milepost.cli"] if requests is None else [str(LISTENING), str(requests)]
        command = [sys.executable, *milepost, "serve", "--data", str(self.data), "--port", "0"]
        for name, value in {**SETTINGS, **(settings or {})}.items():
            command += ["-X", f"{name}={value}"]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.bootstrap = self._address()
        self._numbers = itertools.count(1)

    @property
    def node_ids(self) -> set[int]:
        return {0}

    @property
    def directories(self) -> set[str]:
        return {str(self.data)}

    @property
    def topic_settings(self) -> set[str]:
        """What tools say of every topic, because the broker was given it."""
        return set()

    @property
    def keeps_group_settings(self) -> bool:
        return True

    @property
    def log_level(self) -> str:
        return "WARN"

    def name(self, prefix: str = "visits") -> str:
        return f"{prefix}-{next(self._numbers)}"

    def batches(self, topic: str, partition: int = 0) -> list[RecordBatch]:
        """A partition as its files have it."""
        found: list[RecordBatch] = []
        for path in self._files(topic, partition):
            for batch in iter_batches(path.read_bytes()):
                assert isinstance(batch, RecordBatch), "a client of today writes no batches of magic 0 or 1"
                found.append(batch)
        return found

    def size(self, topic: str, partition: int = 0) -> int:
        """In bytes; to be asked while a client writes."""
        return sum(path.stat().st_size for path in self._files(topic, partition))

    def codecs(self, topic: str, partition: int = 0) -> set[Codec]:
        return {batch.codec for batch in self.batches(topic, partition)}

    def assert_idempotent(self, topic: str, count: int) -> None:
        """One producer wrote `count` records, in sequence: each once."""
        found = self.batches(topic)
        assert len({batch.producer_id for batch in found}) == 1
        assert found[0].producer_id >= 0
        assert [batch.base_sequence for batch in found] == [batch.base_offset for batch in found]
        assert found[-1].last_sequence == count - 1

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PROCESS_PATIENCE)
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

    def _files(self, topic: str, partition: int) -> list[Path]:
        return sorted(Path(self.data, f"{topic}-{partition}").glob("*.log"))

    def _address(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                return line.split()[1]
        with self.process:
            code = self.process.wait()
        raise AssertionError(f"the broker ended with {code} before it was ready:\n{self.errors.read_text()}")

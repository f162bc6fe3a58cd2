"""The broker process under attack: started on a copy of a data directory, renewed when an attack may have changed it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from milepost.protocol.apis import Api
from tests.hostile.attack.world import World, made
from tests.hostile.besieged import COMMAND, SETTINGS
from tests.waiting import PROCESS_PATIENCE


@dataclass(frozen=True)
class Memory:
    now: int
    peak: int


class Process:
    """What the kernel says about a broker."""

    def __init__(self, pid: int):
        self.pid = pid
        self._place = Path("/proc", str(pid))

    def memory(self) -> Memory:
        status = dict(line.split(":", 1) for line in (self._place / "status").read_text().splitlines())
        return Memory(*(int(status[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM")))

    def forget_peak(self) -> None:
        (self._place / "clear_refs").write_text("5")

    def worked_and_waited(self) -> tuple[float, float]:
        """Seconds that the main thread has run, and that it wanted to run while others did."""
        return scheduled(f"/proc/{self.pid}/task/{self.pid}/schedstat")


def scheduled(path: str) -> tuple[float, float]:
    with open(path) as file:
        ran, waited, _ = file.read().split()
    return int(ran) / 1e9, int(waited) / 1e9


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


class Target:
    """One broker alone. `renew` ends it and starts another one with the same world."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._template = directory / "template"
        self._running: subprocess.Popen[bytes] | None = None
        self.log = directory / "log"
        directory.mkdir(parents=True, exist_ok=True)
        self.address = self._start(self._template)
        self.world: World = made(self.address)
        self._stop()
        self.renew()

    def renew(self) -> None:
        self.close()
        restore(self._template, self._directory / "data")
        self.address = self._start(self._directory / "data")
        assert self._running is not None
        self.process = Process(self._running.pid)

    def world_of(self, api: Api) -> World:
        return self.world

    def connect(self, api: Api) -> socket.socket:
        return connected(self.address)

    @property
    def is_alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def _start(self, data: Path) -> str:
        flags = [word for name, value in SETTINGS.items() for word in ("-X", f"{name}={value}")]
        with self.log.open("ab") as errors:
            command = [*COMMAND, "--data", str(data), "--port", "0", *flags]
            self._running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        assert self._running.stdout is not None
        for line in self._running.stdout:
            if line.startswith(b"ready "):
                return line.decode().split()[1]
        raise AssertionError(f"the broker ended before it was ready: {self.log.read_text()[-2000:]}")

    def _stop(self) -> None:
        assert self._running is not None
        self._running.terminate()
        assert self._running.wait(timeout=PROCESS_PATIENCE) == 0
        self.close()

    def close(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            assert self._running.stdout is not None
            self._running.stdout.close()
            self._running = None


def restore(template: Path, place: Path) -> None:
    """Make a directory as its template is. A file that nobody has written to since it was copied stays: it has its template's time."""
    place.mkdir(exist_ok=True)
    wanted = {entry.name: entry for entry in os.scandir(template)}
    for entry in os.scandir(place):
        if entry.name not in wanted and entry.is_dir():
            shutil.rmtree(entry.path)
        elif entry.name not in wanted:
            os.unlink(entry.path)
    for name, entry in wanted.items():
        if entry.is_dir():
            restore(template / name, place / name)
        elif not is_copy(place / name, entry.stat()):
            shutil.copy2(entry.path, place / name)


def is_copy(file: Path, of: os.stat_result) -> bool:
    try:
        known = file.stat()
    except FileNotFoundError:
        return False
    return (known.st_size, known.st_mtime_ns) == (of.st_size, of.st_mtime_ns)

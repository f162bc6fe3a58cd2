"""A process that we started and that goes on without us: begun detached, found again later, and never mistaken for another.

A process id says little: when its process has ended, the next one may get it. So a process is known by three things, which are written
down when it starts:

    pid       its number
    started   when it started, in ticks since the machine did (/proc/PID/stat, field 22)
    boot      which start of the machine that was (/proc/sys/kernel/random/boot_id)

A signal is sent through a descriptor of the process (pidfd), which is compared with these first: between the look and the signal nobody
else can take its place. One that ended and that its parent has not asked for yet (a zombie) counts as gone.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from milepost.files import Disk, opened

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SMALL = 4096
STARTED_FIELD = 22


@dataclass(frozen=True, slots=True)
class OwnProcess:
    pid: int
    started: int
    boot: str

    @property
    def is_running(self) -> bool:
        return not self.wait(0)

    def send(self, number: signal.Signals) -> bool:
        """Whether it was there to get the signal."""
        fd = self._open()
        if fd is None:
            return False
        try:
            if _has_ended(fd, 0):
                return False
            signal.pidfd_send_signal(fd, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            Disk().close(fd)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, at the latest after so long."""
        fd = self._open()
        if fd is None:
            return True
        try:
            if not _has_ended(fd, seconds):
                return False
        finally:
            Disk().close(fd)
        # If it is a child of ours, its end has to be collected here.
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return True

    def _open(self) -> int | None:
        """A descriptor of this very process."""
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return None
        # Only now: from here on the descriptor stands for one process, whatever happens to its number.
        if _started(self.pid) == self.started and _boot() == self.boot:
            return fd
        Disk().close(fd)
        return None


def begin(command: Sequence[str], log_path: str) -> OwnProcess:
    """Start a program in a session of its own, so that what ends our terminal does not end it; what it says goes into a file."""
    log = Disk().open(log_path, APPEND)
    try:
        pid = os.posix_spawnp(
            command[0],
            list(command),
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        Disk().close(log)
    # A child that was not waited for keeps its entry, however soon it ended.
    started = _started(pid)
    assert started is not None, f"process {pid} was just started"
    return OwnProcess(pid, started, _boot())


def _has_ended(fd: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _started(pid: int) -> int | None:
    try:
        text = _small_file(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The second field is the program's name in parentheses, and may hold anything.
    return int(text.rpartition(")")[2].split()[STARTED_FIELD - 3])


def _boot() -> str:
    return _small_file(BOOT_ID).strip()


def _small_file(path: str) -> str:
    """Files of /proc have no size to go by."""
    disk = Disk()
    with opened(disk, path) as fd:
        return disk.pread(fd, SMALL, 0).decode(errors="replace")

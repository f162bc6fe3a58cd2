"""A disk that keeps a list of everything that was asked of it, so that every crash can be played back.

Writes go to files, not to names: an operation names its file by inode, and by the path it had when the operation came.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.crash.memory_disk import MemoryDisk, State


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. `kind` is create, open, write, truncate, fsync, close, lock, rename, unlink, mkdir, rmdir or sync (of a directory)."""

    kind: str
    path: str
    inode: int = 0
    position: int = 0
    data: bytes = b""
    size: int = 0
    target: str = ""
    flags: int = 0

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    def __str__(self) -> str:
        detail = {
            "write": f" {len(self.data)} bytes at {self.position}",
            "truncate": f" to {self.size}",
            "rename": f" -> {posixpath.basename(self.target)}",
        }
        return f"{self.kind} {self.name}{detail.get(self.kind, '')}"


class RecordingDisk(MemoryDisk):
    def __init__(self, state: State | None = None, directories: Iterable[str] = ()):
        super().__init__(state, directories)
        self.trace: list[Operation] = []
        self._paths: dict[int, str] = {}
        self._is_dead = False

    def die(self) -> None:
        """Files that the garbage collector closes from here on are not part of the run."""
        super().die()
        self._is_dead = True

    def note(self, kind: str, path: str, **fields: Any) -> None:
        if not self._is_dead:
            self.trace.append(Operation(kind, path, **fields))

    def note_file(self, kind: str, fd: int, **fields: Any) -> None:
        self.note(kind, self._paths[fd], inode=self.descriptors[fd].inode, **fields)

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        is_new = path not in self.nodes
        had_data = not is_new and bool(self.nodes[path].data)
        fd = super().open(path, flags)
        self._paths[fd] = path
        self.note_file("create" if is_new else "open", fd, flags=flags)
        if flags & os.O_TRUNC and had_data:
            self.note_file("truncate", fd, size=0)
        return fd

    def close(self, fd: int) -> None:
        self.note_file("close", fd)
        super().close(fd)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        super().pwrite(fd, data, position)
        self.note_file("write", fd, position=position, data=bytes(data))

    def pwritev(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview], position: int, size: int | None = None) -> int:
        data = b"".join(buffers)
        self.pwrite(fd, data, position)
        return len(data)

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.note_file("truncate", fd, size=size)

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        self.note_file("fsync", fd)

    def lock(self, fd: int) -> bool:
        got = super().lock(fd)
        self.note_file("lock", fd, size=int(got))
        return got

    def rename(self, source: str, target: str) -> None:
        inode = self.nodes[source].inode if source in self.nodes else 0
        super().rename(source, target)
        for fd, path in self._paths.items():
            if path == source and fd in self.descriptors and self.descriptors[fd].inode == inode:
                self._paths[fd] = target
        self.note("rename", source, inode=inode, target=target)

    def unlink(self, path: str) -> None:
        inode = self.node(path).inode
        super().unlink(path)
        self.note("unlink", path, inode=inode)

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        self.note("mkdir", path)

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        self.note("rmdir", path)

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.note("sync", path)

"""A copy-on-write view of a disk: whatever is changed is changed in memory, the disk underneath stays as it is.

Reading never writes. `open_log(path, mode="r")` runs the very same loading and recovery on an overlay: indexes are
rebuilt, torn tails cut and left-over files removed, but only in this view. It is safe beside a running broker, because nothing
is locked and nothing on disk moves.

A path is in one of four states: untouched; removed; *memory* (created or written here: the content is a bytearray, and zeros behind it
up to `size`, so that ten preallocated megabytes cost nothing); *cut* (an untouched file seen only up to some length, so that cutting
a torn gigabyte costs nothing).
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.files.disk import Disk

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer, View

FIRST_MEMORY_FD = 1 << 24


@dataclass(slots=True)
class Node:
    """What the overlay knows about one path: `data` when in memory, else `size` bytes of `origin` on the disk."""

    origin: str
    data: bytearray | None = None
    size: int | None = None
    mtime: float | None = None

    def size_in_memory(self) -> int:
        assert self.data is not None, "the file has been read into memory"
        return max(len(self.data), self.size or 0)


class Overlay(Disk):
    def __init__(self) -> None:
        # By directory and name, so that a listing looks only at its own.
        self._directories: dict[str, dict[str, Node | None]] = {}
        self._open: dict[int, Node] = {}
        self._next_fd = FIRST_MEMORY_FD

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        node = self._node(path, create=bool(flags & os.O_CREAT))
        if flags & os.O_TRUNC:
            node.data, node.size = bytearray(), None
        if node.data is None:
            fd = super().open(node.origin, flags & os.O_NOFOLLOW)
        else:
            fd = self._next_fd
            self._next_fd += 1
        self._open[fd] = node
        return fd

    def _place(self, path: str) -> tuple[dict[str, Node | None], str]:
        directory, name = posixpath.split(path)
        return self._directories.setdefault(directory, {}), name

    def _node(self, path: str, create: bool = False) -> Node:
        nodes, name = self._place(path)
        if name in nodes:
            node = nodes[name]
            if node is not None:
                return node
        elif super().exists(path):
            nodes[name] = node = Node(path)
            return node
        if not create:
            raise FileNotFoundError(2, "No such file or directory", path)
        nodes[name] = node = Node(path, bytearray())
        return node

    def forget(self, directory: str) -> None:
        """See a directory as it is on the disk again. No file of it may be open."""
        self._directories.pop(directory, None)

    def close(self, fd: int) -> None:
        del self._open[fd]
        if fd < FIRST_MEMORY_FD:
            super().close(fd)

    def _writable(self, fd: int) -> bytearray:
        node = self._open[fd]
        if node.data is None:
            node.data, node.size = bytearray(super().pread(fd, self.size(fd), 0)), None
        return node.data

    def pread(self, fd: int, size: int, position: int) -> bytes:
        node = self._open[fd]
        if node.data is not None:
            end = max(position, min(position + size, node.size_in_memory()))
            return bytes(node.data[position:end]).ljust(end - position, b"\0")
        if node.size is not None:
            size = max(0, min(size, node.size - position))
        return super().pread(fd, size, position)

    def pread_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        data = self.pread(fd, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, fd: int, data: ReadableBuffer, position: int) -> None:
        content = self._writable(fd)
        content.extend(bytes(max(0, position - len(content))))
        content[position : position + len(data)] = data

    def pwritev(self, fd: int, buffers: Sequence[ReadableBuffer], position: int, size: int) -> None:
        self.pwrite(fd, b"".join(buffers), position)

    def truncate(self, fd: int, size: int) -> None:
        node = self._open[fd]
        if node.data is None and size <= self.size(fd):
            node.size = size
            return
        content = self._writable(fd)
        del content[size:]
        node.size = size

    def fsync(self, fd: int) -> None:
        pass

    def size(self, fd: int) -> int:
        node = self._open[fd]
        if node.data is not None:
            return node.size_in_memory()
        return super().size(fd) if node.size is None else node.size

    def map(self, fd: int, size: int) -> View:
        data = self._open[fd].data
        if data is None:
            return super().map(fd, size)
        return memoryview(data)[:size].toreadonly() if size <= len(data) else self.pread(fd, size, 0)

    def sendfile(self, target: int, fd: int, position: int, size: int) -> int:
        if self._open[fd].data is None:
            return super().sendfile(target, fd, position, size)
        return os.write(target, self.pread(fd, size, position))

    def lock(self, fd: int) -> bool:
        return True

    def rename(self, source: str, target: str) -> None:
        node = self._node(source)
        for path, becomes in ((target, node), (source, None)):
            nodes, name = self._place(path)
            nodes[name] = becomes

    def unlink(self, path: str) -> None:
        self._node(path)
        nodes, name = self._place(path)
        nodes[name] = None

    def mkdir(self, path: str) -> None:
        raise PermissionError(30, "Read-only view", path)

    def rmdir(self, path: str) -> None:
        raise PermissionError(30, "Read-only view", path)

    def stat(self, path: str) -> os.stat_result:
        nodes, name = self._place(path)
        node = nodes.get(name, Node(path))
        if node is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if node.data is None and node.size is None and node.mtime is None:
            return super().stat(node.origin)
        origin = super().stat(node.origin) if super().exists(node.origin) else None
        mtime = node.mtime
        if mtime is None:
            mtime = origin.st_mtime if origin else 0.0
        if node.data is not None:
            size = node.size_in_memory()
        elif node.size is not None:
            size = node.size
        else:
            size = origin.st_size if origin else 0
        return os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, size, mtime, mtime, mtime))

    def exists(self, path: str) -> bool:
        nodes, name = self._place(path)
        return nodes[name] is not None if name in nodes else super().exists(path)

    def listdir(self, path: str) -> list[str]:
        names = set(super().listdir(path))
        for name, node in self._directories.get(path.rstrip("/") or "/", {}).items():
            (names.discard if node is None else names.add)(name)
        return sorted(names)

    def set_mtime(self, path: str, seconds: float) -> None:
        self._node(path).mtime = seconds

    def sync_directory(self, path: str) -> None:
        pass

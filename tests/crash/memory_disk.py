"""A disk in memory: what a log sees as a file system, made and thrown away ten thousand times a minute.

A state of the disk is a mapping from path to content. `MemoryDisk(state)` shares the contents until somebody writes,
so that a state costs no more than its dictionary. Directories are the parents of the paths, and those made with
`mkdir`.

Not promised: permissions, links, times of last change (a file is as old as it was set to be), more than one process.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from milepost.files import Disk
from milepost.log.directory import directory_lock

State = Mapping[str, bytes]

_devices = count(1 << 20)


class Node:
    """A file, whatever its name is at the moment."""

    __slots__ = ("data", "inode", "is_locked", "mtime")

    def __init__(self, inode: int, data: bytes | bytearray = b""):
        self.inode = inode
        self.data = data
        self.mtime = 0.0
        self.is_locked = False

    def writable(self) -> bytearray:
        if isinstance(self.data, bytes):
            self.data = bytearray(self.data)
        return self.data


class MemoryDisk(Disk):
    def __init__(self, state: State | None = None, directories: Iterable[str] = ()):
        self.device = next(_devices)
        self.nodes: dict[str, Node] = {}
        self.directories = {"/"}
        self.descriptors: dict[int, Node] = {}
        self._next = count(1)
        for path in directories:
            self._add_directory(path)
        for path, data in (state or {}).items():
            self.nodes[path] = Node(next(self._next), data)
            self._add_directory(posixpath.dirname(path))

    def _add_directory(self, path: str) -> None:
        while path not in self.directories:
            self.directories.add(path)
            path = posixpath.dirname(path)

    def state(self) -> dict[str, bytes]:
        """Every file as it is now."""
        return {path: bytes(node.data) for path, node in self.nodes.items()}

    def die(self) -> None:
        """The process that used this disk is gone: nobody holds its locks any more."""
        for node in self.nodes.values():
            directory_lock.held_by_this_process.discard((self.device, node.inode))

    def node(self, path: str) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return node

    # Open files.

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        node = self.nodes.get(path)
        if node is None:
            if not flags & os.O_CREAT or posixpath.dirname(path) not in self.directories:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            node = self.nodes[path] = Node(next(self._next))
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if flags & os.O_TRUNC:
            node.data = b""
        fd = next(self._next)
        self.descriptors[fd] = node
        return fd

    def close(self, fd: int) -> None:
        self.descriptors.pop(fd).is_locked = False

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return bytes(self.descriptors[fd].data[position : position + size])

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        content = self.descriptors[fd].writable()
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def pwritev(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview], position: int, size: int | None = None) -> int:
        data = b"".join(buffers)
        self.pwrite(fd, data, position)
        return len(data)

    def truncate(self, fd: int, size: int) -> None:
        content = self.descriptors[fd].writable()
        if size < len(content):
            del content[size:]
        else:
            content.extend(bytes(size - len(content)))

    def fsync(self, fd: int) -> None:
        assert fd in self.descriptors

    def size(self, fd: int) -> int:
        return len(self.descriptors[fd].data)

    def map(self, fd: int, size: int) -> bytes:
        return bytes(self.descriptors[fd].data[:size])

    def lock(self, fd: int) -> bool:
        node = self.descriptors[fd]
        if node.is_locked:
            return False
        node.is_locked = True
        return True

    # Names.

    def rename(self, source: str, target: str) -> None:
        if source in self.directories:
            self._rename_directory(source, target)
            return
        node = self.node(source)
        del self.nodes[source]
        self.nodes[target] = node

    def _rename_directory(self, source: str, target: str) -> None:
        def renamed(path: str) -> str:
            return target + path[len(source) :] if path == source or path.startswith(source + "/") else path

        self.nodes = {renamed(path): node for path, node in self.nodes.items()}
        self.directories = {renamed(path) for path in self.directories}

    def unlink(self, path: str) -> None:
        self.node(path)
        del self.nodes[path]

    def mkdir(self, path: str) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self.directories.add(path)

    def rmdir(self, path: str) -> None:
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self.directories.discard(path)

    def stat(self, path: str) -> os.stat_result:
        if path in self.directories:
            return os.stat_result((stat.S_IFDIR | 0o755, 0, self.device, 1, 0, 0, 0, 0.0, 0.0, 0.0))
        node = self.node(path)
        return os.stat_result(
            (stat.S_IFREG | 0o644, node.inode, self.device, 1, 0, 0, len(node.data), node.mtime, node.mtime, node.mtime)
        )

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.directories

    def listdir(self, path: str) -> list[str]:
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        start = len(path) + 1
        prefix = path + "/"
        return [
            known[start:] for known in (*self.nodes, *self.directories) if known.startswith(prefix) and "/" not in known[start:]
        ]

    def set_mtime(self, path: str, seconds: float) -> None:
        self.node(path).mtime = seconds

    def sync_directory(self, path: str) -> None:
        assert path in self.directories, path

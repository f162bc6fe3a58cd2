"""What a cluster of one remembers, on disk: a snapshot, and every change since, appended.

`milepost.cluster.json` in the first data directory (Kafka ignores it), replaced as a whole:

    {"version": 2, "generation": 7, ...}          the rest is `solo`'s; a file of version 1 has no generation: that is 0

`milepost.cluster.7.changes`, and others with higher numbers: changes that came after the snapshot of that generation, or of a lower
one. A line for each request that changed something; all its changes took effect together:

    bytes  field
    8      CRC-32C of the text, in hexadecimal
    1      a space
    n      text: a JSON list of changes
    1      a newline

A line is durable before the request is answered, and the next one is not begun before that. So only the last line of a file can be torn
by a crash, and it was never answered: it is left out, and what comes next goes to a file of the next generation. The same happens after
an error of the disk. A damaged line with a whole one behind it was not left by a crash, and ends the start with a sentence.

A snapshot is made at a clean stop, and when the changes have become larger than it: so a change costs what it says, however much there
is. Changes go to the next generation as soon as a snapshot is begun; files of generations below the snapshot's are removed after it.

Not promised: that a change which was refused because of the disk is gone after a crash, if the disk did not even let it be cut off.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from milepost.codec.crc32c import crc32c
from milepost.errors import KafkaStorage
from milepost.files import Disk, opened, read_file, remove_files, replace_file

FILE_NAME = "milepost.cluster.json"
VERSION = 2
NAME = re.compile(r"milepost\.cluster\.([0-9]{1,18})\.changes", re.ASCII)

Change = dict[str, Any]


class ChangeLog:
    def __init__(self, directory: str, disk: Disk):
        self.path = f"{directory}/{FILE_NAME}"
        self._directory = directory
        self._disk = disk
        self._generation = 0
        self._size = 0
        self.bytes_since_snapshot = 0
        self.snapshot_bytes = 0

    def _path_of(self, generation: int) -> str:
        return f"{self._directory}/milepost.cluster.{generation}.changes"

    def _generations(self) -> list[int]:
        """Of the files of changes that are there."""
        found = map(NAME.fullmatch, self._disk.listdir(self._directory))
        return sorted(int(match[1]) for match in found if match)

    # Reading.

    def read(self) -> tuple[dict[str, Any] | None, list[Change]]:
        """The snapshot, if there is one, and what changed since."""
        snapshot = self._read_snapshot()
        changes: list[Change] = []
        for generation in [each for each in self._generations() if each >= self._generation]:
            self._generation = generation
            changes += self._read_changes()
        return snapshot, changes

    def _read_snapshot(self) -> dict[str, Any] | None:
        try:
            data = read_file(self._disk, self.path)
        except FileNotFoundError:
            return None
        try:
            content = json.loads(data)
            version, self._generation = int(content.get("version", 1)), int(content.get("generation", 0))
        except (ValueError, TypeError, AttributeError) as error:
            raise self.damaged(error) from error
        if version > VERSION:
            raise KafkaStorage(f"{self.path}: is of version {version}, and this milepost knows {VERSION}; start a newer one")
        self.snapshot_bytes = len(data)
        assert isinstance(content, dict), "or it would have no version to get"
        return content

    def damaged(self, error: object) -> KafkaStorage:
        return KafkaStorage(
            f"{self.path}: not what this broker wrote ({error}); restore it, or move it away to start without topics"
        )

    def _read_changes(self) -> Iterator[Change]:
        path = self._path_of(self._generation)
        data = read_file(self._disk, path)
        self._size = position = 0
        for line in data.splitlines(keepends=True):
            changes = changes_in(line)
            if changes is not None:
                if position != self._size:
                    raise KafkaStorage(
                        f"{path}: what begins at byte {self._size} is not what this broker wrote, and whole lines follow it; restore "
                        "the file, or cut it there to start without the changes from there on"
                    )
                self._size += len(line)
                yield from changes
            position += len(line)
        self.bytes_since_snapshot += self._size
        if position != self._size:
            self._begin()

    # Writing.

    def append(self, changes: list[Change]) -> None:
        """Make changes durable, on whatever thread, one call at a time. OSError: they are not there."""
        data = line_of(changes)
        try:
            self._write(self._path_of(self._generation), data)
        except OSError:
            self._begin()
            raise
        self._size += len(data)
        self.bytes_since_snapshot += len(data)

    def _write(self, path: str, data: bytes) -> None:
        disk = self._disk
        with opened(disk, path, os.O_WRONLY | os.O_CREAT) as fd:
            try:
                disk.pwrite(fd, data, self._size)
                disk.fsync(fd)
                if not self._size:
                    disk.sync_directory(self._directory)
            except OSError:
                with suppress(OSError):
                    disk.truncate(fd, self._size)
                raise

    def _begin(self) -> None:
        """Go on in a new file."""
        self._generation += 1
        self._size = 0

    def begin_snapshot(self) -> int:
        """Changes from now on belong to the generation of a snapshot that is about to be written: its number."""
        self._begin()
        self.bytes_since_snapshot = 0
        return self._generation

    def write_snapshot(self, generation: int, content: bytes) -> int:
        """Put a snapshot in the place of all changes before its generation, on whatever thread; how large it is."""
        replace_file(self._disk, self.path, content)
        remove_files(self._disk, [self._path_of(each) for each in self._generations() if each < generation])
        return len(content)


class UnwrittenChanges(ChangeLog):
    """For directories that stay as they are: a cluster over them begins with nothing, and what changes is in its memory only."""

    def read(self) -> tuple[dict[str, Any] | None, list[Change]]:
        return None, []

    def append(self, changes: list[Change]) -> None:
        """Nothing is written to them."""


def line_of(changes: list[Change]) -> bytes:
    text = json.dumps(changes, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def changes_in(line: bytes) -> list[Change] | None:
    """What a line says; None for one that is damaged."""
    text = line[9:-1]
    if line[:9] != b"%08x " % crc32c(text) or line[-1:] != b"\n":
        return None
    changes: list[Change] = json.loads(text)
    return changes

"""What an export has done so far: the commits in its target, and finishing one that was interrupted.

    TARGET/
      .lock                              held by the driver while it exports
      _milepost/commits/0000000003.json  one per commit; the highest one is where the next begins
      _milepost/staging/RUN/…            files of tasks, not part of the table yet
      date=2018-05-15/hour=11/….parquet  the table; Spark and others pass over names that begin with `_` or `.`

    1  tasks write files into staging, whole and synced
    2  the commit is written: which files go where, and up to which offset the log is exported then. From here on it counts
    3  the files are moved to their places (Parquet), or added to the table's log (Delta)

A run that dies before 2 has exported nothing: its staging is removed. One that dies within 3 is finished by the next run, which does the
same moves again: a file that is in its place already is done. So every record is exported once.

Not promised: that a reader who lists the directory within 3 sees all of a commit at once (Delta promises that).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from milepost.errors import InvalidArgument, KafkaStorage
from milepost.files import Disk, make_directories, read_file, replace_file
from milepost.spark.bounds import offsets_from_json, offsets_to_json
from milepost.spark.sink.staging import remove_tree
from milepost.topic_partition import TopicPartition

VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One Parquet file: where it was staged and where it belongs, both below the target."""

    staged: str
    path: str
    rows: int
    size: int
    partition_values: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportCommit:
    number: int
    run: str
    settings: dict[str, Any]
    offsets: dict[TopicPartition, int]
    """Where each partition goes on."""
    files: tuple[ExportedFile, ...]

    @property
    def records(self) -> int:
        return sum(file.rows for file in self.files)


class ExportState:
    def __init__(self, disk: Disk, target: str):
        self.disk = disk
        self.target = target
        self.commits = f"{target}/_milepost/commits"
        self.staging = f"{target}/_milepost/staging"
        for path in (self.commits, self.staging):
            make_directories(disk, path)

    def last(self) -> ExportCommit | None:
        numbers = sorted(int(name[:-5]) for name in self.disk.listdir(self.commits) if name.endswith(".json"))
        return self._read(numbers[-1]) if numbers else None

    def _path(self, number: int) -> str:
        return f"{self.commits}/{number:010d}.json"

    def _read(self, number: int) -> ExportCommit:
        path = self._path(number)
        try:
            found = json.loads(read_file(self.disk, path))
            if found["version"] != VERSION:
                raise KafkaStorage(f"{path}: version {found['version']}, and {VERSION} is known; export with a newer milepost")
            files = tuple(ExportedFile(**file) for file in found["files"])
            return ExportCommit(found["commit"], found["run"], found["settings"], offsets_from_json(found["offsets"]), files)
        except (ValueError, TypeError, KeyError) as error:
            raise KafkaStorage(
                f"{path}: not what an export wrote ({error}); restore it, or export into another directory"
            ) from error

    def write(self, commit: ExportCommit) -> None:
        """From here on the commit counts."""
        content = {
            "version": VERSION, "commit": commit.number, "run": commit.run, "settings": commit.settings,
            "offsets": offsets_to_json(commit.offsets), "records": commit.records, "files": [asdict(file) for file in commit.files],
        }  # fmt: skip
        replace_file(self.disk, self._path(commit.number), json.dumps(content, indent=1).encode())

    def check_settings(self, last: ExportCommit | None, settings: dict[str, Any]) -> None:
        """One target is one table: what made it stays the same."""
        for name, value in settings.items():
            before = value if last is None else last.settings.get(name)
            if before != value:
                raise InvalidArgument(
                    f"{self.target}: was exported with {name}={before!r}, and now {value!r} is asked for; export into another directory"
                )

    def publish(self, commit: ExportCommit) -> int:
        """Move the files of a commit to their places; how many were not there yet."""
        moved = 0
        directories = set()
        for file in commit.files:
            staged, path = f"{self.target}/{file.staged}", f"{self.target}/{file.path}"
            if self.disk.exists(staged):
                make_directories(self.disk, path.rpartition("/")[0])
                self.disk.rename(staged, path)
                directories.add(path.rpartition("/")[0])
                moved += 1
            elif not self.disk.exists(path):
                raise KafkaStorage(
                    f"{path}: {file.rows} records were exported into it by commit {commit.number}, and it is gone; "
                    "restore it, or export into another directory"
                )
        for directory in sorted(directories):
            self.disk.sync_directory(directory)
        return moved

    def sweep(self) -> None:
        """Remove what runs left that are over. Whatever counts was moved out before."""
        for name in self.disk.listdir(self.staging):
            remove_tree(self.disk, f"{self.staging}/{name}")

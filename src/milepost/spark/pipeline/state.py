"""How far a pipeline has come: one file in its work directory, replaced as a whole after each step.

    {"version": 1, "run": 3, "stages": {"3 transform": {"run": 3, "ends": {"page_visits": {"0": 1250}}, "is_done": false}}}

A run that was killed is gone on with: stages that were done are passed over, and a stage that had begun reads up to the same offsets, so
that what it writes is the same and is recognised where it was written already.
"""

from __future__ import annotations

import json
from typing import Any

from milepost.errors import KafkaStorage
from milepost.files import Disk, read_file, replace_file
from milepost.spark.jobs.job import make_directories

VERSION = 1
FILE_NAME = "pipeline.json"


class PipelineState:
    def __init__(self, directory: str, disk: Disk):
        self.directory = directory
        self.path = f"{directory}/{FILE_NAME}"
        self.disk = disk
        self.run = 0
        self.is_finished = True
        self.stages: dict[str, dict[str, Any]] = {}
        self._load()

    def _load(self) -> None:
        try:
            content = json.loads(read_file(self.disk, self.path))
            self.run, self.is_finished, self.stages = content["run"], content["is_finished"], content["stages"]
        except FileNotFoundError:
            return
        except (ValueError, KeyError) as error:
            raise KafkaStorage(f"{self.path}: not what a pipeline wrote ({error}); move it away to begin anew") from error

    def _save(self) -> None:
        make_directories(self.disk, self.directory)
        content = {"version": VERSION, "run": self.run, "is_finished": self.is_finished, "stages": self.stages}
        replace_file(self.disk, self.path, json.dumps(content, indent=1, sort_keys=True).encode())

    def begin(self) -> bool:
        """A new run, or the one that did not finish; whether it is that one."""
        is_continued = not self.is_finished
        if not is_continued:
            self.run += 1
            self.is_finished = False
            self._save()
        return is_continued

    def end(self) -> None:
        self.is_finished = True
        self._save()

    def is_done(self, stage: str) -> bool:
        known = self.stages.get(stage, {})
        return known.get("run") == self.run and bool(known.get("is_done"))

    def of(self, stage: str) -> dict[str, Any]:
        """What a stage noted in this run; empty when it has not begun."""
        known = self.stages.get(stage, {})
        return known if known.get("run") == self.run else {}

    def note(self, stage: str, **values: Any) -> None:
        self.stages[stage] = {**self.of(stage), "run": self.run, **values}
        self._save()

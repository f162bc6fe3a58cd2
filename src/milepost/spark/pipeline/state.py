"""How far a pipeline has come: one file in its work directory, replaced as a whole after each step.

    {"version": 1, "id": "6f1c…", "run": 3, "is_finished": false, "definition": "9ab2…",
     "loaded": {"1 load": {"events-0.json": 81920}},
     "stages": {"3 transform": {"run": 3, "ends": {"page_visits": {"0": 1250}}, "is_done": false}}}

A run that was killed is gone on with: stages that were done are passed over, and a stage that had begun reads up to the same offsets, so
that what it writes is the same and is recognised where it was written already. What is recognised goes by the `id`, which is made with
the file: without the file a pipeline begins anew.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from milepost.errors import KafkaStorage
from milepost.files import Disk, read_file, replace_file
from milepost.spark.jobs.job import make_directories

VERSION = 1
FILE_NAME = "pipeline.json"
SAVED = ("id", "run", "is_finished", "definition", "loaded", "stages")


class PipelineState:
    def __init__(self, directory: str, disk: Disk):
        self.directory = directory
        self.path = f"{directory}/{FILE_NAME}"
        self.disk = disk
        self.id = uuid.uuid4().hex[:12]
        self.run = 0
        self.is_finished = True
        self.definition = ""
        self.loaded: dict[str, dict[str, int]] = {}
        self.stages: dict[str, dict[str, Any]] = {}
        self._load()

    def _load(self) -> None:
        try:
            content = json.loads(read_file(self.disk, self.path))
            for name in SAVED:
                setattr(self, name, content[name])
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            raise KafkaStorage(f"{self.path}: not what a pipeline wrote ({error}); move it away to begin anew") from error

    def _save(self) -> None:
        make_directories(self.disk, self.directory)
        content = {"version": VERSION, **{name: getattr(self, name) for name in SAVED}}
        replace_file(self.disk, self.path, json.dumps(content, indent=1, sort_keys=True).encode())

    def goes_on(self, definition: str) -> bool:
        """Whether the last run did not finish, and was one of the same stages."""
        return not self.is_finished and self.definition == definition

    def begin(self, definition: str) -> bool:
        """A new run, or the one that did not finish; whether it is that one."""
        if self.goes_on(definition):
            return True
        self.run += 1
        self.is_finished, self.definition = False, definition
        self._save()
        return False

    def end(self) -> None:
        self.is_finished = True
        self._save()

    def is_done(self, stage: str) -> bool:
        return bool(self.of(stage).get("is_done"))

    def of(self, stage: str) -> dict[str, Any]:
        """What a stage noted in this run; empty when it has not begun."""
        known = self.stages.get(stage, {})
        return known if known.get("run") == self.run else {}

    def note(self, stage: str, **values: Any) -> None:
        self.stages[stage] = {**self.of(stage), "run": self.run, **values}
        self._save()

    def note_loaded(self, stage: str, files: dict[str, int]) -> None:
        """Files that need not be loaded again in any run, with their sizes."""
        self.loaded[stage] = {**self.loaded.get(stage, {}), **files}
        self._save()

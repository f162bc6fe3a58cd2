"""How far a pipeline has come: one file in its work directory, replaced as a whole after each step.

    {"version": 2, "id": "6f1c…", "run": 3, "is_finished": false, "definition": "9ab2…",
     "known":  {"transform visits to out/top, top": {
                    "was": {"kind": "transform", "reads": ["topic visits"], "writes": ["parquet out/top", "topic top"], …},
                    "key": "transform-visits-4f00c1",
                    "outputs": {"parquet out/top": {"suffix": "0"}, "topic top": {"suffix": "1", "number": 2, …}}}},
     "loaded": {"load events to visits": {"events-0.json": 81920}},
     "stages": {"transform visits to out/top, top": {"run": 3, "ends": {"visits": {"0": 1250}}, "is_done": false}}}

`known` is what is kept of a stage from run to run: what it was, and the `key` that checkpoints and commits of its outputs are named after.
`stages` is what it noted in a run. Both go by the stage's name (`identity`).

A run that was killed is gone on with: stages that were done are passed over, and a stage that had begun reads up to the same offsets, so
that what it writes is the same and is recognised where it was written already. What is recognised goes by the `id`, which is made with
the file: without the file a pipeline begins anew.

Version 1 had no `known`, and went by the number of a stage, such as `3 transform` (`continuing` takes it over).
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from milepost.errors import KafkaStorage
from milepost.files import Disk, make_directories, read_file, replace_file

VERSION = 2
FILE_NAME = "pipeline.json"
SAVED = ("id", "run", "is_finished", "definition", "known", "loaded", "stages")


class PipelineState:
    def __init__(self, directory: str, disk: Disk):
        self.directory = directory
        self.path = f"{directory}/{FILE_NAME}"
        self.disk = disk
        self.version = VERSION
        self.id = uuid.uuid4().hex[:12]
        self.run = 0
        self.is_finished = True
        self.definition = ""
        self.known: dict[str, dict[str, Any]] = {}
        self.loaded: dict[str, dict[str, int]] = {}
        self.stages: dict[str, dict[str, Any]] = {}
        self._load()

    def _load(self) -> None:
        try:
            content = json.loads(read_file(self.disk, self.path))
            self.version = content["version"]
            if self.version > VERSION:
                raise KafkaStorage(f"{self.path}: version {self.version}, and {VERSION} is known; run it with a newer milepost")
            for name in SAVED:
                if name != "known" or self.version > 1:
                    setattr(self, name, content[name])
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            raise KafkaStorage(f"{self.path}: not what a pipeline wrote ({error}); move it away to begin anew") from error

    def save(self) -> None:
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
        self.save()
        return False

    def end(self) -> None:
        self.is_finished = True
        self.save()

    def is_done(self, stage: str) -> bool:
        return bool(self.of(stage).get("is_done"))

    def of(self, stage: str) -> dict[str, Any]:
        """What a stage noted in this run; empty when it has not begun."""
        known = self.stages.get(stage, {})
        return known if known.get("run") == self.run else {}

    def note(self, stage: str, **values: Any) -> None:
        self.stages[stage] = {**self.of(stage), "run": self.run, **values}
        self.save()

    def note_loaded(self, stage: str, files: dict[str, int]) -> None:
        """Files that need not be loaded again in any run, with their sizes."""
        self.loaded[stage] = {**self.loaded.get(stage, {}), **files}
        self.save()

    # What is kept from run to run.

    def key(self, stage: str) -> str:
        """What checkpoints and commits of a stage are named after. A stage that is renamed keeps it, one that begins anew does not."""
        kept = self.known.setdefault(stage, {})
        if "key" not in kept:
            kept["key"] = f"{re.sub(r'[^A-Za-z0-9_.]+', '-', stage)[:40].strip('-')}-{uuid.uuid4().hex[:6]}"
        return str(kept["key"])

    def output(self, stage: str, name: str) -> dict[str, Any]:
        """What is kept of one of a stage's outputs; its `suffix` tells it from the others."""
        outputs = self.known.setdefault(stage, {}).setdefault("outputs", {})
        if name not in outputs:
            taken = [int(each["suffix"]) for each in outputs.values()]
            outputs[name] = {"suffix": str(max(taken, default=-1) + 1)}
        found: dict[str, Any] = outputs[name]
        return found

    def rename(self, old: str, new: str) -> None:
        for kept in self._by_stage():
            if old in kept:
                kept[new] = kept.pop(old)

    def forget(self, stage: str) -> None:
        for kept in self._by_stage():
            kept.pop(stage, None)

    def _by_stage(self) -> tuple[dict[str, Any], ...]:
        return self.known, self.loaded, self.stages

"""A pipeline file: what to do with a log, in YAML.

    name: page_visits
    data: milepost-data                 the data directory; paths are relative to the file
    work: work                          where the pipeline keeps its state, checkpoints and evidence
    stages:
      - load:      {from: events, format: json, topic: page_visits, key: user, time: at, sort: true, partitions: 4}
      - verify:    {}
      - transform: {read: {visits: {topic: page_visits, schema: "user string, url string, at timestamp"}},
                    sql: sessions.sql, to: [{parquet: out/sessions}, {topic: sessions, key: user}]}
      - transform: {read: ..., stream: true, watermark: {visits: [at, 10 minutes]}, sql: top_pages.sql, to: [{parquet: out/top_pages}]}
      - export:    {topic: page_visits, to: out/page_visits, by: hour}
      - report:    {to: out/report.html}

What may stand there is in `file_schema`. Each stage may have a `name` (see `identity`). All mistakes are told in one go, with their
lines, before anything runs.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from milepost.errors import InvalidArgument, PipelineMistakes
from milepost.files import Disk, read_file
from milepost.spark.pipeline.checking import mistakes, told
from milepost.spark.pipeline.file_schema import Mistake, nearest
from milepost.spark.pipeline.identity import Identity, identity_of, names_of
from milepost.spark.pipeline.yaml_lines import YamlText

PATHS = ("from", "to", "parquet")


@dataclass(frozen=True, slots=True)
class Stage:
    number: int
    kind: str
    settings: Mapping[str, Any]
    identity: Identity = field(repr=False)
    name: str = field(default="", repr=False)
    """What is kept of the stage is kept under it. Neither it nor the identity is part of `Pipeline.digest`: the settings say it all."""
    place: str = field(default="", repr=False)
    """Where it stands: the file, the line, and which stage it is."""

    @property
    def title(self) -> str:
        return f"{self.number} {self.kind}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    data: str
    work: str
    stages: tuple[Stage, ...]

    def stage_named(self, name: str) -> Stage:
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = [stage.name for stage in self.stages]
        raise InvalidArgument(f"{name!r} is no stage of {self.name}{nearest(name, names)}; there are {'; '.join(names)}")

    @property
    def digest(self) -> str:
        """Another one for every other pipeline."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


class MistakesOfForm(PipelineMistakes):
    """What was found without Spark, which may find more in the stages that are right so far."""

    def __init__(self, lines: Sequence[str], stages: tuple[Stage, ...]):
        super().__init__(lines)
        self.stages = stages


def read_pipeline(path: str, disk: Disk | None = None) -> Pipeline:
    disk = disk or Disk()
    try:
        text = read_file(disk, path).decode()
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror}; a pipeline file is expected") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: not UTF-8 at byte {error.start}") from error
    return parse_pipeline(text, posixpath.dirname(posixpath.abspath(path)), path, disk)


def parse_pipeline(text: str, base: str, where: str, disk: Disk) -> Pipeline:
    source = YamlText(text, where)
    content = source.content
    found = [*source.twice, *mistakes(content, base), *_unreadable_queries(content, base, disk)]
    stages = _stages(source, {path[1] for path, _ in found if path[:1] == ("stages",) and len(path) > 1}, base, disk)
    found += _called_alike(stages)
    if found:
        found.sort(key=lambda mistake: source.line(mistake[0]))
        raise MistakesOfForm([told(source, path, what) for path, what in found], stages)
    work = content.get("work", f".{content['name']}")
    return Pipeline(content["name"], posixpath.join(base, content["data"]), posixpath.join(base, work), stages)


def _stages(source: YamlText, wrong: Container[str | int], base: str, disk: Disk) -> tuple[Stage, ...]:
    """Those in which there is no mistake."""
    listed = source.content.get("stages") if isinstance(source.content, dict) else None
    numbers = [number for number in range(len(listed) if isinstance(listed, list) else 0) if number not in wrong]
    given = {number: next(iter(listed[number].items())) for number in numbers} if listed else {}
    settings = {number: _settled(kind, each or {}, base, disk) for number, (kind, each) in given.items()}
    identities = {number: identity_of(given[number][0], settings[number], base) for number in numbers}
    names = names_of([(settings[number].get("name"), identities[number]) for number in numbers])
    return tuple(
        Stage(
            number + 1,
            given[number][0],
            settings[number],
            identities[number],
            name,
            f"{source.place(('stages', number))}: stage {number + 1} ({given[number][0]})",
        )
        for number, name in zip(numbers, names, strict=True)
    )


def _called_alike(stages: Sequence[Stage]) -> Iterator[Mistake]:
    first: dict[str, Stage] = {}
    for stage in stages:
        other = first.setdefault(stage.name, stage)
        if other is not stage:
            yield (
                ("stages", stage.number - 1, stage.kind),
                f"is called {stage.name!r}, as stage {other.number} is; give each a name of its own, such as {stage.kind}: "
                f"{{name: {stage.kind} {stage.number}, ...}}: what is kept of a stage goes by it",
            )


def _unreadable_queries(content: Any, base: str, disk: Disk) -> Iterator[Mistake]:
    """Files of queries that are named, in whatever of the file is right."""
    stages = content.get("stages") if isinstance(content, dict) else None
    for number, stage in enumerate(stages if isinstance(stages, list) else ()):
        settings = stage.get("transform") if isinstance(stage, dict) else None
        sql = settings.get("sql") if isinstance(settings, dict) else None
        if isinstance(sql, str):
            try:
                _sql(sql, base, disk)
            except OSError as error:
                yield ("stages", number, "transform", "sql"), f"is {error.filename or sql.strip()}: {error.strerror}"
            except UnicodeDecodeError as error:
                yield ("stages", number, "transform", "sql"), f"is {sql.strip()}: not UTF-8 at byte {error.start}"


def _settled(kind: str, given: Mapping[str, Any], base: str, disk: Disk) -> dict[str, Any]:
    """With paths from the root, and the query itself."""
    settings = dict(given)
    for name in PATHS:
        if isinstance(settings.get(name), str):
            settings[name] = posixpath.join(base, settings[name])
    if kind == "transform":
        settings["sql"] = _sql(settings["sql"], base, disk)
        settings["to"] = [_output(output, base) for output in settings["to"]]
    return settings


def _sql(given: str, base: str, disk: Disk) -> str:
    if not given.strip().endswith(".sql"):
        return given
    return read_file(disk, posixpath.join(base, given.strip())).decode()


def _output(given: Mapping[str, Any], base: str) -> dict[str, Any]:
    return {name: posixpath.join(base, value) if name == "parquet" else value for name, value in given.items()}

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

| stage | keys |
|---|---|
| load | from* (a directory), topic*, format (json, csv, parquet), schema, key, time, sort (by time), partitions, compression |
| verify | headers_only |
| transform | read* (view: topic*, schema*, format json or csv), sql* (text, or the name of a .sql file), to*, stream, watermark |
| export | topic*, to*, by (hour, date, none), format (parquet, delta) |
| stats | topic |
| report | to* |

A key with * must be there; one that is not in the table is a mistake and is named, with the nearest known one.
"""

from __future__ import annotations

import difflib
import hashlib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from milepost.errors import InvalidArgument
from milepost.files import Disk, read_file

STAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "load": (("from", "topic"), ("format", "schema", "key", "time", "sort", "partitions", "compression")),
    "verify": ((), ("headers_only",)),
    "transform": (("read", "sql", "to"), ("stream", "watermark")),
    "export": (("topic", "to"), ("by", "format")),
    "stats": ((), ("topic",)),
    "report": (("to",), ()),
}
"""(needed, possible) keys of each kind."""
PATHS = ("from", "to", "parquet")


@dataclass(frozen=True, slots=True)
class Stage:
    number: int
    kind: str
    settings: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.number} {self.kind}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    data: str
    work: str
    stages: tuple[Stage, ...]

    @property
    def digest(self) -> str:
        """Another one for every other pipeline."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


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
    import yaml

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidArgument(f"{where}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InvalidArgument(f"{where}: a mapping with name, data and stages is expected")
    check_keys(content, ("name", "data", "stages"), ("work",), where)
    if not isinstance(content["stages"], list) or not content["stages"]:
        raise InvalidArgument(f"{where}: stages is a list, such as - load: {{...}}")
    stages = tuple(_stage(number, given, base, where, disk) for number, given in enumerate(content["stages"], 1))
    work = str(content.get("work", f".{content['name']}"))
    return Pipeline(str(content["name"]), posixpath.join(base, str(content["data"])), posixpath.join(base, work), stages)


def _stage(number: int, given: Any, base: str, where: str, disk: Disk) -> Stage:
    place = f"{where}: stage {number}"
    if not isinstance(given, dict) or len(given) != 1:
        raise InvalidArgument(f"{place}: one kind of stage is expected, such as load: {{...}}")
    ((kind, settings),) = given.items()
    if kind not in STAGES:
        raise InvalidArgument(f"{place}: {kind} is no stage{nearest(kind, STAGES)}; there are {', '.join(STAGES)}")
    settings = dict(settings or {})
    check_keys(settings, *STAGES[kind], f"{place} ({kind})")
    for name in PATHS:
        if isinstance(settings.get(name), str):
            settings[name] = posixpath.join(base, settings[name])
    if kind == "transform":
        settings["sql"] = _sql(settings["sql"], base, place, disk)
        settings["to"] = [_output(output, base, place) for output in settings["to"]]
        for name, read in settings["read"].items():
            check_keys(read, ("topic", "schema"), ("format",), f"{place}, read {name}")
    return Stage(number, kind, settings)


def _sql(given: str, base: str, place: str, disk: Disk) -> str:
    if not given.strip().endswith(".sql"):
        return given
    path = posixpath.join(base, given.strip())
    try:
        return read_file(disk, path).decode()
    except OSError as error:
        raise InvalidArgument(f"{place}: {path}: {error.strerror}") from error


def _output(given: Any, base: str, place: str) -> dict[str, Any]:
    if not isinstance(given, dict) or len({"parquet", "topic"} & given.keys()) != 1:
        raise InvalidArgument(f"{place}: to is a list of {{parquet: DIRECTORY}} and {{topic: NAME}}")
    check_keys(given, (), ("parquet", "topic", "key", "partitions"), f"{place}, to")
    return {name: posixpath.join(base, value) if name == "parquet" else value for name, value in given.items()}


def check_keys(given: Mapping[str, Any], needed: tuple[str, ...], possible: tuple[str, ...], where: str) -> None:
    for name in needed:
        if given.get(name) is None:
            raise InvalidArgument(f"{where}: {name} is missing")
    for name in given:
        if name not in (*needed, *possible):
            raise InvalidArgument(f"{where}: {name} is unknown{nearest(name, (*needed, *possible))}")


def nearest(name: object, known: Any) -> str:
    near = difflib.get_close_matches(str(name), list(known), 1)
    return f"; is {near[0]} meant?" if near else ""

"""All mistakes of a pipeline file in one go: what `file_schema` says of each key, and what only holds between several."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from milepost.spark.pipeline.file_schema import APPEND, REPLACE, STAGES, TOP, Mistake, Path, nearest
from milepost.spark.pipeline.yaml_lines import YamlText


def mistakes(content: Any, base: str = "") -> Iterator[Mistake]:
    """All of them, with the keys that lead there; `base` is the directory that relative paths mean."""
    top = list(TOP.mistakes(content, ()))
    stages = content.get("stages") if isinstance(content, dict) else None
    if not isinstance(stages, list):
        yield from top
        return
    yield from (each for each in top if len(each[0]) < 2)
    written: dict[str, int] = {}
    right: list[tuple[str, Mapping[str, Any], Path]] = []
    for number, given in enumerate(stages):
        path: Path = ("stages", number)
        if not isinstance(given, dict) or len(given) != 1:
            yield path, "one kind of stage is expected, such as load: {...}"
            continue
        ((kind, settings),) = given.items()
        if kind not in STAGES:
            yield path, f"{kind} is no stage{nearest(kind, STAGES)}; there are {', '.join(STAGES)}"
            continue
        below = (*path, kind)
        wrong = list(STAGES[kind].mistakes({} if settings is None and not STAGES[kind].needed else settings, below))
        yield from wrong
        if not wrong and kind == "transform":
            yield from _in_transform(settings, below)
        if not wrong:
            yield from _written_twice(kind, settings or {}, number, below, written, base)
            right.append((kind, settings or {}, below))
    yield from _replaced_beside_others(right)


def _in_transform(settings: Mapping[str, Any], path: Path) -> Iterator[Mistake]:
    for view in settings.get("watermark") or {}:
        if view not in settings["read"]:
            yield (
                (*path, "watermark", view),
                f"is no view{nearest(view, settings['read'])}; there are {', '.join(settings['read'])}",
            )
    topics: set[str] = set()
    for number, output in enumerate(settings["to"]):
        if output.get("topic") in topics:
            yield (*path, "to", number, "topic"), f"is {output['topic']}, as in another output of this stage; name another topic"
        topics |= {output["topic"]} if "topic" in output else set()
        if len({"parquet", "topic"} & output.keys()) != 1:
            yield (*path, "to", number), "either parquet or topic is expected"
        for key in ("key", "partitions"):
            if "parquet" in output and key in output:
                yield (*path, "to", number, key), "is for topics, and this is a Parquet directory"
    places = [((*path, "mode"), settings), *(((*path, "to", at, "mode"), output) for at, output in enumerate(settings["to"]))]
    for place, given in places:
        mode = given.get("mode")
        if mode is not None and settings.get("stream"):
            yield place, f"is {mode}; a stream writes what is new, and has none"
        elif mode == APPEND and "parquet" in given:
            yield place, "is append; a Parquet directory is replaced as a whole, a topic can be appended to"


def _written_twice(
    kind: str, settings: Mapping[str, Any], number: int, path: Path, written: dict[str, int], base: str
) -> Iterator[Mistake]:
    """Two stages that write to one place would undo each other."""
    outputs: list[tuple[Path, str]] = []
    if kind in ("export", "report"):
        outputs = [((*path, "to"), settings["to"])]
    elif kind == "transform":
        outputs = [((*path, "to", at, "parquet"), each["parquet"]) for at, each in enumerate(settings["to"]) if "parquet" in each]
    places = [posixpath.normpath(posixpath.join(base, target)) for _, target in outputs]
    for (key, target), place in zip(outputs, places, strict=True):
        first = written.setdefault(place, number)
        if first != number or places.count(place) > 1:
            yield key, f"is {target}, where stage {first + 1} writes already; name another place"


def _replaced_beside_others(stages: Sequence[tuple[str, Mapping[str, Any], Path]]) -> Iterator[Mistake]:
    """`mode: replace` deletes all that was in the topic, and so what other stages wrote there."""
    writers: dict[str, list[int]] = {}
    replaced: list[tuple[Path, str]] = []
    for kind, settings, path in stages:
        outputs = settings["to"] if kind == "transform" else [settings] if kind == "load" else []
        for number, output in enumerate(outputs):
            if "topic" not in output:
                continue
            writers.setdefault(output["topic"], []).append(int(path[1]) + 1)
            if kind == "transform" and (output.get("mode") or settings.get("mode")) == REPLACE:
                replaced.append(((*path, "to", number), output["topic"]))
    for place, topic in replaced:
        others = [str(each) for each in writers[topic] if each != int(place[1]) + 1]
        if others:
            yield place, f"mode replace would delete from {topic} what stage {', '.join(others)} writes there; name another topic"


def told(source: YamlText, path: Path, what: str) -> str:
    """`p.yml:7: stage 2 (transform): partitions is 'many'; a whole number from 1 is expected`."""
    if path[:1] != ("stages",) or len(path) < 2:
        return f"{source.place(path)}: {' '.join(map(str, path))} {what}".replace(":  ", ": ")
    stage = f"stage {int(path[1]) + 1}" + (f" ({path[2]})" if len(path) > 2 else "")
    keys = [str(key) for key in path[3:] if isinstance(key, str)]
    where = f"{source.place(path)}: {stage}: "
    return where + (f"{', '.join(keys)} {what}" if keys else what)

"""All mistakes of a pipeline file in one go: what `file_schema` says of each key, and what only holds between several."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from milepost.spark.paths import is_below
from milepost.spark.pipeline.file_schema import APPEND, REPLACE, STAGES, TOP, Mistake, Path, nearest
from milepost.spark.pipeline.yaml_lines import YamlText

Stages = Sequence[tuple[str, Mapping[str, Any], Path]]
"""Kind, what is right of the settings, and the keys that lead there."""


def mistakes(content: Any, base: str = "") -> Iterator[Mistake]:
    """All of them, with the keys that lead there; `base` is the directory that relative paths mean."""
    top = list(TOP.mistakes(content, ()))
    stages = content.get("stages") if isinstance(content, dict) else None
    if not isinstance(stages, list):
        yield from top
        return
    yield from (each for each in top if len(each[0]) < 2)
    understood: list[tuple[str, Mapping[str, Any], Path]] = []
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
        right = right_part(settings, below, {path for path, _ in wrong})
        if kind == "transform":
            yield from _in_transform(right, below)
        understood.append((kind, right, below))
    yield from _written_twice(understood, base, _kept_places(content, understood, base))
    yield from _replaced_beside_others(understood)


def right_part(settings: Any, path: Path, wrong: Container[Path]) -> dict[str, Any]:
    """What is right of a stage's settings, for the checks that look at several of them: what is wrong was told already."""
    if not isinstance(settings, dict):
        return {}
    found = {name: each for name, each in settings.items() if (*path, name) not in wrong}
    if isinstance(found.get("to"), list):
        found["to"] = [{} if (*path, "to", at) in wrong else each for at, each in enumerate(found["to"])]
        found["to"] = [
            {name: each for name, each in output.items() if (*path, "to", at, name) not in wrong}
            for at, output in enumerate(found["to"])
        ]
    return found


def _in_transform(settings: Mapping[str, Any], path: Path) -> Iterator[Mistake]:
    views = settings.get("read")
    for view in settings.get("watermark") or {}:
        if views is not None and view not in views:
            yield (*path, "watermark", view), f"is no view{nearest(view, views)}; there are {', '.join(views)}"
    topics: set[str] = set()
    for number, output in enumerate(settings.get("to", ())):
        if output.get("topic") in topics:
            yield (*path, "to", number, "topic"), f"is {output['topic']}, as in another output of this stage; name another topic"
        topics |= {output["topic"]} if "topic" in output else set()
        for key in ("key", "partitions"):
            if "parquet" in output and key in output:
                yield (*path, "to", number, key), "is for topics, and this is a Parquet directory"
    places = [((*path, "mode"), settings), *(((*path, "to", at, "mode"), output) for at, output in enumerate(settings.get("to", ())))]
    for place, given in places:
        mode = given.get("mode")
        if mode is not None and settings.get("stream") is True:
            yield place, f"is {mode}; a stream writes what is new, and has none"
        elif mode == APPEND and "parquet" in given:
            yield place, "is append; a Parquet directory is replaced as a whole, a topic can be appended to"


def _kept_places(content: Mapping[str, Any], stages: Stages, base: str) -> dict[str, str]:
    """Places that are no stage's to write to, with what is there."""
    work = content.get("work", f".{content.get('name')}")
    found = {"the log": content.get("data"), "the pipeline's own state": work}
    found |= {f"what stage {int(path[1]) + 1} loads": settings.get("from") for kind, settings, path in stages if kind == "load"}
    return {absolute(place, base): what for what, place in found.items() if isinstance(place, str)}


def _written_twice(stages: Stages, base: str, kept: Mapping[str, str]) -> Iterator[Mistake]:
    """Two stages that write to one place would undo each other. A directory that is replaced takes with it whatever lies below."""
    outputs = [(path, *output) for kind, settings, path in stages for output in _outputs(kind, settings, path)]
    places = [absolute(target, base) for _, _, target, _ in outputs]
    for at, (_, key, target, is_replaced) in enumerate(outputs):
        place = places[at]
        for other, what in kept.items():
            if place == other or (is_replaced and is_below(other, place)):
                yield key, f"is {target}, where {what} is; name another place"
        if place in places[:at]:
            first = int(outputs[places.index(place)][0][1]) + 1
            yield key, f"is {target}, where stage {first} writes already; name another place"
        for (other_path, _, _, takes_all), other in zip(outputs, places, strict=True):
            if takes_all and place != other and is_below(place, other):
                first = int(other_path[1]) + 1
                yield key, f"is {target}, in a directory that stage {first} replaces as a whole; name another place"


def _outputs(kind: str, settings: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str, bool]]:
    """What a stage writes outside of topics, and whether it replaces a directory."""
    if kind in ("export", "report") and "to" in settings:
        yield (*path, "to"), settings["to"], False
    elif kind == "transform":
        for number, output in enumerate(settings.get("to", ())):
            if "parquet" in output:
                yield (*path, "to", number, "parquet"), output["parquet"], settings.get("stream") is not True


def absolute(place: str, base: str) -> str:
    return posixpath.normpath(posixpath.join(base, place))


def _replaced_beside_others(stages: Stages) -> Iterator[Mistake]:
    """`mode: replace` deletes all that was in the topic, and so what other stages wrote there."""
    writers: dict[str, list[int]] = {}
    replaced: list[tuple[Path, str]] = []
    for kind, settings, path in stages:
        outputs = settings.get("to", ()) if kind == "transform" else [settings] if kind == "load" else []
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

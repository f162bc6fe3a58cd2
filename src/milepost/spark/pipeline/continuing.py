"""What a changed pipeline file means for what is kept of its stages: each goes on, begins anew, or the run is refused.

A stage goes on under its name. Refused is what would lose records or write them twice:

- a load that reads from another place or writes to another topic; a stream that reads other topics; a query with state (groups, windows)
  that is another one; a stage that has become one of another kind
- a stage that is new while another one is gone that read or wrote the same: it may be the same one, renamed

`--restart STAGE` says: begin anew, with nothing kept. `--adopt OLD` says: it is the same one, go on; `--adopt STAGE=OLD` where several
could be meant. A stage that only was given a name, or lost it, is recognised: it reads and writes what it did.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.spark.pipeline.definition import Pipeline, Stage
from milepost.spark.pipeline.identity import TOPIC, Identity
from milepost.spark.pipeline.state import VERSION, PipelineState
from milepost.spark.pipeline.written import fingerprint

KEEPING = ("load", "transform")
"""Kinds of stages of which something is kept here. An export keeps it in its target."""

Tell = Callable[[str], object]


def settle(
    pipeline: Pipeline,
    state: PipelineState,
    disk: Disk,
    restart: Sequence[str] = (),
    adopt: Sequence[str] = (),
    tell: Tell = lambda line: None,
) -> None:
    """Bring what is kept in line with the pipeline, in memory. Whatever is refused raises, and nothing was changed on disk."""
    if state.version < VERSION:
        take_over(pipeline, state)
    for name in restart:
        state.forget(pipeline.stage_named(name).name)
    adopted = {adopt_one(pipeline, state, given) for given in adopt}
    for stage in pipeline.stages:
        if stage.kind not in KEEPING:
            continue
        if not has_state(pipeline, state, stage.name, disk):
            state.known.pop(stage.name, None)
            if stage.name not in restart:
                find_old(pipeline, state, stage, disk, tell)
        kept = state.known.setdefault(stage.name, {})
        if stage.name not in adopted and "was" in kept:
            ensure_same(pipeline, stage, Identity.from_json(kept["was"]), has_query_state(pipeline, state, stage.name, disk))
        kept["was"] = stage.identity.as_json()
        state.key(stage.name)


def take_over(pipeline: Pipeline, state: PipelineState) -> None:
    """State of version 1: by the numbers of the stages, when the file is still the one that it was kept for.

    When it is another one, the numbers say nothing: what is kept waits under its old name, `3 transform`, to be adopted or left.
    """
    is_same = state.definition == pipeline.digest
    titles = {stage.title: stage for stage in pipeline.stages}
    for title in {*state.loaded, *state.stages}:
        number, _, kind = title.partition(" ")
        kept: dict[str, Any] = {"key": number, "outputs": {}}
        noted = state.stages.get(title, {})
        if kind in KEEPING:
            state.known[title] = kept
        if is_same and title in titles:
            stage = titles[title]
            kept["was"] = stage.identity.as_json()
            for position, name in enumerate(stage.identity.writes):
                kept["outputs"][name] = {"suffix": str(position)}
                if name.startswith(TOPIC) and not stage.identity.is_stream and "ends" in noted:
                    kept["outputs"][name] |= {
                        "number": noted["run"],
                        "fingerprint": fingerprint(stage, stage.settings["to"][position], noted["ends"]),
                        "is_written": bool(noted.get("is_done")),
                    }
            state.rename(title, stage.name)
    state.version = VERSION


def has_state(pipeline: Pipeline, state: PipelineState, name: str, disk: Disk) -> bool:
    """Whether anything would be lost with what is kept of the stage."""
    if state.loaded.get(name) or "files" in state.of(name):
        return True
    outputs = state.known.get(name, {}).get("outputs", {})
    return any("number" in output for output in outputs.values()) or bool(checkpoints(pipeline, state, name, disk))


def checkpoints(pipeline: Pipeline, state: PipelineState, name: str, disk: Disk) -> list[str]:
    above = f"{pipeline.work}/checkpoints"
    key = state.known.get(name, {}).get("key")
    if key is None or not disk.exists(above):
        return []
    return [f"{above}/{found}" for found in disk.listdir(above) if found.rpartition(".")[0] == key]


def has_query_state(pipeline: Pipeline, state: PipelineState, name: str, disk: Disk) -> bool:
    """Spark keeps groups and windows of a stream there."""
    return any(disk.exists(posixpath.join(place, "state")) for place in checkpoints(pipeline, state, name, disk))


def ensure_same(pipeline: Pipeline, stage: Stage, was: Identity, has_groups: bool) -> None:
    now = stage.identity
    what = None
    if was.kind != now.kind:
        what = f"it was a {was.kind} stage"
    elif was.is_stream != now.is_stream:
        what = f"it was a {'stream' if was.is_stream else 'batch'}, and is a {'stream' if now.is_stream else 'batch'} now"
    elif (now.kind == "load" or now.is_stream) and was.reads != now.reads:
        what = f"it read {', '.join(was.reads)}, and reads {', '.join(now.reads)} now"
    elif now.kind == "load" and was.writes != now.writes:
        what = f"it wrote {', '.join(was.writes)}, and writes {', '.join(now.writes)} now"
    elif now.is_stream and was.query != now.query and has_groups:
        what = "its query is another one, and Spark keeps groups of the old one"
    if what is not None:
        name = shlex.quote(stage.name)
        raise InvalidArgument(
            f"{stage.title} ({stage.name}): {what}; --restart {name} begins anew with everything there is, "
            f"--adopt {name} goes on with what is new"
        )


def gone(pipeline: Pipeline, state: PipelineState, disk: Disk) -> list[str]:
    """Stages of which something is kept, and which the file has no more."""
    names = {stage.name for stage in pipeline.stages}
    return [name for name in state.known if name not in names and has_state(pipeline, state, name, disk)]


def find_old(pipeline: Pipeline, state: PipelineState, stage: Stage, disk: Disk, tell: Tell) -> None:
    """Of a stage that is new: recognise it under its old name, or refuse it where it may be one that is gone."""
    alike, same = [], []
    for name in gone(pipeline, state, disk):
        kept = state.known[name].get("was")
        if kept is None:
            if name.partition(" ")[2] == stage.kind:
                alike.append((name, f"was kept by an older milepost for stage {name} of another version of this file"))
            continue
        was = Identity.from_json(kept)
        if was.kind != stage.kind:
            continue
        if (was.reads, was.writes, was.is_stream) == (stage.identity.reads, stage.identity.writes, stage.identity.is_stream):
            same.append(name)
        common = set(was.writes) & set(stage.identity.writes)
        if stage.kind == "load" or stage.identity.is_stream or was.is_stream:
            common |= set(was.reads) & set(stage.identity.reads)
        else:
            common = {each for each in common if each.startswith(TOPIC)}
        if common:
            alike.append((name, f"is kept of {name!r}, which is gone from the file and had {', '.join(sorted(common))} too"))
    if len(same) == 1:
        state.rename(same[0], stage.name)
        tell(f"{stage.title}: goes on as {stage.name!r}, and was called {same[0]!r}")
    elif alike:
        old, why = alike[0]
        chosen = shlex.quote(old if len(alike) == 1 else f"{stage.name}={old}")
        raise InvalidArgument(
            f"{stage.title}: {stage.name!r} is new, and something {why}; --adopt {chosen} goes on with that, "
            f"--restart {shlex.quote(stage.name)} begins anew with everything there is"
        )


def adopt_one(pipeline: Pipeline, state: PipelineState, given: str) -> str:
    """Give what is kept under an old name to the stage that goes on with it; that stage's name."""
    new, _, old = given.rpartition("=")
    names = [stage.name for stage in pipeline.stages]
    if old not in state.known:
        raise InvalidArgument(f"--adopt {given}: nothing is kept of {old!r}; there is {'; '.join(state.known) or 'nothing'}")
    if not new and old in names:
        return old
    if not new:
        kept = state.known[old].get("was")
        kind = kept["kind"] if kept is not None else old.partition(" ")[2]
        fitting = [stage for stage in pipeline.stages if stage.kind == kind and "was" not in state.known.get(stage.name, {})]
        if kept is not None and len(fitting) > 1:
            places = {*kept["reads"], *kept["writes"]}
            fitting = [stage for stage in fitting if places & {*stage.identity.reads, *stage.identity.writes}]
        if len(fitting) != 1:
            raise InvalidArgument(
                f"--adopt {given}: which stage goes on with it? --adopt STAGE={shlex.quote(old)}, with one of {'; '.join(names)}"
            )
        new = fitting[0].name
    stage = pipeline.stage_named(new)
    if old in names:
        raise InvalidArgument(f"--adopt {given}: {old!r} is a stage of the file, and goes on itself")
    state.forget(stage.name)
    state.rename(old, stage.name)
    return stage.name

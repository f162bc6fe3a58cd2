"""Which stage a stage is: its name, and what it reads and writes.

What a pipeline keeps of a stage (files that were loaded, checkpoints, what was written) is kept under the stage's name, so that a stage may
be inserted, moved or removed and the others go on. A name is given (`name: top pages`) or made of what the stage reads and writes:

    load events to page_visits
    transform page_visits to out/pages, pages
    export page_visits to out/page_visits

Two stages with one name are refused. Only `verify` and `stats`, which keep nothing, are told apart by counting.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KEEPS_NOTHING = ("verify", "stats")
FILES, TOPIC, PARQUET, FILE = "files", "topic", "parquet", "file"


@dataclass(frozen=True, slots=True)
class Identity:
    """`reads` and `writes` are such as `topic page_visits` and `parquet out/pages`, with paths relative to the file."""

    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    is_stream: bool = False
    query: str = ""
    """Another one for every other query or schema."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "reads": list(self.reads), "writes": list(self.writes), "stream": self.is_stream, "query": self.query,
        }  # fmt: skip

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Identity:
        return cls(kept["kind"], tuple(kept["reads"]), tuple(kept["writes"]), kept["stream"], kept["query"])


def identity_of(kind: str, settings: Mapping[str, Any], base: str) -> Identity:
    def place(path: str) -> str:
        return posixpath.relpath(path, base)

    if kind == "load":
        return Identity(kind, (f"{FILES} {place(settings['from'])}",), (f"{TOPIC} {settings['topic']}",))
    if kind == "transform":
        reads = tuple(sorted({f"{TOPIC} {read['topic']}" for read in settings["read"].values()}))
        writes = tuple(output_name(output, base) for output in settings["to"])
        asked = [settings["sql"].split(), settings["read"], settings.get("watermark")]
        query = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return Identity(kind, reads, writes, bool(settings.get("stream")), query)
    if kind == "export":
        return Identity(kind, (f"{TOPIC} {settings['topic']}",), (f"{FILES} {place(settings['to'])}",))
    if kind == "report":
        return Identity(kind, (), (f"{FILE} {place(settings['to'])}",))
    return Identity(kind, (), ())


def output_name(output: Mapping[str, Any], base: str) -> str:
    if PARQUET in output:
        return f"{PARQUET} {posixpath.relpath(output[PARQUET], base)}"
    return f"{TOPIC} {output[TOPIC]}"


def names_of(given: Sequence[tuple[str | None, Identity]]) -> list[str]:
    """The name of each stage: the one that its file gives, or the one made of what it is."""
    names: list[str] = []
    kinds: Counter[str] = Counter()
    for name, identity in given:
        kinds[identity.kind] += 1
        if name is not None:
            names.append(name)
        elif identity.kind in KEEPS_NOTHING:
            names.append(f"{identity.kind} {kinds[identity.kind]}")
        else:
            names.append(made_name(identity))
    return names


def made_name(identity: Identity) -> str:
    def bare(places: tuple[str, ...]) -> str:
        return ", ".join(place.partition(" ")[2] for place in places)

    return f"{identity.kind} {bare(identity.reads)} to {bare(identity.writes)}".replace("  ", " ").replace("=", "-")

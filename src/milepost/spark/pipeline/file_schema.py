"""What may stand in a pipeline file: every key with its type, for the check before anything runs and, as a JSON Schema, for editors.

A type says in words what it expects and finds all that is wrong below a value: `mistakes` gives the keys that lead to each, and a sentence.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from milepost.topic_partition import LEGAL_TOPIC, MAX_TOPIC_LENGTH, topic_name_fault

Path = tuple[str | int, ...]
Mistake = tuple[Path, str]
REPLACE, APPEND = MODES = ("replace", "append")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Type(Protocol):
    @property
    def expected(self) -> str: ...

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]: ...

    def as_json_schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Text:
    expected: str = "a text"

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, str) or not value.strip():
            yield path, f"is {shortened(value)}; {self.expected} is expected"

    def as_json_schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class Topic:
    expected: str = "the name of a topic"

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        fault = topic_name_fault(value) if isinstance(value, str) else f"{self.expected} is expected"
        if fault is not None:
            yield path, f"is {shortened(value)}; {fault}"

    def as_json_schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{LEGAL_TOPIC.pattern}$", "maxLength": MAX_TOPIC_LENGTH, "not": {"enum": [".", ".."]}}


@dataclass(frozen=True, slots=True)
class Word:
    """A name that is to be told from others, such as a view's in a query: all of it has to match."""

    pattern: str
    expected: str

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            yield path, f"is {shortened(value)}; {self.expected} is expected"

    def as_json_schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self.pattern}$"}


@dataclass(frozen=True, slots=True)
class Flag:
    expected: str = "true or false"

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, bool):
            yield path, f"is {shortened(value)}; {self.expected} is expected"

    def as_json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Count:
    expected: str = "a whole number from 1"

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield path, f"is {shortened(value)}; {self.expected} is expected"

    def as_json_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1}


@dataclass(frozen=True, slots=True)
class Choice:
    values: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"{', '.join(self.values[:-1])} or {self.values[-1]}"

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if value not in self.values:
            yield path, f"is {shortened(value)}; {self.expected} is possible{nearest(value, self.values)}"

    def as_json_schema(self) -> dict[str, Any]:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Type
    expected: str
    least: int = 1
    most: int | None = None

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, list) or len(value) < self.least or (self.most is not None and len(value) > self.most):
            yield path, f"is {shortened(value)}; {self.expected} is expected"
            return
        for number, each in enumerate(value):
            yield from self.item.mistakes(each, (*path, number))

    def as_json_schema(self) -> dict[str, Any]:
        most = {} if self.most is None else {"maxItems": self.most}
        return {"type": "array", "items": self.item.as_json_schema(), "minItems": self.least, **most}


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping whose keys are names that the file chooses."""

    name: Word
    item: Type
    expected: str

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, dict) or not value:
            yield path, f"is {shortened(value)}; {self.expected} is expected"
            return
        for name, each in value.items():
            below = (*path, str(name))
            yield from self.name.mistakes(name, below)
            yield from self.item.mistakes(each, below)

    def as_json_schema(self) -> dict[str, Any]:
        names = self.name.as_json_schema()
        return {"type": "object", "propertyNames": names, "additionalProperties": self.item.as_json_schema(), "minProperties": 1}


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with these keys; those in `needed` must be there, and just one of `either`."""

    types: Mapping[str, Type]
    needed: tuple[str, ...] = ()
    expected: str = "a mapping"
    either: tuple[str, ...] = ()

    def mistakes(self, value: Any, path: Path) -> Iterator[Mistake]:
        if not isinstance(value, dict):
            yield path, f"is {shortened(value)}; {self.expected} is expected"
            return
        for name in self.needed:
            if value.get(name) is None:
                yield (*path, name), "is missing"
        if self.either and len(value.keys() & set(self.either)) != 1:
            yield path, f"either {' or '.join(self.either)} is expected"
        for name, each in value.items():
            if name not in self.types:
                yield (*path, name), f"is unknown{nearest(name, self.types)}"
            elif each is not None or name not in self.needed:
                yield from self.types[name].mistakes(each, (*path, name))

    def as_json_schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: each.as_json_schema() for name, each in self.types.items()},
            "additionalProperties": False,
        }
        if self.needed:
            found["required"] = list(self.needed)
        if self.either:
            found["oneOf"] = [{"required": [name]} for name in self.either]
        return found


TEXT, FLAG, COUNT, TOPIC = Text(), Flag(), Count(), Topic()
VIEW = Word("[A-Za-z_][A-Za-z0-9_]*", "the name of a view, of letters, digits and _,")
NAME = Word(r"[^=\s]([^=]*[^=\s])?", "a text without =")
READ = Keys(
    {"topic": TOPIC, "schema": TEXT, "format": Choice(("json", "csv"))},
    ("topic", "schema"),
    'a mapping such as {topic: visits, schema: "user string"}',
)
OUTPUT = Keys(
    {"parquet": TEXT, "topic": TOPIC, "key": TEXT, "partitions": COUNT, "mode": Choice(MODES)},
    expected="{parquet: DIRECTORY} or {topic: NAME}",
    either=("parquet", "topic"),
)
STAGES: dict[str, Keys] = {
    "load": Keys(
        {
            "from": TEXT, "topic": TOPIC, "format": Choice(("json", "csv", "parquet")), "schema": TEXT, "key": TEXT, "time": TEXT,
            "sort": FLAG, "partitions": COUNT, "compression": Choice(CODECS), "name": NAME,
        },
        ("from", "topic"),
        "a mapping such as {from: events, topic: visits}",
    ),
    "verify": Keys({"headers_only": FLAG, "name": NAME}),
    "transform": Keys(
        {
            "read": Named(VIEW, READ, "a mapping from views to topics"),
            "sql": Text("a query, or the name of a .sql file"),
            "to": ListOf(OUTPUT, "a list of {parquet: DIRECTORY} and {topic: NAME}"),
            "mode": Choice(MODES),
            "stream": FLAG,
            "watermark": Named(
                VIEW, ListOf(TEXT, "a column and a delay, such as [at, 10 minutes],", 2, 2), "a mapping from views to columns"
            ),
            "name": NAME,
        },
        ("read", "sql", "to"),
    ),
    "export": Keys(
        {
            "topic": TOPIC, "to": TEXT, "by": Choice(("hour", "date", "none")), "format": Choice(("parquet", "delta")), "name": NAME,
        },
        ("topic", "to"),
        "a mapping such as {topic: visits, to: out/visits}",
    ),
    "stats": Keys({"topic": TOPIC, "name": NAME}),
    "report": Keys({"to": TEXT, "name": NAME}, ("to",), "a mapping such as {to: out/report.html}"),
}  # fmt: skip
TOP = Keys(
    {"name": TEXT, "data": TEXT, "work": TEXT, "stages": ListOf(Keys({}), "a list, such as - load: {...},")},
    ("name", "data", "stages"),
    "a mapping with name, data and stages",
)


def json_schema() -> dict[str, Any]:
    """The whole file, as editors and `jsonschema` understand it."""
    found = TOP.as_json_schema()
    kinds = [
        {"type": "object", "properties": {kind: _or_nothing(keys)}, "required": [kind], "additionalProperties": False}
        for kind, keys in STAGES.items()
    ]
    found["properties"]["stages"] = {"type": "array", "items": {"oneOf": kinds}, "minItems": 1}
    return {"$schema": DRAFT, "title": "A milepost pipeline", **found}


def _or_nothing(keys: Keys) -> dict[str, Any]:
    """`- verify:` alone is enough where no key is needed."""
    schema = keys.as_json_schema()
    return schema if keys.needed else {"anyOf": [{"type": "null"}, schema]}


def nearest(name: object, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(known), 1)
    return f"; is {near[0]} meant?" if near else ""


def shortened(value: Any) -> str:
    """As it stands in the file, or nearly."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else "empty" if value in (None, "", [], {}) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

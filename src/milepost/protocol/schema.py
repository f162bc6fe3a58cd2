"""The schema of a message, read from the compact notation of `protocol/tables`.

    Produce                                             the API; one block each, blank line between
      request                                           then `response`
        acks: int16, timeout_ms: int32                  fields in wire order, several to a line
        transactional_id: string? 3+ = null             may be null; from version 3; default null
        topics: []?1+                                   array of structs (fields below, indented), may be null from version 1
          name: string 0-12 ~, topic_id: uuid 13+ ~     versions 0 to 12, then 13 and later
        current_leader: {} 10+ #0                       one struct, tagged field number 0
        replica_nodes: []int32                          array of a plain type

    int8 int16 int32 int64 uint16 float64 bool          int, float, bool
    string                                              str
    bytes                                               bytes
    uuid                                                bytes, 16 of them; all zero means none
    records                                             memoryview of the frame, not a copy; to be encoded: any sized buffer

A field without versions is there in all versions of the struct around it. `~` (ignorable): a value that the version being written
has no room for is dropped silently; without it that is an error, as in Kafka.
Defaults not given are 0, False, "", b"", [], the zero uuid, and for a struct one of defaults. One departure from Kafka: a tagged
struct that was not sent is None, not a struct of defaults.

Struct classes take the singular of their field's name in CamelCase, inside the class around them:
`ProduceRequest.TopicData.PartitionData`, `MetadataResponse.Broker`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ANY_VERSION = (0, 32767)
NUMBERS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "float64": "d", "bool": "?", "uuid": "16s"}
"""Types of fixed size, with their letter for `struct`."""
TYPES = {*NUMBERS, "string", "bytes", "records"}
ZERO_UUID = bytes(16)
IMPLIED_DEFAULTS = {"float64": 0.0, "bool": False, "string": "", "bytes": b"", "records": None, "uuid": ZERO_UUID}
WRITTEN_DEFAULTS = {"null": None, "true": True}


class Fresh:
    """A default that is made anew for each message: an empty list, or a struct of defaults."""


FRESH = Fresh()

Versions = tuple[int, int]
"""First and last, both included."""

_FIELD = re.compile(
    r"(?P<name>\w+): (?P<array>\[\])?(?P<struct>\{\})?(?P<type>[a-z]\w*)?(?P<null>\?(?P<nullable>\d[\d+-]*)?)?"
    r"(?: (?P<versions>\d[\d+-]*))?(?: #(?P<tag>\d+))?(?: = (?P<default>\S+))?(?P<ignorable> ~)?"
)


class Field:
    __slots__ = ("array", "default", "ignorable", "name", "nullable", "struct", "tag", "type", "versions")

    def __init__(self, text: str, parent: str, within: Versions) -> None:
        parts = _FIELD.fullmatch(text)
        if parts is None:
            raise ValueError(f"{parent}: {text!r} is not a field in the table's notation")
        self.name: str = parts["name"]
        self.array = parts["array"] is not None
        self.tag = None if parts["tag"] is None else int(parts["tag"])
        self.type: str = parts["type"] or "struct"
        if self.type not in TYPES and (self.type != "struct" or not (self.array or parts["struct"])):
            raise ValueError(f"{parent}.{self.name}: there is no type {self.type!r}")
        self.versions = overlap(parse_versions(parts["versions"]), within)
        self.nullable = (0, -1) if parts["null"] is None else parse_versions(parts["nullable"])
        self.ignorable = parts["ignorable"] is not None
        self.struct = Struct(f"{parent}.{class_name(self.name, self.array)}", self.versions) if self.type == "struct" else None
        self.default = self._default(parts["default"])

    def _default(self, written: str | None) -> object:
        if written is not None:
            return WRITTEN_DEFAULTS[written] if written in WRITTEN_DEFAULTS else int(written)
        if self.array:
            return FRESH
        if self.type == "struct":
            return None if self.tag is not None else FRESH
        return IMPLIED_DEFAULTS.get(self.type, 0)

    def exists_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]


class Struct:
    """A message, or a struct inside one; `name` is that of its class, with the classes around it."""

    __slots__ = ("fields", "name", "versions")

    def __init__(self, name: str, versions: Versions) -> None:
        self.name = name
        self.versions = versions
        self.fields: list[Field] = []

    @property
    def class_name(self) -> str:
        return self.name.rpartition(".")[2]

    def structs(self) -> Iterator[Struct]:
        for field in self.fields:
            if field.struct is not None:
                yield field.struct


def parse_versions(text: str | None) -> Versions:
    """`3+`, `0-12` or `4`; nothing at all means every version."""
    if text is None:
        return ANY_VERSION
    if text.endswith("+"):
        return int(text[:-1]), ANY_VERSION[1]
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def overlap(one: Versions, other: Versions) -> Versions:
    return max(one[0], other[0]), min(one[1], other[1])


def class_name(field: str, is_array: bool) -> str:
    """`partition_responses` -> `PartitionResponse`."""
    name = "".join(word[:1].upper() + word[1:] for word in field.split("_"))
    if not is_array or name.endswith(("ss", "us")) or not name.endswith("s"):
        return name
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-2] if name.endswith("ches") else name[:-1]


def blocks(table: str) -> dict[str, str]:
    """API name -> the text of its block."""
    return {block.partition("\n")[0]: block for block in table.strip().split("\n\n")}


def parse_block(block: str) -> tuple[Struct, Struct]:
    """The request and the response of one API."""
    lines = block.split("\n")
    messages: dict[str, Struct] = {}
    around: list[Struct] = []
    for line in lines[1:]:
        depth = (len(line) - len(line.lstrip())) // 2
        if depth == 1:
            kind = line.strip()
            messages[kind] = Struct(f"{lines[0]}{kind.capitalize()}", ANY_VERSION)
            around = [messages[kind]]
            continue
        del around[depth - 1 :]
        for text in line.strip().split(", "):
            field = Field(text, around[-1].name, around[-1].versions)
            around[-1].fields.append(field)
        if field.struct is not None:
            around.append(field.struct)
    return messages["request"], messages["response"]

"""How the coordinators lay out the keys and values of their topics: a version, the fields in order, then tagged fields.

    what            ordinary versions                 flexible versions (KIP-482)
    version         i16, before everything else       the same
    int, uuid       big-endian; 16 bytes              the same
    string          i16 length, UTF-8                 unsigned varint of length + 1, UTF-8
    bytes           i32 length                        unsigned varint of length + 1
    array           i32 count, elements               unsigned varint of count + 1, elements
    null            length or count -1                length or count 0
    struct          its fields                        its fields, then its tagged fields
    nullable struct not used                          unsigned varint 1, the struct; 0 null
    tagged fields   none                              unsigned varint count; of each: tag and size as unsigned
                                                      varints, then that many bytes

A tagged field is left out when it holds the value that `Field.absent` names. Tags that this file's users do not know are kept in
`unknown_tags` and written back, so that a record made by a newer Kafka survives a rewrite byte for byte.

Strings that are not UTF-8 decode with `surrogateescape` and encode to the same bytes.

Not promised: bytes that Kafka would accept but never write (tags out of order, varints longer than needed) encode to the
canonical form, not to themselves.
"""

from __future__ import annotations

import dataclasses
import struct
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import MISSING, dataclass
from typing import Any, Generic, NamedTuple, TypeVar, dataclass_transform

from milepost.codec.varint import read_unsigned_varint, write_unsigned_varint
from milepost.errors import InvalidArgument, InvalidRecord

T = TypeVar("T")

Tags = tuple[tuple[int, bytes], ...]

ZERO_UUID = uuid.UUID(int=0)
NEWEST = 2**15 - 1


class Form(NamedTuple):
    version: int
    flexible: bool


class Reader:
    """A place in the bytes of one key or value; `what` names it in errors."""

    __slots__ = ("data", "position", "what")

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.position = 0
        self.what = what

    def take(self, size: int) -> bytes:
        start = self.position
        if size < 0 or size > len(self.data) - start:
            left = len(self.data) - start
            raise InvalidRecord(
                f"{self.what}: {size} bytes are announced at byte {start}, but {left} of {len(self.data)} are left"
            )
        self.position = start + size
        return self.data[start : self.position]

    def unsigned_varint(self) -> int:
        value, self.position = read_unsigned_varint(self.data, self.position)
        return value

    def number(self, number_format: struct.Struct) -> int:
        value: int = number_format.unpack(self.take(number_format.size))[0]
        return value

    def remaining(self) -> int:
        return len(self.data) - self.position


I8, I16, I32, I64 = (struct.Struct(letter) for letter in (">b", ">h", ">i", ">q"))


def read_length(reader: Reader, form: Form, ordinary: struct.Struct) -> int | None:
    """The length of a string, bytes or array; None for null."""
    length = reader.unsigned_varint() - 1 if form.flexible else reader.number(ordinary)
    if length < -1:
        raise InvalidRecord(f"{reader.what}: length {length} before byte {reader.position} is below -1")
    return None if length == -1 else length


def write_length(out: bytearray, length: int | None, form: Form, ordinary: struct.Struct) -> None:
    if form.flexible:
        write_unsigned_varint(out, 0 if length is None else length + 1)
    else:
        out += pack(ordinary, -1 if length is None else length)


def pack(number_format: struct.Struct, value: int) -> bytes:
    try:
        return number_format.pack(value)
    except struct.error as error:
        raise InvalidArgument(f"{value!r} does not fit {number_format.size} bytes: {error}") from error


class FieldType:
    """Reads, writes and renders one kind of value; `render` gives what goes into JSON."""

    def read(self, reader: Reader, form: Form) -> Any:
        raise NotImplementedError

    def write(self, out: bytearray, value: Any, form: Form) -> None:
        raise NotImplementedError

    def writing(self, out: bytearray, value: Any, form: Form) -> Iterator[None]:
        """The same in pieces, for what may be long."""
        self.write(out, value, form)
        yield

    def render(self, value: Any, form: Form) -> Any:
        return value


Writer = tuple[str, Callable[[bytearray, Any, "Form"], None]]
"""The name of a field, and how it is written."""


@dataclass(frozen=True)
class Field:
    """One field: in the versions `since` to `until`; tagged when `tag` is set, and then not written while it equals `absent`."""

    name: str
    type: FieldType
    since: int
    until: int
    tag: int | None
    absent: Any

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def json_name(self) -> str:
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)


def carried(
    type: FieldType, *, default: Any = MISSING, since: int = 0, until: int = NEWEST, tag: int | None = None, absent: Any = MISSING
) -> Any:
    """A field that stands in the bytes, where its class names it: `offset: int = carried(INT64)`.

    `absent` is what a tagged field that was left out stands for, where that is not its default.
    """
    left_out = default if absent is MISSING else absent
    return dataclasses.field(
        default=default, metadata={"type": type, "since": since, "until": until, "tag": tag, "absent": left_out}
    )


@dataclass_transform(frozen_default=True, field_specifiers=(carried,))
def stored(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Makes a class of a key, of a value, or of a struct in one: its `carried` fields are in the order of their bytes."""
    return dataclass(frozen=True, slots=True, kw_only=kw_only)


class StructType(FieldType):
    """A `stored` class, with `unknown_tags` when it has flexible versions."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.fields = [Field(each.name, **each.metadata) for each in dataclasses.fields(cls) if each.metadata]
        self.positional = [field for field in self.fields if field.tag is None]
        self.tagged = {field.tag: field for field in self.fields if field.tag is not None}
        self._by_version: dict[int, list[Writer]] = {}

    def read(self, reader: Reader, form: Form) -> Any:
        return self.cls(**self.read_fields(reader, form))

    def read_fields(self, reader: Reader, form: Form) -> dict[str, Any]:
        values = {field.name: field.type.read(reader, form) for field in self.positional if field.is_in(form.version)}
        if form.flexible:
            values.update(self._read_tags(reader, form))
        return values

    def write(self, out: bytearray, value: Any, form: Form) -> None:
        for name, write in self._writers(form.version):
            write(out, getattr(value, name), form)
        if form.flexible:
            self._write_tags(out, value, form)

    def writing(self, out: bytearray, value: Any, form: Form) -> Iterator[None]:
        for field in self.positional:
            if field.is_in(form.version):
                yield from field.type.writing(out, getattr(value, field.name), form)
        if form.flexible:
            self._write_tags(out, value, form)

    def _writers(self, version: int) -> list[Writer]:
        """Looked up once: a record of a group may have thousands of these structs."""
        found = self._by_version.get(version)
        if found is None:
            found = [(field.name, field.type.write) for field in self.positional if field.is_in(version)]
            self._by_version[version] = found
        return found

    def render(self, value: Any, form: Form) -> dict[str, Any]:
        return {
            field.json_name: field.type.render(getattr(value, field.name), form)
            for field in self.fields
            if field.is_in(form.version) and (field.tag is None or getattr(value, field.name) != field.absent)
        }

    def _read_tags(self, reader: Reader, form: Form) -> dict[str, Any]:
        values = {field.name: field.absent for field in self.tagged.values()}
        unknown: list[tuple[int, bytes]] = []
        for _ in range(reader.unsigned_varint()):
            tag = reader.unsigned_varint()
            content = reader.take(reader.unsigned_varint())
            field = self.tagged.get(tag)
            if field is None or not field.is_in(form.version):
                unknown.append((tag, content))
                continue
            inner = Reader(content, f"{reader.what}, tag {tag} ({field.name})")
            values[field.name] = field.type.read(inner, form)
            if inner.remaining():
                raise InvalidRecord(f"{inner.what}: {inner.remaining()} of its {len(content)} bytes are left over")
        return values | {"unknown_tags": tuple(unknown)}

    def _write_tags(self, out: bytearray, value: Any, form: Form) -> None:
        if not self.tagged and not value.unknown_tags:
            out.append(0)
            return
        contents: dict[int, bytes] = dict(value.unknown_tags)
        for tag, field in self.tagged.items():
            content = getattr(value, field.name)
            if field.is_in(form.version) and content != field.absent:
                inner = bytearray()
                field.type.write(inner, content, form)
                contents[tag] = bytes(inner)
        write_unsigned_varint(out, len(contents))
        for tag, encoded in sorted(contents.items()):
            write_unsigned_varint(out, tag)
            write_unsigned_varint(out, len(encoded))
            out += encoded


class Layout(Generic[T]):
    """A whole key or value: the version, then a struct. `version_name` is the attribute that holds the version."""

    def __init__(
        self,
        cls: type[T],
        versions: Iterable[int],
        *,
        flexible_since: int = NEWEST,
        version_name: str = "schema_version",
    ) -> None:
        self.cls = cls
        self.versions = tuple(versions)
        self.body = StructType(cls)
        self.flexible_since = flexible_since
        self.version_name = version_name

    def form(self, version: int) -> Form:
        return Form(version, version >= self.flexible_since)

    def decode(self, data: bytes) -> T:
        """All of `data` as one value; a version outside `versions` or bytes left over raise InvalidRecord."""
        reader = Reader(data, self.cls.__name__)
        version = reader.number(I16)
        if version not in self.versions:
            raise InvalidRecord(f"{self.cls.__name__}: version {version} is not one of {self.versions[0]} to {self.versions[-1]}")
        value = self._read(reader, version)
        if reader.remaining():
            raise InvalidRecord(f"{self.cls.__name__} version {version}: {reader.remaining()} of {len(data)} bytes are left over")
        return value

    def decode_lenient(self, data: bytes) -> T:
        """As the consumer protocol reads: a newer version is read as the newest known one, and what follows is ignored."""
        reader = Reader(data, self.cls.__name__)
        version = min(reader.number(I16), self.versions[-1])
        if version < self.versions[0]:
            raise InvalidRecord(f"{self.cls.__name__}: version {version} is below the first, {self.versions[0]}")
        return self._read(reader, version)

    def encode(self, value: T) -> bytes:
        out, form = self._begin(value)
        self.body.write(out, value, form)
        return bytes(out)

    def encoding(self, value: T) -> Generator[None, None, bytes]:
        """The same in pieces: arrays at the top may have thousands of elements."""
        out, form = self._begin(value)
        yield from self.body.writing(out, value, form)
        return bytes(out)

    def _begin(self, value: T) -> tuple[bytearray, Form]:
        version: int = getattr(value, self.version_name)
        if version not in self.versions:
            raise InvalidArgument(
                f"{self.cls.__name__} has versions {self.versions[0]} to {self.versions[-1]}, not {version}:"
                f" set {self.version_name} to one of them"
            )
        return bytearray(pack(I16, version)), self.form(version)

    def render(self, value: T) -> dict[str, Any]:
        return self.body.render(value, self.form(getattr(value, self.version_name)))

    def _read(self, reader: Reader, version: int) -> T:
        return self.cls(**self.body.read_fields(reader, self.form(version)), **{self.version_name: version})
